"""Checks of the cluster's own hosts: one source, base replicas by the steps of `peaker prepare-base`. Pure."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from peaker.domain.host_results import Agent, failure_text
from peaker.domain.reading import Unknown
from peaker.domain.replicas.fleet import Replica
from peaker.domain.replicas.inventory import Instance, Volume
from peaker.ports.hosts import CommandRunner

from peaker_cli.base_replica.prepare_base import (
    BaseStep,
    agent_step,
    base_parameters,
    base_steps,
    run_document,
    volumes_step,
)
from peaker_cli.doctor.finding import Area, Finding, Verdict, ask
from peaker_cli.failures import ControlPlaneError
from peaker_contract.cluster import ClusterSettings
from peaker_contract.names import (
    CLUSTER_TAG,
    ENVIRONMENT_TAG,
    LOAD_TAG,
    OWNER_TAG,
    ROLE_TAG,
)

HOSTS = Area("hosts")
_VERDICTS = {
    "done": Verdict.PASS,
    "already there": Verdict.PASS,
    "warning": Verdict.WARN,
    "refused": Verdict.REFUSE,
}


@dataclass(frozen=True)
class HostLook:
    """A look holds a base replica's facts; `steps` hold an Unknown where it did not answer.

    `server_id` and `source_host` are what its server says, None where it was not asked.
    """

    replica: Replica
    steps: Sequence[BaseStep | NamedUnknown]
    server_id: int | None = None
    source_host: str | None = None


@dataclass(frozen=True)
class NamedUnknown:
    """A step that could not be looked at."""

    name: str
    why: Unknown


def look_at_hosts(
    settings: ClusterSettings, instances: Sequence[Instance] | Unknown, looks: Sequence[HostLook]
) -> list[Finding]:
    """`instances` are all with the cluster's tags, in any state but terminated."""
    if isinstance(instances, Unknown):
        return [HOSTS.unknown("source", instances), HOSTS.unknown("base replicas", instances)]
    sources = sources_of(instances)
    return [
        _source(settings, sources),
        _base(settings, instances),
        *(finding for look in looks for finding in _steps(settings, look)),
        *_compared(looks, sources[0] if len(sources) == 1 else None),
    ]


def base_replicas(instances: Iterable[Instance]) -> list[Instance]:
    """The replicas of others, by their tags; Peaker's own carry its owner tag."""
    return [one for one in instances if one.tags.get(ROLE_TAG) == "replica" and OWNER_TAG not in one.tags]


def sources_of(instances: Iterable[Instance]) -> list[Instance]:
    """Returns the instances that are tagged as the source; a sound cluster has one."""
    return [one for one in instances if one.tags.get(ROLE_TAG) == "source"]


def _tagging(settings: ClusterSettings, role: str) -> str:
    load = f" Key={LOAD_TAG},Value=base" if role == "replica" else ""
    return (
        f"aws ec2 create-tags --resources INSTANCE --tags Key={CLUSTER_TAG},Value={settings.name} "
        f"Key={ENVIRONMENT_TAG},Value={settings.environment} Key={ROLE_TAG},Value={role}{load}"
    )


def _source(settings: ClusterSettings, found: Sequence[Instance]) -> Finding:
    if not found:
        tagging = _tagging(settings, "source")
        return HOSTS.refuses("source", "no instance is tagged as the source", tagging, found=0)
    if len(found) > 1:
        named = ", ".join(one.instance_id for one in found)
        detail = f"{len(found)} instances are tagged as the source: {named}"
        remedy = f"leave {ROLE_TAG}=source on the one that takes the writes"
        return HOSTS.refuses("source", detail, remedy, found=2)
    [one] = found
    if one.state != "running":
        return HOSTS.refuses("source", f"{one.instance_id} is {one.state}", "start it", found=1)
    return HOSTS.passes("source", f"{one.instance_id} in {one.zone}, {one.private_ip}", found=1)


def _base(settings: ClusterSettings, instances: Sequence[Instance]) -> Finding:
    running = [one for one in base_replicas(instances) if one.state == "running"]
    check, numbers = "base replicas", {"running": len(running), "min_replicas": settings.min_replicas}
    if not running:
        detail = "no running instance is tagged as a replica: there is no donor"
        return HOSTS.refuses(check, detail, _tagging(settings, "replica"), **numbers)
    detail = f"{len(running)} running: {', '.join(one.instance_id for one in running)}"
    if len(running) < settings.min_replicas:
        detail = f"{detail}; min_replicas is {settings.min_replicas}"
        remedy = "start more, or lower min_replicas"
        return HOSTS.warns(check, detail, remedy, **numbers)
    if len(running) >= settings.max_replicas:
        detail = f"{detail}; max_replicas is {settings.max_replicas}: no peak replica may be built (I12)"
        remedy = "raise max_replicas above the number of base replicas, and deploy"
        return HOSTS.refuses(check, detail, remedy, **numbers)
    return HOSTS.passes(check, detail, **numbers)


def _steps(settings: ClusterSettings, look: HostLook) -> Iterable[Finding]:
    """Yields the steps of prepare-base as findings; its remedies name the instance here."""
    prepare = f"peaker prepare-base {settings.name} {look.replica.instance_id} --env {settings.environment}"
    for step in look.steps:
        check = f"{look.replica.instance_id}: {step.name}"
        if isinstance(step, NamedUnknown):
            yield HOSTS.unknown(check, step.why)
        else:
            remedy = step.remedy.replace("run peaker prepare-base for this instance", prepare)
            yield Finding(HOSTS.name, check, _VERDICTS[step.state], step.detail, remedy)


def _compared(looks: Sequence[HostLook], source: Instance | None) -> Iterable[Finding]:
    by_id: dict[int, list[str]] = {}
    for look in looks:
        if look.server_id is not None:
            by_id.setdefault(look.server_id, []).append(look.replica.instance_id)
    if len(by_id) and not (twice := {number: who for number, who in by_id.items() if len(who) > 1}):
        shown = ", ".join(f"{number} of {who[0]}" for number, who in sorted(by_id.items()))
        yield HOSTS.passes("server_ids", f"each has its own: {shown}")
    elif by_id:
        shown = "; ".join(f"{number} is that of {' and '.join(who)}" for number, who in sorted(twice.items()))
        yield HOSTS.refuses("server_ids", shown, "give each server of the cluster a server_id of its own")
    yield from _one_source(looks, source)


def _one_source(looks: Sequence[HostLook], source: Instance | None) -> Iterable[Finding]:
    followed: Mapping[str, str] = {
        look.replica.instance_id: look.source_host for look in looks if look.source_host
    }
    hosts = sorted(set(followed.values()))
    if len(hosts) > 1:
        shown = ", ".join(f"{name} follows {host}" for name, host in sorted(followed.items()))
        yield HOSTS.warns("followed source", shown, "let all follow one source, by one name")
    elif hosts and source is not None and _is_address(hosts[0]) and hosts[0] != source.private_ip:
        yield HOSTS.warns(
            "followed source",
            f"the replicas follow {hosts[0]}, and {source.instance_id}, tagged as the source, is {source.private_ip}",
            f"tag the server at {hosts[0]} as the source, or let the replicas follow the one that is tagged",
        )
    elif hosts:
        yield HOSTS.passes("followed source", f"all follow {hosts[0]}")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


ToldT = TypeVar("ToldT")
_SERVER = "server"
PREPARE = "run peaker prepare-base for this instance"
# The shell's and argparse's words where the host has no package, or one from before this document.
_NO_PACKAGE = ("can't open file", "No such file")
_OLD_PACKAGE = ("unrecognized arguments", "invalid choice")


def look_at_host(
    commands: CommandRunner,
    settings: ClusterSettings,
    instance: Instance,
    volumes: Sequence[Volume] | Unknown,
    agent: Agent | Unknown,
    pause: Callable[[float], None] = time.sleep,
) -> HostLook:
    """The host is asked only where its agent would answer."""
    seen = () if isinstance(volumes, Unknown) else tuple(volumes)
    unseen = Unknown("not looked at")
    replica = Replica(instance, seen, unseen, unseen)
    steps: list[BaseStep | NamedUnknown] = [
        NamedUnknown("agent", agent) if isinstance(agent, Unknown) else agent_step(agent),
        NamedUnknown("attached volumes", volumes)
        if isinstance(volumes, Unknown)
        else volumes_step(settings, instance, volumes),
    ]
    if isinstance(steps[0], BaseStep) and steps[0].state == "refused":
        return HostLook(replica, steps)
    parameters = {
        **base_parameters(settings),
        "RunId": f"doctor-{settings.name}",
        "Mode": "check",
    }
    who = f"peaker doctor {settings.name}"
    told = ask(
        "ssm:SendCommand",
        lambda: _run(commands, instance.instance_id, parameters, who, pause),
    )
    if isinstance(told, Unknown):
        return HostLook(replica, [*steps, NamedUnknown(_SERVER, told)])
    return HostLook(
        replica,
        [*steps, *host_steps(told)],
        _told(told, "server_id", int),
        _told(told, "source_host", str) or None,
    )


def _told(result: Mapping[str, Any], name: str, kind: type[ToldT]) -> ToldT | None:
    value = result.get(name)
    return value if isinstance(value, kind) else None


def host_steps(result: Mapping[str, Any]) -> list[BaseStep | NamedUnknown]:
    """Out of the document's result; a host that did not come so far has one step that says why."""
    if steps := base_steps(result):
        return list(steps)
    said = str(result.get("message", ""))
    if all(word in said for word in _NO_PACKAGE):
        return [BaseStep("host package", "refused", "the host has no package of Peaker's", PREPARE)]
    if any(word in said for word in _OLD_PACKAGE):
        return [BaseStep("host package", "refused", "the host has the package of another release", PREPARE)]
    if "timed" in str(result.get("error", "")).lower():
        return [NamedUnknown(_SERVER, Unknown(f"the host did not answer: {result['error']}"))]
    return [BaseStep(_SERVER, "refused", failure_text("prepare_base", dict(result)), PREPARE)]


def _run(
    commands: CommandRunner,
    instance_id: str,
    parameters: Mapping[str, str],
    who: str,
    pause: Callable[[float], None],
) -> dict[str, Any]:
    try:
        return run_document(commands, "prepare_base", instance_id, parameters, who, pause)
    except ControlPlaneError as error:
        return {"ok": False, "error": "TimedOut", "message": str(error)}
