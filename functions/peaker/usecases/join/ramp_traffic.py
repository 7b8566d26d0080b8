"""RampTraffic: the newcomer's share of new connections rises while it answers as well as its peers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from peaker.domain.host_results import ServiceReport, typed
from peaker.domain.instants import seconds_between
from peaker.domain.reading import Unknown
from peaker.domain.replicas.fleet import ReplicaRow, ReplicaState
from peaker.domain.replicas.inventory import TargetState
from peaker.domain.runs.batch import Batch, Member
from peaker.domain.runs.ledger import RunReplica
from peaker.domain.runs.run import StepInput, Summary
from peaker.domain.service.ramp import (
    UNANSWERED_AT_MOST,
    WORSE_AT_MOST,
    Expected,
    Ramp,
    RampAction,
    RampVerdict,
    Service,
    judge_share,
    judge_step,
    share_now,
)
from peaker.domain.service.registration import source_changes
from peaker.ports.bundle import Ports
from peaker.usecases.join.await_healthy import require_healthy
from peaker.usecases.plan.gather_fleet import source_of
from peaker.usecases.run.batch_members import member_rows
from peaker.usecases.run.run_host_command import run_host_command
from peaker.usecases.run.run_memory import host_id, instance_state
from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import (
    AwsUnavailable,
    HostCommandFailed,
    HostCommandRunning,
    RampInProgress,
    RampUndecided,
    ReplicaChanged,
    ReplicaWorseThanPeers,
)

COMPARED_PEERS = 2


def ramp_traffic(ports: Ports, step: StepInput) -> Summary:
    """Raises RampInProgress until the replica is one of the proven ones and in service.

    Raises ReplicaWorseThanPeers after WORSE_AT_MOST times, RampUndecided after UNANSWERED_AT_MOST windows without an
    answer, ReplicaChanged after a failover.
    """
    settings = ports.clusters.settings(step.cluster)
    instance_id = host_id(ports, step, "replica")
    ramp = _standing(ports, step, settings)
    if not ramp.promoted:
        ramp = _climb(ports, step, settings, instance_id, ramp)
    require_healthy(ports, settings, instance_id)
    _record_in_service(ports, step, instance_id)
    taken = next((one["measured_ratio"] for one in reversed(ramp.history) if "measured_ratio" in one), None)
    numbers = {
        "target": instance_id,
        "backs": ramp.backs,
        "share_of_a_peer": taken,
        "windows": list(ramp.history),
    }
    text = f"{instance_id} serves, after {len(ramp.history)} comparisons"
    text += "" if taken is None else f", and takes {taken:.0%} of a peer's reads"
    return Summary(text=text, numbers=numbers)


def _standing(ports: Ports, step: StepInput, settings: ClusterSettings) -> Ramp:
    ramp = ports.ledger.run(step.run_id).part(Ramp)
    if ramp is not None:
        return ramp
    _warm_group_has_all(ports, step, settings)
    return _set(ports, step, settings, _begun(ports), "begun")


def _begun(ports: Ports) -> Ramp:
    now = ports.clock.now()
    return Ramp(since=now, share_since=now)


def _warm_group_has_all(ports: Ports, step: StepInput, settings: ClusterSettings) -> None:
    """The share is the warming group's, so that all who serve must be in it beside the newcomer.

    The endpoint may call one healthy for a while that has just ended.
    """
    warming = ports.endpoint.warming_health(settings)
    for instance_id, health in ports.endpoint.health(settings).items():
        is_missing = health.state is TargetState.HEALTHY and instance_id not in warming
        if is_missing and instance_state(ports, instance_id) == "running":
            ports.ledger.require_lease(step.holder)
            ports.endpoint.register(settings, instance_id)


def _set(ports: Ports, step: StepInput, settings: ClusterSettings, ramp: Ramp, why: str) -> Ramp:
    """Set the share, remember it, and come again after ramp_step_seconds."""
    share = _share_together(ports, step, settings, ramp)
    ports.ledger.require_lease(step.holder)
    ports.endpoint.set_share(settings, share)
    ports.ledger.settle(step.holder, ramp.model_copy(update={"endpoint_share": share}))
    raise RampInProgress(f"share {share:g}: {why}")


def _share_together(ports: Ports, step: StepInput, settings: ClusterSettings, ramp: Ramp) -> float:
    """The smallest share that a newcomer of the batch has come to: the endpoint has one for all of them."""
    own = share_now(settings.ramp, ramp)
    run = None if step.batch is None else ports.ledger.run(step.batch)
    batch = None if run is None else run.part(Batch)
    if batch is None or len(batch.members) == 1:
        return own
    warming = ports.endpoint.warming_health(settings)
    others = [row for run_id, row in member_rows(ports, batch).items() if run_id != step.run_id]
    shares = [own]
    for row in others:
        replica, found, member = row.part(RunReplica), row.part(Ramp), row.part(Member)
        at_work = member is not None and member.state == "at_work"
        if at_work and replica is not None and found is not None and not found.promoted:
            shares += [share_now(settings.ramp, found)] * (replica.instance_id in warming)
    return min(shares)


def _climb(ports: Ports, step: StepInput, settings: ClusterSettings, instance_id: str, ramp: Ramp) -> Ramp:
    share = share_now(settings.ramp, ramp)
    together = _share_together(ports, step, settings, ramp)
    if together != (share if ramp.endpoint_share is None else ramp.endpoint_share):
        now = ports.clock.now()
        again = ramp.model_copy(update={"since": now, "share_since": now})
        return _set(ports, step, settings, again, "the newcomers of the batch have one share")
    if together < share:
        raise RampInProgress(f"share {together:g}, until the other newcomers have come to {share:g}")
    waited = seconds_between(ramp.since, ports.clock.now())
    if waited < settings.ramp_step_seconds:
        raise RampInProgress(f"share {share:g} for {waited:.0f} of {settings.ramp_step_seconds} s")
    _require_followed_source(ports, step, settings, instance_id)
    verdict = _compare(ports, step, settings, instance_id, ramp)
    window = {"share": share, "action": verdict.action.value, "reason": verdict.reason, **verdict.numbers}
    now = ports.clock.now()
    ramp = ramp.model_copy(update={"since": now, "round": ramp.round + 1, "history": (*ramp.history, window)})
    return _after(ports, step, settings, instance_id, ramp, verdict)


def _require_followed_source(
    ports: Ports, step: StepInput, settings: ClusterSettings, instance_id: str
) -> None:
    """A failover may come after the registration; it is asked for again before each larger share."""
    source = source_of(ports, settings)
    if isinstance(source, Unknown):
        raise RampInProgress(f"{instance_id} waits: {source.why}; what is unknown is held (I4)")
    changes = source_changes({row.step: row for row in ports.ledger.steps(step.run_id)}, source)
    if changes:
        raise ReplicaChanged(f"{instance_id} gets no more reads: {'; '.join(changes)}")


def _after(
    ports: Ports,
    step: StepInput,
    settings: ClusterSettings,
    instance_id: str,
    ramp: Ramp,
    verdict: RampVerdict,
) -> Ramp:
    policy = settings.ramp
    if verdict.action is RampAction.WAIT:
        return _set(ports, step, settings, ramp, verdict.reason)
    if verdict.action is RampAction.HOLD:
        ramp = ramp.model_copy(update={"holds": ramp.holds + 1})
        if ramp.holds > UNANSWERED_AT_MOST:
            raise RampUndecided(
                f"{instance_id}: {ramp.holds} windows without an answer, the last: {verdict.reason}"
            )
        return _set(ports, step, settings, ramp, verdict.reason)
    if verdict.action is RampAction.BACK:
        ramp = ramp.model_copy(update={"backs": ramp.backs + 1, "index": 0, "share_since": ramp.since})
        if ramp.backs >= WORSE_AT_MOST:
            ports.ledger.require_lease(step.holder)
            ports.endpoint.set_share(settings, policy.shares[0])
            raise ReplicaWorseThanPeers(
                f"{instance_id}: {verdict.reason} (attempt {ramp.backs} of {WORSE_AT_MOST})"
            )
        return _set(ports, step, settings, ramp, f"back: {verdict.reason}")
    if ramp.index + 1 < len(policy.shares):
        risen = {"index": ramp.index + 1, "share_since": ramp.since}
        return _set(ports, step, settings, ramp.model_copy(update=risen), verdict.reason)
    ports.ledger.require_lease(step.holder)
    ports.endpoint.promote(settings, instance_id)
    ramp = ramp.model_copy(update={"promoted": True})
    ports.ledger.settle(step.holder, ramp)
    return ramp


def _compare(
    ports: Ports, step: StepInput, settings: ClusterSettings, instance_id: str, ramp: Ramp
) -> RampVerdict:
    serving = ports.endpoint.health(settings)
    peers = sorted(
        peer
        for peer, health in serving.items()
        if health.state is TargetState.HEALTHY and peer != instance_id
    )
    # A source that serves reads takes its share of them, and no command reaches it.
    replicas = {one.instance_id for one in ports.compute.instances_of_cluster(step.cluster) if one.is_replica}
    asked = [peer for peer in peers if peer in replicas][:COMPARED_PEERS]
    measured = _measured(ports, step, settings, ramp.round, [instance_id, *asked])
    newcomer, compared = measured[instance_id], [measured[peer] for peer in asked]
    verdict = judge_step(newcomer, compared, settings.ramp)
    if not asked:
        return verdict
    newcomers = max(1, len(set(ports.endpoint.warming_health(settings)) - set(serving)))
    expected = _expected(ports, settings, ramp, len(peers), newcomers)
    return judge_share(verdict, newcomer, compared, settings.ramp, expected)


def _expected(ports: Ports, settings: ClusterSettings, ramp: Ramp, peers: int, newcomers: int) -> Expected:
    ratio = settings.read_endpoint.expected_ratio(share_now(settings.ramp, ramp), peers, newcomers)
    waited = seconds_between(ramp.share_since, ports.clock.now())
    return Expected(ratio, waited, 2.0 * settings.ramp_step_seconds)


def _measured(
    ports: Ports, step: StepInput, settings: ClusterSettings, window: int, hosts: list[str]
) -> Mapping[str, Service | Unknown]:
    """One command per window and host, each sent once, and all of them before the first is waited for."""
    parameters = {"RunId": step.run_id, "WindowSeconds": str(settings.ramp.window_seconds)}
    found: dict[str, Service | Unknown] = {}
    waiting: list[HostCommandRunning] = []
    for number, host in enumerate(hosts, 1):
        command = step.model_copy(update={"step": f"{step.step}/{window}/{number}"})
        try:
            numbers = run_host_command(ports, command, "measure_service", host, parameters)
        except HostCommandRunning as running:
            waiting.append(running)
        except HostCommandFailed as failed:
            found[host] = Unknown(str(failed))
        except AwsUnavailable as unavailable:
            if ports.commands.agent(host).is_online:
                raise
            found[host] = Unknown(f"its agent does not answer: {unavailable}")
        else:
            report = typed("measure_service", ServiceReport, numbers)
            found[host] = Service(report.queries, report.errors, report.mean_ms, report.measurable)
    if waiting:
        raise waiting[0]
    return found


def put_into_service(ports: Ports, step: StepInput, instance_id: str) -> None:
    """Make a registered replica one of the proven, without more comparisons: its run ends here."""
    ports.ledger.require_lease(step.holder)
    ports.endpoint.promote(ports.clusters.settings(step.cluster), instance_id)
    _record_in_service(ports, step, instance_id)


def _record_in_service(ports: Ports, step: StepInput, instance_id: str) -> None:
    """The point of no return: from here on no failure of the run takes the replica away."""
    known = ports.ledger.replicas(step.cluster).get(instance_id)
    now = ports.clock.now()
    row = known or ReplicaRow(step.cluster, instance_id, step.run_id, ReplicaState.BUILDING, now)
    ports.ledger.set_replica(step.holder, replace(row, state=ReplicaState.IN_SERVICE, changed_at=now))
