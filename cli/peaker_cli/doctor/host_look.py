"""Looks at one base replica for `peaker doctor`: what EC2 and Systems Manager know, then the host itself.

The host is asked with the document of `peaker prepare-base` in its mode `check`, which makes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from peaker.domain.host_results import failure_text
from peaker.domain.reading import Unknown
from peaker.domain.replicas.fleet import Replica
from peaker.domain.replicas.inventory import Instance, Volume
from peaker.ports.hosts import CommandRunner

from peaker_cli.base_replica.prepare_base import (
    BaseStep,
    Preparation,
    agent_step,
    base_parameters,
    base_steps,
    run_document,
    volumes_step,
)
from peaker_cli.doctor.finding import ask
from peaker_cli.doctor.hosts import HostLook, NamedUnknown
from peaker_cli.failures import ControlPlaneError
from peaker_contract.cluster import ClusterSettings

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
    agent: Sequence[Mapping[str, Any]] | Unknown,
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
        **base_parameters(settings, Preparation()),
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
    """Returns the host's value under this name; None where it is of another kind."""
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
