"""The ledger in DynamoDB. Keys: cluster#<cluster> (lease, replicas, index of runs), run#<run id> (all of a run).

Runs, steps and resources do not expire: a replica may serve for years. Others expire after `items.KEPT_FOR`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any

from peaker.adapters.dynamodb.items import (
    ConditionFailed,
    LedgerTable,
    cluster_key,
    expiry,
    run_key,
    to_json,
)
from peaker.adapters.dynamodb.ledger_items import (
    index_key,
    replica_item,
    replica_key,
    replica_row,
    resource_item,
    resource_key,
    resource_row,
    run_row,
    set_document,
    snapshot_set,
    step_row,
)
from peaker.domain.decoding import parsed_json, understood
from peaker.domain.instants import to_iso
from peaker.domain.replicas.fleet import ReplicaRow, ReplicaState
from peaker.domain.runs.ledger import (
    UNFINISHED_OUTCOMES,
    Holder,
    PartT,
    ResourceKind,
    ResourceRow,
    ResourceState,
    RunPart,
    RunRow,
    StepRow,
    find,
)
from peaker.domain.storage.snapshot_sets import SnapshotSet
from peaker_contract.errors import LedgerInconsistent, Throttled


class DynamoDbLedger:
    """Port Ledger."""

    def __init__(self, table: LedgerTable) -> None:
        self._table = table

    def require_lease(self, holder: Holder) -> None:
        self._table.require_lease(holder)

    def fence_member(self, holder: Holder, at: datetime) -> int:
        return self._table.fence_member(holder, at)

    def member_token(self, run_id: str) -> int:
        return self._table.member_token(run_id)

    def open_run(self, holder: Holder, run: RunRow) -> None:
        common = {
            "run_id": run.run_id,
            "cluster": run.cluster,
            "operation": run.operation,
            "trigger": run.request.trigger.kind,
            "outcome": run.outcome,
            "started_at": to_iso(run.started_at),
        }
        listed = {**common, "expires_at": expiry(run.started_at)}
        documents = {"request": run.request.model_dump_json(), **run.parts}
        with suppress(ConditionFailed):
            self._table.put_new(
                holder,
                [
                    {"pk": run_key(run.run_id), "sk": "run", **common, **documents},
                    {"pk": cluster_key(run.cluster), "sk": index_key(run.started_at, run.run_id), **listed},
                ],
            )

    def run(self, run_id: str) -> RunRow:
        item = self._table.get(run_key(run_id), "run")
        if item is None:
            raise LedgerInconsistent(f"the ledger has no run {run_id}")
        with understood(LedgerInconsistent, f"the ledger's row of {run_id}"):
            return run_row(item)

    def unfinished_runs(self, cluster: str) -> list[RunRow]:
        listed = self._table.query(cluster_key(cluster), "run#")
        runs = [self.run(item["run_id"]) for item in listed if item["outcome"] in UNFINISHED_OUTCOMES]
        return [run for run in runs if run.outcome in UNFINISHED_OUTCOMES]

    def settle(self, holder: Holder, *parts: RunPart) -> None:
        self._update_run(holder, {part.ledger_name: part.model_dump_json() for part in parts})

    def settle_first(self, holder: Holder, part: PartT) -> PartT:
        self._update_run(
            holder, {part.ledger_name: part.model_dump_json()}, keep=frozenset({part.ledger_name})
        )
        return self.run(holder.run_id).required(type(part), part.ledger_name)

    def close_run(self, holder: Holder, outcome: str, finished_at: datetime) -> None:
        ended = {"outcome": outcome, "finished_at": to_iso(finished_at)}
        listed = index_key(self.run(holder.run_id).started_at, holder.run_id)
        keys = [(run_key(holder.run_id), "run"), (cluster_key(holder.cluster), listed)]
        self._table.update_all(holder, keys, ended)

    def start_step(self, holder: Holder, step: str, at: datetime, lease_until: datetime) -> None:
        self._table.update(
            holder,
            run_key(holder.run_id),
            f"step#{step}",
            {"step": step, "started_at": to_iso(at)},
            keep=frozenset({"started_at"}),
            lease_until=to_iso(lease_until),
        )

    def finish_step(self, holder: Holder, step: str, at: datetime, numbers: Mapping[str, Any]) -> None:
        self._table.update(
            holder,
            run_key(holder.run_id),
            f"step#{step}",
            {"finished_at": to_iso(at), "numbers": to_json(numbers)},
        )

    def steps(self, run_id: str) -> list[StepRow]:
        with understood(LedgerInconsistent, f"a step in the ledger of {run_id}"):
            rows = [step_row(item) for item in self._table.query(run_key(run_id), "step#")]
        return sorted(rows, key=lambda row: (row.started_at, row.step))

    def intend(
        self,
        holder: Holder,
        kind: ResourceKind,
        name: str,
        step: str,
        at: datetime,
        details: Mapping[str, Any],
    ) -> ResourceRow:
        rows = self.resources(holder.run_id)
        existing = find(rows, kind, name)
        if existing is not None:
            return existing
        number = max((row.number for row in rows), default=0) + 1
        row = ResourceRow(number, kind, name, ResourceState.INTENDED, step, at, details=dict(details))
        try:
            self._table.put_new(holder, [resource_item(holder.run_id, row)])
        except ConditionFailed:
            # Another call of the step wrote it just now.
            return next(one for one in self.resources(holder.run_id) if (one.kind, one.name) == (kind, name))
        return row

    def claim(self, holder: Holder, call: str, at: datetime, until: datetime) -> bool:
        key = {"pk": run_key(holder.run_id), "sk": f"claim#{call}"}
        try:
            self._table.put_after(holder, {**key, "until": to_iso(until)}, "until", to_iso(at))
        except ConditionFailed:
            return False
        return True

    def made(self, holder: Holder, row: ResourceRow, resource_id: str, at: datetime) -> ResourceRow:
        made = replace(row, state=ResourceState.MADE, resource_id=resource_id, made_at=row.made_at or at)
        self._table.put(holder, resource_item(holder.run_id, made))
        return made

    def mark(self, holder: Holder, run_id: str, row: ResourceRow, state: ResourceState) -> None:
        self._table.update(
            holder, run_key(run_id), resource_key(row), {"state": state.value}, must_exist=True
        )

    def resources(self, run_id: str) -> list[ResourceRow]:
        with understood(LedgerInconsistent, f"a resource in the ledger of {run_id}"):
            rows = [resource_row(item) for item in self._table.query(run_key(run_id), "resource#")]
        return sorted(rows, key=lambda row: (row.number, row.kind, row.name))

    def add_replica(self, holder: Holder, replica: ReplicaRow) -> None:
        with suppress(ConditionFailed):
            self._table.put_new(holder, [replica_item(replica)])

    def set_replica(self, holder: Holder, replica: ReplicaRow) -> None:
        self._table.put(holder, replica_item(replica))

    def begin_exit(self, holder: Holder, replica: ReplicaRow, staying: Collection[str]) -> None:
        keys = [(cluster_key(replica.cluster), replica_key(one)) for one in staying]
        try:
            self._table.put_while(holder, replica_item(replica), keys, "state", ReplicaState.IN_SERVICE.value)
        except ConditionFailed as left:
            raise Throttled(
                f"one of {', '.join(staying)}, on which {replica.instance_id} counts, began to leave just now; "
                "count again"
            ) from left

    def replicas(self, cluster: str) -> dict[str, ReplicaRow]:
        with understood(LedgerInconsistent, f"a replica in the ledger of {cluster}"):
            rows = [
                replica_row(cluster, item) for item in self._table.query(cluster_key(cluster), "replica#")
            ]
        return {row.instance_id: row for row in rows}

    def keep_snapshots(self, holder: Holder, kept: SnapshotSet) -> None:
        self._put_set(holder, kept, {})

    def forget_snapshots(self, holder: Holder, kept: SnapshotSet, at: datetime) -> None:
        # The row stays for as long as a run's rows do: what became of the set can be read.
        self._put_set(holder, kept, {"gone_at": to_iso(at), "expires_at": expiry(at)})

    def _put_set(self, holder: Holder, kept: SnapshotSet, more: Mapping[str, Any]) -> None:
        key = {"pk": cluster_key(kept.cluster), "sk": f"snapshots#{kept.run_id}"}
        self._table.put(holder, {**key, "document": set_document(kept), **more})

    def snapshot_sets(self, cluster: str) -> list[SnapshotSet]:
        rows = self._table.query(cluster_key(cluster), "snapshots#")
        with understood(LedgerInconsistent, f"a snapshot set in the ledger of {cluster}"):
            found = [snapshot_set(item) for item in rows if "gone_at" not in item]
        return sorted(found, key=lambda one: (one.kept_at, one.run_id))

    def save_receipt(self, holder: Holder, receipt: Mapping[str, Any]) -> None:
        started_at = self.run(holder.run_id).started_at
        self._table.put(
            holder,
            {
                "pk": run_key(holder.run_id),
                "sk": "receipt",
                "document": to_json(receipt),
                "expires_at": expiry(started_at),
            },
        )

    def receipt(self, run_id: str) -> dict[str, Any] | None:
        item = self._table.get(run_key(run_id), "receipt")
        if item is None:
            return None
        with understood(LedgerInconsistent, f"the receipt in the ledger of {run_id}"):
            return dict(parsed_json(item["document"]))

    def _update_run(
        self, holder: Holder, values: Mapping[str, Any], keep: frozenset[str] = frozenset()
    ) -> None:
        try:
            self._table.update(holder, run_key(holder.run_id), "run", values, keep=keep, must_exist=True)
        except ConditionFailed as missing:
            raise LedgerInconsistent(f"the ledger has no run {holder.run_id}") from missing
