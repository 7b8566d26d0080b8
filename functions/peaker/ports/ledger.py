"""The ports on the lease, the ledger and the records of past runs and checks."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from peaker.domain.issued import CheckState, IssuedForecast
    from peaker.domain.replicas.fleet import ReplicaRow
    from peaker.domain.runs.ledger import (
        Holder,
        LeaseRow,
        PartT,
        ResourceKind,
        ResourceRow,
        ResourceState,
        RunPart,
        RunRow,
        StepRow,
    )
    from peaker.domain.runs.past_runs import PastSteps
    from peaker.domain.storage.snapshot_sets import SnapshotSet


class Lease(Protocol):
    """One operation per cluster at a time (I6)."""

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
        """Take the lease; the same run gets the same token again, or with `fence` the next one.

        Raises LeaseHeld with the holder and the end of its lease, Throttled where it is held for seconds only,
        LeaseSettling where another run gave it back and its last call may still be under way. `after` is a lease that
        the caller itself gave back just now: all that it did under that one is done.
        """

    def release(self, holder: Holder, settled_at: datetime) -> None:
        """Give it back; until `settled_at` no other run gets it. One that the run no longer holds is left alone."""

    def current(self, cluster: str, now: datetime) -> LeaseRow | None:
        """Who holds it now, or None."""


class Ledger(Protocol):
    """What runs made. Every write carries the holder and raises LeaseLost when its lease has gone."""

    def require_lease(self, holder: Holder) -> None:
        """Raises LeaseLost when its lease has gone: asked right before a call that no later write can take back."""

    def fence_member(self, holder: Holder, at: datetime) -> int:
        """Move the token of a batch's member on and return it: whoever writes with an older one raises LeaseLost."""

    def member_token(self, run_id: str) -> int:
        """The token of a member; 0 before it was ever fenced."""

    def open_run(self, holder: Holder, run: RunRow) -> None:
        """Write the run once; a second call changes nothing."""

    def run(self, run_id: str) -> RunRow:
        """Raises LedgerInconsistent when there is none."""

    def unfinished_runs(self, cluster: str) -> list[RunRow]:
        """The cluster's runs whose own outcome is one of UNFINISHED_OUTCOMES, the oldest first."""

    def settle(self, holder: Holder, *parts: RunPart) -> None:
        """Store parts of the run's memory in one write; those of other names stay, whoever writes them meanwhile."""

    def settle_first(self, holder: Holder, part: PartT) -> PartT:
        """Store a part that stays as it was first settled; returns the one that stands, this one or an earlier."""

    def close_run(self, holder: Holder, outcome: str, finished_at: datetime) -> None:
        """Write the outcome; the last call counts."""

    def start_step(self, holder: Holder, step: str, at: datetime, lease_until: datetime) -> None:
        """Record the start, of which the first counts over all retries, and move the end of the lease."""

    def finish_step(self, holder: Holder, step: str, at: datetime, numbers: Mapping[str, Any]) -> None:
        """Record the end and the numbers; the last call counts."""

    def steps(self, run_id: str) -> list[StepRow]:
        """All steps in order of their start."""

    def intend(
        self,
        holder: Holder,
        kind: ResourceKind,
        name: str,
        step: str,
        at: datetime,
        details: Mapping[str, Any],
    ) -> ResourceRow:
        """Write that the run is about to make it, once for a kind and name; returns the row that is there."""

    def claim(self, holder: Holder, call: str, at: datetime, until: datetime) -> bool:
        """Take the right to make a call that has no ClientToken, until then; False while another one has it."""

    def made(self, holder: Holder, row: ResourceRow, resource_id: str, at: datetime) -> ResourceRow:
        """Write the id that AWS gave; the details of `row` are stored too."""

    def mark(self, holder: Holder, run_id: str, row: ResourceRow, state: ResourceState) -> None:
        """Write a resource's state; the run may be an earlier one than the holder's (retirement)."""

    def resources(self, run_id: str) -> list[ResourceRow]:
        """All resources of the run in the order in which they were intended."""

    def add_replica(self, holder: Holder, replica: ReplicaRow) -> None:
        """Write the cluster's row of a replica that has none; one that has a row keeps it."""

    def set_replica(self, holder: Holder, replica: ReplicaRow) -> None:
        """Write the cluster's row of a replica."""

    def begin_exit(self, holder: Holder, replica: ReplicaRow, staying: Collection[str]) -> None:
        """Write the row of one that is to leave service, while none of `staying` has begun to leave it.

        Of two that count on one another one succeeds. Raises Throttled where one of `staying` (97 ids at most) is
        not in service by its row any more: what was counted has changed.
        """

    def replicas(self, cluster: str) -> dict[str, ReplicaRow]:
        """All rows of the cluster's replicas by instance id, retired ones included."""

    def keep_snapshots(self, holder: Holder, kept: SnapshotSet) -> None:
        """Write the cluster's row of a set that outlives its run; the last call counts."""

    def forget_snapshots(self, holder: Holder, kept: SnapshotSet, at: datetime) -> None:
        """Write that the set is gone."""

    def snapshot_sets(self, cluster: str) -> list[SnapshotSet]:
        """The sets that are kept, the oldest first."""

    def save_receipt(self, holder: Holder, receipt: Mapping[str, Any]) -> None:
        """Store the run's receipt; the last call counts."""

    def receipt(self, run_id: str) -> dict[str, Any] | None:
        """The stored receipt, or None."""


class ForecastRecords(Protocol):
    """What the forecast remembers between its runs, per cluster."""

    def check_state(self, cluster: str) -> CheckState:
        """The state that the last check left; a new cluster's is the default."""

    def save_check_state(self, cluster: str, state: CheckState) -> None:
        """Store it; one whose `checked_seconds` are before those that are stored changes nothing."""

    def save_issued(self, cluster: str, issued: IssuedForecast) -> None:
        """Keep an issued forecast for scoring; it is forgotten after two weeks."""

    def issued(self, cluster: str, since: datetime) -> list[IssuedForecast]:
        """Forecasts issued since then, in order of time."""

    def save_report(self, cluster: str, report: Mapping[str, Any]) -> None:
        """Store what the newest check found, decided and why; the last call counts."""

    def report(self, cluster: str) -> dict[str, Any] | None:
        """The newest check's report, or None before the first."""

    def past_steps(self, cluster: str) -> PastSteps:
        """Step durations of the last 20 replicas that scale-outs put into service, the newest last."""
