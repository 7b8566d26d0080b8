"""`peaker prepare-base`: a base replica that its owner built gets what Peaker needs on it, or hears what is in the way.

What EC2 and Systems Manager know is looked at first; then the host package comes to the host, and its command
prepare_base looks at the server and makes what is missing.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Annotated, Any

import typer
from botocore.exceptions import ClientError
from peaker.adapters.ec2.compute import Ec2Compute
from peaker.adapters.ec2.storage import Ec2Storage
from peaker.adapters.s3_files import S3HostPackage
from peaker.adapters.ssm.clusters import ParameterClusters
from peaker.adapters.ssm.commands import SsmCommands
from peaker.domain.host_results import OLDEST_AGENT, Agent, failure_text, last_json_line
from peaker.domain.reading import Unknown
from peaker.domain.replicas.data_volumes import data_volumes
from peaker.domain.replicas.fleet import Replica
from peaker.domain.replicas.inventory import CommandStatus, Instance, Volume
from peaker.ports.hosts import CommandRunner, HostPackage
from peaker.usecases.join.start_database import health_policy
from rich.console import RenderableType
from rich.text import Text

from peaker_cli.base_replica.register_base import why_not_base
from peaker_cli.control_plane import ControlPlane
from peaker_cli.deployment import DeploymentOptions
from peaker_cli.failures import ControlPlaneError
from peaker_cli.printing import AsJson, console, echo, echo_json, progress, table_of
from peaker_contract.cluster import ClusterSettings
from peaker_contract.names import VOLUME_TAG, named

EPILOG = (
    "Examples: peaker prepare-base orders i-0123456789abcdef0 --env prod; "
    "peaker prepare-base orders i-0123456789abcdef0 --admin-defaults-file /root/peaker-admin.cnf"
)
# What the documents may take on the host, and how long a command may wait for the agent, is in them; this is longer.
_LIMIT_SECONDS, _PAUSE_SECONDS = 420.0, 0.5
_MARKS = {"done": "green", "already there": "dim", "warning": "yellow", "refused": "red"}

Say = Callable[[str], None]


_STATES = ("done", "already there", "warning", "refused")
_ANEW = "run peaker prepare-base for this instance with this release"


@dataclass(frozen=True)
class BaseStep:
    """One line of the report; `state` is done, already there, warning or refused."""

    name: str
    state: str
    detail: str
    remedy: str = ""


def _absolute(path: str) -> str:
    if path and not re.fullmatch(r"/[A-Za-z0-9/_.-]{1,200}", path):
        raise typer.BadParameter("must be an absolute path of letters, digits, '_', '.', '-' and '/'")
    return path


AdminDefaultsFile = Annotated[
    str,
    typer.Option(
        metavar="PATH",
        callback=_absolute,
        show_default="what is there, or root by the socket",
        help="Option file on the host with a database administrator's login, readable by root only.",
    ),
]


def prepare_base_command(
    cluster: str,
    instance_id: Annotated[str, typer.Argument(metavar="INSTANCE")],
    deployment: DeploymentOptions,
    admin_defaults_file: AdminDefaultsFile = "",
    create_account_here: Annotated[
        bool,
        typer.Option(
            "--create-account-here",
            help="Make the health account on this replica alone, outside the binary log; super_read_only is off for "
            "that moment.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Look whether base replica INSTANCE can be a donor of CLUSTER, and put there what Peaker needs.

    Nothing is restarted; a second time changes nothing.
    """
    control = ControlPlane.of(deployment)
    settings = ParameterClusters(control.client("ssm"), control.environment).settings(cluster)
    parameters = base_parameters(settings, admin_defaults_file, create_account_here)
    steps = _prepare(control, settings, instance_id, parameters)
    refused = [step for step in steps if step.state == "refused"]
    following = control.line("register-base", cluster, instance_id)
    if as_json:
        echo_json(_document(cluster, instance_id, steps, None if refused else following))
    else:
        console().print(render_steps(steps))
        for line in remedies(steps):
            echo(line)
    if refused:
        raise ControlPlaneError(
            f"{instance_id} is not prepared: {len(refused)} refused ({', '.join(one.name for one in refused)})"
        )
    if not as_json:
        echo(f"{instance_id} can be a donor. Once it is to serve reads: {following}")


def prepare_host(
    commands: CommandRunner,
    package: Callable[[], HostPackage],
    settings: ClusterSettings,
    instance_id: str,
    parameters: Mapping[str, str],
    say: Say,
    pause: Callable[[float], None] = time.sleep,
) -> list[BaseStep]:
    """Install the package, run prepare_base; the steps, of which the last may be refused. Both may run twice."""
    given = package()
    say(f"installing the host package on {instance_id}")
    url = {"PackageUrl": given.download_url()}
    who = f"peaker prepare-base {settings.name}"
    result = run_document(commands, "install_host_package", instance_id, url, who, pause)
    if result.get("ok") is not True:
        return [BaseStep("host package", "refused", failure_text("install_host_package", result))]
    state = "done" if result.get("installed") else "already there"
    steps = [BaseStep("host package", state, f"SHA-256 {given.sha256()[:12]}")]
    say("looking at the server, making what is missing")
    result = run_document(commands, "prepare_base", instance_id, parameters, who, pause)
    told = base_steps(result)
    if result.get("ok") is not True and not any(step.state == "refused" for step in told):
        told.append(BaseStep("prepare_base", "refused", failure_text("prepare_base", result)))
    return steps + told


def base_steps(result: Mapping[str, Any]) -> list[BaseStep]:
    """The steps of the host's result; one that is none, or of a state that this release does not know, is refused."""
    steps = result.get("steps")
    return [_base_step(step) for step in (steps if isinstance(steps, list) else [])]


def _base_step(step: Any) -> BaseStep:
    said = step if isinstance(step, dict) else {}
    name, state, detail, remedy = (str(said.get(key, "")) for key in ("name", "state", "detail", "remedy"))
    if not name or state not in _STATES:
        return BaseStep(
            name or "prepare_base", "refused", f"the host's answer cannot be read: {str(step)[:200]}", _ANEW
        )
    return BaseStep(name, state, detail, remedy)


def base_parameters(
    settings: ClusterSettings, admin_defaults_file: str = "", account_here: bool = False
) -> dict[str, str]:
    """The parameters of the document prepare_base. A run may take its whole prewarm deadline (I11)."""
    given = {"AdminDefaultsFile": admin_defaults_file} if admin_defaults_file else {}
    return {
        **given,
        "RunId": f"prepare-base-{settings.name}",
        **settings.host_parameters,
        "Filesystems": ",".join(
            dict.fromkeys(f"{one.mount_point}={one.filesystem}" for one in settings.volumes)
        ),
        "LeastBinlogSeconds": str(settings.limits.prewarm_deadline_minutes * 60),
        "Health": health_policy(settings),
        "HealthAccount": "here" if account_here else "replicated",
    }


def agent_step(agent: Agent) -> BaseStep:
    """Checks the SSM agent of the host."""
    if not agent.is_online:
        return BaseStep(
            "agent",
            "refused",
            f"the SSM agent is {agent.status}",
            "start it, give the instance profile the permission set `host` (docs/permissions.md), and let it reach AWS",
        )
    if agent.is_too_old:
        detail = f"SSM agent {agent.version or 'of unknown version'}"
        return BaseStep("agent", "refused", detail, f"update it to {OLDEST_AGENT} or newer")
    return BaseStep("agent", "already there", f"SSM agent {agent.version}")


def volumes_step(settings: ClusterSettings, instance: Instance, volumes: Sequence[Volume]) -> BaseStep:
    """Checks that each volume of the settings is found on the instance as a donor's is: by tag, or else by device."""
    unseen = Unknown("not looked at")
    found = data_volumes(Replica(instance, tuple(volumes), unseen, unseen), settings.volumes)
    missing = [one for one in settings.volumes if one.name not in found]
    if not missing:
        shown = ", ".join(f"{name} {volume.volume_id}" for name, volume in found.items())
        return BaseStep("attached volumes", "already there", shown)
    named = ", ".join(f"{one.name} at {one.device}" for one in missing)
    detail = f"{instance.instance_id} has no volume {named}"
    remedy = (
        "attach it at that device, or tag the volume that it is: aws ec2 create-tags --resources VOLUME --tags "
        f"Key={VOLUME_TAG},Value={missing[0].name}"
    )
    return BaseStep("attached volumes", "refused", detail, remedy)


def render_steps(steps: Sequence[BaseStep]) -> RenderableType:
    rows = ((one.name, Text(one.state, style=_MARKS[one.state]), Text(one.detail)) for one in steps)
    return table_of(("step", "state", "detail"), rows, whole=("step", "state"))


def remedies(steps: Sequence[BaseStep]) -> list[str]:
    """Lists the remedies of refusals and warnings; statements in them are lines of their own, to be copied."""
    return [f"\n{step.name}: {step.remedy}" for step in steps if step.remedy]


def _prepare(
    control: ControlPlane, settings: ClusterSettings, instance_id: str, parameters: Mapping[str, str]
) -> list[BaseStep]:
    ec2 = control.client("ec2")
    instance = Ec2Compute(ec2, settings.environment).instance(instance_id)
    if (why := why_not_base(settings, instance)) is not None:
        raise ControlPlaneError(f"{instance_id} {why}")
    ssm = control.client("ssm")
    commands = SsmCommands(ssm, ssm, control.environment)
    volumes = Ec2Storage(ec2, ec2, settings.environment).volumes_of_instance(instance_id)
    steps = [
        agent_step(commands.agent(instance_id)),
        volumes_step(settings, instance, volumes),
    ]
    if any(step.state == "refused" for step in steps):
        return steps
    package = partial(deployed_package, control)
    return steps + prepare_host(commands, package, settings, instance_id, parameters, progress)


def deployed_package(control: ControlPlane) -> HostPackage:
    name = named(control.environment, "install_host_package")
    try:
        known = control.client("lambda").get_function_configuration(FunctionName=name)
    except ClientError as error:
        if error.response["Error"]["Code"] != "ResourceNotFoundException":
            raise
        raise ControlPlaneError(control.not_deployed(f"no function {name}")) from error
    variables = known["Environment"]["Variables"]
    # Hosts of a local cloud reach it at another address than we do, as those of AWS do not.
    for_hosts = os.environ.get("AWS_ENDPOINT_URL_S3") or control.endpoint_url
    return S3HostPackage(
        replace(control, endpoint_url=for_hosts).client("s3"),
        variables["HOST_PACKAGE_BUCKET"],
        variables["HOST_PACKAGE_KEY"],
        variables["HOST_PACKAGE_SHA256"],
    )


def run_document(
    commands: CommandRunner,
    document: str,
    instance_id: str,
    parameters: Mapping[str, str],
    who: str,
    pause: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:
    """The document's result line with its envelope; of a command without one, what Systems Manager says.

    `who` asks, as the Run Command history shows it. Raises ControlPlaneError when the command does not end.
    """
    command_id = commands.send(document, instance_id, parameters, who)
    for _ in range(int(_LIMIT_SECONDS / _PAUSE_SECONDS)):
        outcome = commands.outcome(command_id, instance_id)
        if outcome.status.is_over:
            result = last_json_line(outcome.stdout)
            if result is not None and (result.get("ok") is True) is (outcome.status is CommandStatus.SUCCESS):
                return result
            said = (outcome.stderr or outcome.stdout).strip()[-400:]
            return {"ok": False, "error": outcome.status_details or outcome.status.value, "message": said}
        pause(_PAUSE_SECONDS)
    raise ControlPlaneError(
        f"{document} on {instance_id} has not ended after {_LIMIT_SECONDS:.0f} s (command {command_id}); look at it in "
        "the Run Command history, then run this again"
    )


def _document(
    cluster: str, instance_id: str, steps: Sequence[BaseStep], following: str | None
) -> dict[str, Any]:
    return {
        "cluster": cluster,
        "instance_id": instance_id,
        "prepared": following is not None,
        "changed": any(step.state == "done" for step in steps),
        "steps": [asdict(step) for step in steps],
        "next": following,
    }
