"""CheckReplicas: tell every registered replica its peers and its floor, and hear how it stands and what it answers.

Scheduled, without a run: nothing is made, so there is no lease, and the ledger is only read. A replica that does not
answer in time is counted as unreported; the floor itself is decided on the hosts and does not wait for this. A host
that does not understand the question has the host package of another release: it gets this one's for the next look.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress

from peaker.domain.host_results import HealthReport, failure_text, last_json_line, parse_success, typed
from peaker.domain.reading import Unknown
from peaker.domain.replicas.fleet import ReplicaState
from peaker.domain.replicas.inventory import CommandOutcome, CommandStatus, Instance, TargetState
from peaker.domain.replicas.replica_check import CheckFigures, summarize
from peaker.ports.bundle import Ports
from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import HostCommandFailed, LedgerInconsistent, Retryable, Throttled

# Of the function's 60 s; a call that begins just before may take 18 s (aws_clients).
LOOK_SECONDS = 35.0
PAUSE_SECONDS = 1.0
# The client has tried twice by then, the second time later.
THROTTLED_LOOKS = 3
_LATE = Unknown(f"no answer within {LOOK_SECONDS:.0f} s")
# The host package's error for a command or an argument that it does not know.
_NOT_UNDERSTOOD = "InvalidArgument"
_IN_THE_ENDPOINT = {TargetState.INITIAL, TargetState.HEALTHY, TargetState.UNHEALTHY}


def check_replicas(
    ports: Ports,
    cluster: str,
    pause: Callable[[float], None] = time.sleep,
    seconds: Callable[[], float] = time.monotonic,
) -> CheckFigures:
    """One look; asks and hears nobody after LOOK_SECONDS. `pause` waits that many seconds, `seconds` counts them."""
    until = seconds() + LOOK_SECONDS
    settings = ports.clusters.settings(cluster)
    targets = [*ports.endpoint.health(settings).items(), *ports.endpoint.warming_health(settings).items()]
    running = {
        one.instance_id: one
        for one in ports.compute.instances_of_cluster(cluster)
        if one.state == "running" and one.is_replica
    }
    known = {name for name, target in targets if target.state in _IN_THE_ENDPOINT}
    replicas = [running[name] for name in sorted(known & running.keys())]
    leaving = _leaving(ports, cluster)
    gone = {name for name, target in targets if target.state is TargetState.DRAINING}
    gone |= frozenset() if isinstance(leaving, Unknown) else leaving
    draining = [running[name] for name in sorted((gone & running.keys()) - known)]
    answers: dict[str, HealthReport | Unknown] = {}
    commands: dict[str, str] = {}
    for instance in [*replicas, *draining]:
        sent = _LATE if seconds() >= until else _ask(ports, settings, instance, replicas)
        if isinstance(sent, Unknown):
            answers[instance.instance_id] = sent
        else:
            commands[instance.instance_id] = sent
    answers |= _hear(ports, cluster, commands, pause, lambda: seconds() >= until)
    return summarize(
        {one.instance_id: answers[one.instance_id] for one in replicas},
        leaving
        if isinstance(leaving, Unknown)
        else {one.instance_id: answers[one.instance_id] for one in draining},
    )


def _leaving(ports: Ports, cluster: str) -> frozenset[str] | Unknown:
    """Those that drain by the ledger: a load balancer forgets a target before its last client has gone.

    A ledger that cannot be read makes the load unknown; it keeps nobody from hearing how the registered ones stand.
    """
    try:
        rows = ports.ledger.replicas(cluster)
    except (Retryable, LedgerInconsistent) as error:
        return Unknown(f"{type(error).__name__}: {error}")
    return frozenset(name for name, row in rows.items() if row.state is ReplicaState.DRAINING)


def _hear(
    ports: Ports,
    cluster: str,
    commands: Mapping[str, str],
    pause: Callable[[float], None],
    time_is_up: Callable[[], bool],
) -> dict[str, HealthReport | Unknown]:
    """Reads each host's report (instance id to command id); a host whose answer AWS does not show is unknown
    alone.
    """
    answers: dict[str, HealthReport | Unknown] = {}
    throttled: Counter[str] = Counter()
    while len(answers) < len(commands):
        for instance_id in [name for name in commands if name not in answers]:
            if time_is_up():
                return dict.fromkeys(commands, _LATE) | answers
            try:
                outcome = ports.commands.outcome(commands[instance_id], instance_id)
            except Retryable as error:
                throttled[instance_id] += 1
                if not isinstance(error, Throttled) or throttled[instance_id] == THROTTLED_LOOKS:
                    answers[instance_id] = _refused(error)
                continue
            if outcome.status.is_over:
                answers[instance_id] = _report(outcome)
                if (last_json_line(outcome.stdout) or {}).get("error") == _NOT_UNDERSTOOD:
                    _install(ports, cluster, instance_id)
        if len(answers) < len(commands):
            pause(PAUSE_SECONDS)
    return answers


def _install(ports: Ports, cluster: str, instance_id: str) -> None:
    parameters = {"PackageUrl": ports.package.download_url()}
    with suppress(Retryable):
        ports.commands.send("install_host_package", instance_id, parameters, f"peaker check {cluster}")


def policy_parameters(
    settings: ClusterSettings, instance: Instance, replicas: list[Instance]
) -> dict[str, str]:
    """Returns the policy that report_health stores on that replica; the peers are all others."""
    peers = [
        {"instance_id": one.instance_id, "address": one.private_ip}
        for one in replicas
        if one.instance_id != instance.instance_id
    ]
    policy = {
        "lag_seconds": settings.gates.lag_seconds,
        "floor_replicas": settings.health.floor_replicas,
        "source_serves_reads": settings.read_endpoint.source_serves_reads,
        "peers": peers,
    }
    return {"RunId": f"check-{settings.name}", "Health": json.dumps(policy, separators=(",", ":"))}


def _ask(
    ports: Ports, settings: ClusterSettings, instance: Instance, replicas: list[Instance]
) -> str | Unknown:
    parameters = policy_parameters(settings, instance, replicas)
    try:
        return ports.commands.send(
            "report_health", instance.instance_id, parameters, f"peaker check {settings.name}"
        )
    except Retryable as error:
        return _refused(error)


def _refused(error: Retryable) -> Unknown:
    return Unknown(f"{type(error).__name__}: {error}")


def _report(outcome: CommandOutcome) -> HealthReport | Unknown:
    if outcome.status is not CommandStatus.SUCCESS:
        otherwise = outcome.status_details or outcome.status.value
        return Unknown(failure_text("report_health", last_json_line(outcome.stdout), otherwise))
    try:
        return typed("report_health", HealthReport, parse_success("report_health", outcome.stdout))
    except HostCommandFailed as error:
        return Unknown(str(error))
