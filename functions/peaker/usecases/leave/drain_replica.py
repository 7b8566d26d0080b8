"""DrainReplica: connections and transactions have ended by themselves, or the limit is reached."""

from __future__ import annotations

from peaker.domain.host_results import DrainReport, typed
from peaker.domain.runs.run import StepInput, Summary
from peaker.domain.service.retirement import QUIET_SECONDS, Quiet, quiet_after
from peaker.ports.bundle import Ports
from peaker.usecases.leave.guard_retirement import require_not_needed
from peaker.usecases.run.run_host_command import run_host_command
from peaker.usecases.run.run_memory import host_id, time_in_step
from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import DrainLimitReached, ReplicaDraining


def drain_replica(ports: Ports, step: StepInput) -> Summary:
    """Raises ReplicaDraining while clients are there or may come, DrainLimitReached when they may not be cut off,
    ReplicaNeeded once the replica is needed again."""
    instance_id = host_id(ports, step, "replica")
    settings = ports.clusters.settings(step.cluster)
    require_not_needed(ports, step, settings, instance_id)
    numbers = run_host_command(ports, step, "drain_replica", instance_id, {"RunId": step.run_id}, repeat=True)
    report = typed("drain_replica", DrainReport, numbers)
    waited, quiet = time_in_step(ports, step).total_seconds(), _quiet_seconds(ports, step, report)
    shown = f"{report.connections} connections, {report.transactions} transactions, unused for {quiet:.0f} s"
    numbers = {
        **numbers, "waited_seconds": round(waited, 3), "quiet_seconds": round(quiet, 3), "forced": False
    }  # fmt: skip
    _require_that_clients_followed(settings, instance_id, waited, shown)
    if report.is_idle and quiet >= QUIET_SECONDS:
        return Summary(text=f"{instance_id} is idle", numbers=numbers)
    if waited < _limit_seconds(settings, report):
        raise ReplicaDraining(f"{instance_id}: {shown} after {waited:.0f} s")
    if not settings.drain.allow_forced:
        raise DrainLimitReached(
            f"{instance_id}: {shown} after {waited:.0f} s, limit {settings.drain.limit_seconds} s and "
            "allow_forced is off"
        )
    cut = {"forced": True, "cut_connections": report.connections, "cut_transactions": report.transactions}
    return Summary(text=f"{instance_id}: {shown} will be cut off", numbers={**numbers, **cut})


def _limit_seconds(settings: ClusterSettings, report: DrainReport) -> float:
    """How long to wait; a replica without a client now gets the time in which its quiet can be seen."""
    seen = settings.read_endpoint.clients_follow_within_seconds + QUIET_SECONDS if report.is_idle else 0.0
    return max(settings.drain.limit_seconds, seen)


def _require_that_clients_followed(
    settings: ClusterSettings, instance_id: str, waited_seconds: float, shown: str
) -> None:
    """No connection proves nothing while a cached answer may still bring one. Raises ReplicaDraining."""
    follow = settings.read_endpoint.clients_follow_within_seconds
    if waited_seconds < follow:
        raise ReplicaDraining(
            f"{instance_id}: {shown}; {settings.read_endpoint.late_because}: {waited_seconds:.0f} of {follow} s"
        )


def _quiet_seconds(ports: Ports, step: StepInput, report: DrainReport) -> float:
    """For how long nobody has used the replica, this sample included; kept with the run between samples."""
    now = ports.clock.now()
    before = ports.ledger.run(step.run_id).part(Quiet)
    quiet = quiet_after(before, report, now)
    if quiet != before:
        ports.ledger.settle(step.holder, quiet)
    return quiet.seconds(now)
