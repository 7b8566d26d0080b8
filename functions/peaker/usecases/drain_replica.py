"""DrainReplica: connections and transactions have ended by themselves, or the limit is reached."""

from __future__ import annotations

from peaker.domain.cluster import ClusterSettings
from peaker.domain.errors import DrainLimitReached, ReplicaDraining
from peaker.domain.host_results import DrainReport, typed
from peaker.domain.instants import seconds_between
from peaker.domain.run import StepInput, Summary
from peaker.ports import Ports
from peaker.usecases.run_facts import host_id
from peaker.usecases.run_host_command import run_host_command


def drain_replica(ports: Ports, step: StepInput) -> Summary:
    """Raises ReplicaDraining while clients are there or may come, DrainLimitReached when they may not be cut off."""
    instance_id = host_id(ports, step.run_id, "replica")
    numbers = run_host_command(ports, step, "drain_replica", instance_id, {"RunId": step.run_id}, repeat=True)
    report = typed("drain_replica", DrainReport, numbers)
    waited = _waited_seconds(ports, step)
    shown = f"{report.connections} connections, {report.transactions} transactions"
    numbers = {**numbers, "waited_seconds": round(waited, 3), "forced": False}
    settings = ports.clusters.settings(step.cluster)
    _require_that_clients_followed(settings, instance_id, waited, shown)
    if report.connections == 0 and report.transactions == 0:
        return Summary(text=f"{instance_id} is idle", numbers=numbers)
    drain = settings.drain
    if waited < drain.limit_seconds:
        raise ReplicaDraining(f"{instance_id}: {shown} after {waited:.0f} s")
    if not drain.allow_forced:
        raise DrainLimitReached(
            f"{instance_id}: {shown} after {waited:.0f} s, limit {drain.limit_seconds} s and allow_forced is off"
        )
    cut = {"forced": True, "cut_connections": report.connections, "cut_transactions": report.transactions}
    return Summary(text=f"{instance_id}: {shown} will be cut off", numbers={**numbers, **cut})


def _require_that_clients_followed(
    settings: ClusterSettings, instance_id: str, waited_seconds: float, shown: str
) -> None:
    """No connection proves nothing while a cached answer may still bring one. Raises ReplicaDraining."""
    follow = settings.read_endpoint.clients_follow_within_seconds
    if waited_seconds < follow:
        raise ReplicaDraining(
            f"{instance_id}: {shown}; its address may be cached (TTL and propagation): "
            f"{waited_seconds:.0f} of {follow} s"
        )


def _waited_seconds(ports: Ports, step: StepInput) -> float:
    started = next((row.started_at for row in ports.ledger.steps(step.run_id) if row.step == step.step), None)
    return 0.0 if started is None else seconds_between(started, ports.clock.now())
