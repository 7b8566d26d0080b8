"""Rows of the ledger: a run, its steps and resources, replicas and snapshot sets, as DynamoDB holds them.

Fields are attributes of the item. Documents in them are JSON, and so is a whole snapshot set.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter

from peaker.adapters.dynamodb.items import cluster_key, expiry, run_key, to_json
from peaker.domain.decoding import parsed_json, text_in
from peaker.domain.instants import to_iso
from peaker.domain.replicas.fleet import ReplicaRow
from peaker.domain.runs.execution_input import ExecutionInput
from peaker.domain.runs.ledger import ResourceKind, ResourceRow, RunRow, StepRow
from peaker.domain.storage.snapshot_sets import SnapshotSet

_RUN, _STEP, _RESOURCE = TypeAdapter(RunRow), TypeAdapter(StepRow), TypeAdapter(ResourceRow)
_REPLICA, _SET = TypeAdapter(ReplicaRow), TypeAdapter(SnapshotSet)
_COLUMNS = frozenset({
    "pk", "sk", "run_id", "cluster", "operation", "trigger", "outcome", "started_at", "finished_at", "expires_at",
    "request",
})  # fmt: skip


def run_row(item: Mapping[str, Any]) -> RunRow:
    """The request was checked when it was given: unknown fields are ignored. Parts are all that are no columns."""
    given = {"cluster": item["cluster"], **parsed_json(item["request"])}
    request = ExecutionInput.model_validate(given, extra="ignore")
    parts = {name: text for name in item if name not in _COLUMNS and (text := text_in(item, name)) != "{}"}
    return _RUN.validate_python({**item, "outcome": item["outcome"], "request": request, "parts": parts})


def index_key(started_at: datetime, run_id: str) -> str:
    return f"run#{to_iso(started_at)}#{run_id}"


def step_row(item: Mapping[str, Any]) -> StepRow:
    return _STEP.validate_python({**item, "numbers": parsed_json(item.get("numbers", "{}"))})


def replica_key(instance_id: str) -> str:
    return f"replica#{instance_id}"


def replica_item(replica: ReplicaRow) -> dict[str, Any]:
    row = _REPLICA.dump_python(replica, mode="json")
    parking = None if row["parking"] is None else to_json(row["parking"])
    key = {"pk": cluster_key(replica.cluster), "sk": replica_key(replica.instance_id)}
    return {**key, **row, "parking": parking}


def replica_row(cluster: str, item: Mapping[str, Any]) -> ReplicaRow:
    parking = None if item.get("parking") is None else parsed_json(item["parking"])
    return _REPLICA.validate_python({**item, "cluster": cluster, "parking": parking})


def resource_key(row: ResourceRow) -> str:
    return f"resource#{row.kind.value}#{row.name}"


def resource_item(run_id: str, row: ResourceRow) -> dict[str, Any]:
    fields = _RESOURCE.dump_python(row, mode="json")
    resource_id = fields.pop("resource_id")
    return {
        "pk": run_key(run_id),
        "sk": resource_key(row),
        **fields,
        "id": resource_id,
        "details": to_json(row.details),
        "expires_at": expiry(row.intended_at) if row.kind is ResourceKind.COMMAND else None,
    }


def resource_row(item: Mapping[str, Any]) -> ResourceRow:
    details = parsed_json(item["details"])
    return _RESOURCE.validate_python({**item, "resource_id": item.get("id"), "details": details})


def set_document(kept: SnapshotSet) -> str:
    return _SET.dump_json(kept).decode()


def snapshot_set(item: Mapping[str, Any]) -> SnapshotSet:
    return _SET.validate_json(item["document"])
