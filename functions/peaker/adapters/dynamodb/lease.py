"""The lease of a cluster: one item, taken by conditional write.

Its end is `held_until`, not the table's TTL attribute: the row must outlive every run, so that the fencing token
only ever grows.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime

from peaker.adapters.dynamodb.items import ConditionFailed, LedgerTable, cluster_key
from peaker.domain.decoding import text_in, understood
from peaker.domain.instants import from_iso, in_words, to_iso
from peaker.domain.runs.ledger import SHORT_OPERATIONS, Holder, LeaseRow
from peaker_contract.errors import LeaseHeld, LeaseSettling, LedgerInconsistent, Throttled

_NOBODY = "-"
# Never held; given back and settled; or held by a run whose time is up.
_FREE = " OR ".join((
    "attribute_not_exists(pk)",
    "run_id = :nobody AND attribute_not_exists(settled_at)",
    "run_id = :nobody AND settled_at <= :now",
    "run_id = :nobody AND settling_run = :run",
    "run_id = :nobody AND fencing_token = :after",
    "run_id <> :nobody AND held_until <= :now",
))  # fmt: skip


class DynamoDbLease:
    """Port Lease."""

    def __init__(self, table: LedgerTable) -> None:
        self._table = table

    def acquire(
        self,
        cluster: str,
        run_id: str,
        operation: str,
        now: datetime,
        until: datetime,
        *,
        fence: bool = False,
        after: Holder | None = None,
    ) -> Holder:
        held = self.current(cluster, now)
        if held is not None and held.run_id == run_id and not fence:
            return Holder(cluster, run_id, held.fencing_token)
        try:
            item = self._table.update_if(
                cluster_key(cluster),
                "lease",
                "SET run_id = :run, operation = :operation, held_until = :until ADD fencing_token :one",
                _FREE + (" OR run_id = :run" if fence else ""),
                {
                    ":run": run_id,
                    ":operation": operation,
                    ":until": to_iso(until),
                    ":one": 1,
                    ":nobody": _NOBODY,
                    ":now": to_iso(now),
                    # Tokens are whole numbers: no lease has this one.
                    ":after": -1 if after is None else after.fencing_token,
                },
            )
        except ConditionFailed:
            return self._taken(cluster, run_id, now)
        return Holder(cluster, run_id, int(item["fencing_token"]))

    def release(self, holder: Holder, settled_at: datetime) -> None:
        with suppress(ConditionFailed):
            self._table.update_if(
                cluster_key(holder.cluster),
                "lease",
                "SET run_id = :nobody, operation = :nobody, settling_run = :run, settled_at = :settled",
                "run_id = :run AND fencing_token = :token",
                {
                    ":nobody": _NOBODY,
                    ":run": holder.run_id,
                    ":token": holder.fencing_token,
                    ":settled": to_iso(settled_at),
                },
            )

    def current(self, cluster: str, now: datetime) -> LeaseRow | None:
        item = self._table.get(cluster_key(cluster), "lease")
        if item is None:
            return None
        with understood(LedgerInconsistent, f"the ledger's lease of {cluster}"):
            if item["run_id"] == _NOBODY or from_iso(item["held_until"]) <= now:
                return None
            return LeaseRow(
                cluster=cluster,
                run_id=text_in(item, "run_id"),
                operation=text_in(item, "operation"),
                fencing_token=int(item["fencing_token"]),
                held_until=from_iso(item["held_until"]),
            )

    def _taken(self, cluster: str, run_id: str, now: datetime) -> Holder:
        held = self.current(cluster, now)
        if held is None:
            self._require_settled(cluster, run_id, now)
            raise Throttled(f"the lease of {cluster} changed hands just now; try again")
        if held.run_id == run_id:
            return Holder(cluster, run_id, held.fencing_token)
        if held.operation in SHORT_OPERATIONS:
            raise Throttled(f"{cluster}: {held.operation} holds the lease for some seconds; try again")
        raise LeaseHeld(
            f"{cluster}: {held.operation} {held.run_id} holds the lease until {in_words(held.held_until)}; "
            "one operation per cluster at a time (I6)"
        )

    def _require_settled(self, cluster: str, run_id: str, now: datetime) -> None:
        item = self._table.get(cluster_key(cluster), "lease") or {}
        with understood(LedgerInconsistent, f"the ledger's lease of {cluster}"):
            settling_run = text_in(item, "settling_run") if "settling_run" in item else run_id
            settled_at = from_iso(item["settled_at"]) if "settled_at" in item else now
        if settling_run != run_id and settled_at > now:
            raise LeaseSettling(
                f"{cluster}: {settling_run} gave the lease back a moment ago, and a call of it may be under way until "
                f"{in_words(settled_at)} (I6)"
            )
