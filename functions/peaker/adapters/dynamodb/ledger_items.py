"""Rows of the ledger: a run, its steps and resources, replicas and snapshot sets, as DynamoDB holds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from functools import lru_cache
from typing import Any

from peaker.adapters.dynamodb.items import (
    cluster_key,
    expiry,
    run_key,
    to_json,
)
from peaker.domain.decoding import parsed_json, text_in
from peaker.domain.instants import from_iso, to_iso
from peaker.domain.replicas.fleet import Parking, ReplicaRow
from peaker.domain.runs.execution_input import ExecutionInput
from peaker.domain.runs.ledger import (
    ResourceKind,
    ResourceRow,
    ResourceState,
    StepRow,
)
from peaker.domain.storage.snapshot_sets import SnapshotSet

_COLUMNS = frozenset({
    "pk", "sk", "run_id", "cluster", "operation", "trigger", "outcome", "started_at", "finished_at", "expires_at",
    "request",
})  # fmt: skip


def request(item: Mapping[str, Any]) -> ExecutionInput:
    """Decodes the run's request, which was checked when it was given; unknown fields are ignored."""
    given = {"cluster": item["cluster"], **parsed_json(item["request"])}
    return ExecutionInput.model_validate(given, extra="ignore")


def parts(item: Mapping[str, Any]) -> dict[str, str]:
    """Returns the item's parts: all that are not columns of the row. An empty document is none."""
    texts = {name: text_in(item, name) for name in item if name not in _COLUMNS}
    return {name: text for name, text in texts.items() if text != "{}"}


def index_key(started_at: datetime, run_id: str) -> str:
    return f"run#{to_iso(started_at)}#{run_id}"


def replica_key(instance_id: str) -> str:
    return f"replica#{instance_id}"


def replica_item(replica: ReplicaRow) -> dict[str, Any]:
    return {
        "pk": cluster_key(replica.cluster),
        "sk": replica_key(replica.instance_id),
        "instance_id": replica.instance_id,
        "run_id": replica.run_id,
        "state": replica.state.value,
        "changed_at": to_iso(replica.changed_at),
        "parking": None if replica.parking is None else to_json(_parking_document(replica.parking)),
        "unhealthy_since": replica.unhealthy_since and to_iso(replica.unhealthy_since),
    }


def resource_key(row: ResourceRow) -> str:
    return f"resource#{row.kind.value}#{row.name}"


def resource_item(run_id: str, row: ResourceRow) -> dict[str, Any]:
    return {
        "pk": run_key(run_id),
        "sk": resource_key(row),
        "number": row.number,
        "kind": row.kind.value,
        "name": row.name,
        "state": row.state.value,
        "step": row.step,
        "intended_at": to_iso(row.intended_at),
        "made_at": None if row.made_at is None else to_iso(row.made_at),
        "id": row.resource_id,
        "details": to_json(row.details),
        "expires_at": expiry(row.intended_at) if row.kind is ResourceKind.COMMAND else None,
    }


def resource_row(item: Mapping[str, Any]) -> ResourceRow:
    given = (item["number"], item["kind"], item["name"], item["state"], item["step"], item["intended_at"])
    return _resource_row_of(*given, item.get("made_at"), item.get("id"), item["details"])


# A run's rows are read at each of its steps, and few have changed since the last one.
@lru_cache(maxsize=1024, typed=True)
def _resource_row_of(
    number: Any,
    kind: Any,
    name: Any,
    state: Any,
    step: Any,
    intended_at: Any,
    made_at: Any,
    found_id: Any,
    details: Any,
) -> ResourceRow:
    return ResourceRow(
        number=int(number),
        kind=ResourceKind(kind),
        name=text_in({"name": name}, "name"),
        state=ResourceState(state),
        step=text_in({"step": step}, "step"),
        intended_at=from_iso(intended_at),
        made_at=time_of(made_at),
        resource_id=found_id,
        details=dict(parsed_json(details)),
    )


def _parking_document(parking: Parking) -> dict[str, Any]:
    optional = ("until", "incomplete_since")
    times = {name: (at := getattr(parking, name)) and to_iso(at) for name in optional}
    return {**asdict(parking), "parked_at": to_iso(parking.parked_at), **times}


def parking(text: str | None) -> Parking | None:
    if text is None:
        return None
    stored = parsed_json(text)
    times = {
        "parked_at": from_iso(stored["parked_at"]),
        "until": time_of(stored["until"]),
        "incomplete_since": time_of(stored.get("incomplete_since")),
    }
    parking = Parking(**{**stored, **times})
    for name in ("gtid_set", "until_reason", "spent", "failed_return"):
        if not isinstance(getattr(parking, name), str | None):
            raise TypeError(f"{name} of its parking is no text")
    return parking


def snapshot_set(stored: Mapping[str, Any]) -> SnapshotSet:
    found = SnapshotSet(**{**stored, "kept_at": from_iso(stored["kept_at"])})
    for name in ("snapshots", "sources"):
        if not all(isinstance(one, str) for one in getattr(found, name).values()):
            raise TypeError(f"{name} holds what is no id")
    if not all(isinstance(one, int | None) for one in found.full_bytes.values()):
        raise TypeError("full_bytes holds what is no number of bytes")
    if not isinstance(found.manifest, dict):
        raise TypeError("manifest is no document")
    return found


def step_row(item: Mapping[str, Any]) -> StepRow:
    return StepRow(
        step=text_in(item, "step"),
        started_at=from_iso(item["started_at"]),
        finished_at=time_of(item.get("finished_at")),
        numbers=dict(parsed_json(item.get("numbers", "{}"))),
    )


def time_of(text: str | None) -> datetime | None:
    return None if text is None else from_iso(text)
