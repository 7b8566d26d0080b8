"""`peaker init`: from a source and a replica to the environment's file, with what was read and what was guessed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from peaker.domain.reading import Unknown
from pydantic import ValidationError

from peaker_cli.base_replica.prepare_base import AdminDefaultsFile
from peaker_cli.control_plane import ControlPlane
from peaker_cli.deployment import DeploymentOptions, checkout_of
from peaker_cli.failures import ControlPlaneError
from peaker_cli.files import write_whole
from peaker_cli.init import surroundings
from peaker_cli.init.answers import LINES, answers_in, ask_for, chosen, tags_of, the_source
from peaker_cli.init.draft import Given, Seen, Setting, cluster_name, draft, region_of
from peaker_cli.init.file import known, new_file, with_cluster
from peaker_cli.init.host import describe_host
from peaker_cli.printing import echo
from peaker_contract.cluster import ClusterBlock
from peaker_contract.field_types import PATTERN_WORDS, BrokenRules
from peaker_contract.metrics import namespace
from peaker_contract.names import CLUSTER_TAG, ENVIRONMENT_TAG, LOAD_TAG, ROLE_TAG

EPILOG = (
    "Examples: peaker init --env prod --source i-0123456789abcdef0 --replica tag:Name=orders-replica; "
    "peaker init --env prod --source i-0123456789abcdef0 --replica i-0123456789abcdef1 --from describe.json. "
    "Without an account of its own, --from reads what these lines write: " + "; ".join(LINES)
)
_HOST = "an instance id, or tag:Name=..."
_OPTIONS = {
    "name": ": give --cluster", "image_id": ": give --image", "capacity_per_replica": ": give --capacity",
    "engine": ": give --engine", "volumes": ": give --mount", "read_endpoint": ": give --dns",
    "max_replicas": ": give --max-replicas",
}  # fmt: skip
_EXAMPLE = "# An example: every id below is a placeholder"
_NO_ACCOUNT = re.compile(r'^account: "([0-9])\1{11}"', re.MULTILINE)


def init_command(
    deployment: DeploymentOptions,
    source: Annotated[str, typer.Option(help=f"The cluster's source: {_HOST}")],
    replica: Annotated[list[str], typer.Option(help=f"A base replica: {_HOST} May be given again.")],
    cluster: Annotated[
        str, typer.Option(show_default="of the hosts' tags", help="What the cluster is to be called.")
    ] = "",
    described: Annotated[
        Path | None, typer.Option("--from", metavar="FILE", help="Read EC2's answers from there.")
    ] = None,
    capacity: Annotated[
        float | None, typer.Option(min=0.001, help="Reads a second that one replica serves well.")
    ] = None,
    max_replicas: Annotated[int | None, typer.Option(min=1, max=100, help="Base and peak replicas.")] = None,
    image: Annotated[str, typer.Option(metavar="AMI", help="Image of the peak replicas, without data.")] = "",
    dns: Annotated[
        str, typer.Option(metavar="[ZONE/]NAME", help="DNS name to read by, in place of a load balancer.")
    ] = "",
    engine: Annotated[str, typer.Option(metavar="ENGINE", help="mysql or mariadb.")] = "",
    mount: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DEVICES=PATH[:FILESYSTEM[:LAYOUT]]",
            help="What lies on the volumes, where nobody can look.",
        ),
    ] = None,
    admin_defaults_file: AdminDefaultsFile = "",
    tag: Annotated[bool, typer.Option("--tag", help="Also tag the hosts as Peaker finds them by.")] = False,
) -> None:
    """Write environments/ENV.yaml from what the account and a replica say, or add a cluster to it.

    Each line says what was read there and what was guessed. Nothing is changed in the account or on a host, but tags
    with --tag. A second time changes nothing.
    """
    environment = deployment.environment or ""
    if not re.fullmatch(r"[a-z][a-z0-9]{0,9}", environment):
        raise typer.BadParameter(
            "must name the environment: a small letter, then at most nine small letters and digits, e.g. prod",
            param_hint="--env",
        )
    if tag and described:
        raise typer.BadParameter(
            "--from asks nobody: leave it out, and type the create-tags lines that are printed then",
            param_hint="--tag",
        )
    given = Given(cluster, engine, capacity, max_replicas, image, dns, tuple(mount or ()))
    root = checkout_of(Path.cwd())
    if root is None:
        raise ControlPlaneError(
            "no checkout of Peaker here (cdk.json, environments/): change into one, then run this again"
        )
    path = root / "environments" / f"{environment}.yaml"
    source_file = f"environments/{path.name}"
    control = None if described else ControlPlane.of(deployment)
    if control is not None:
        answers = ask_for(control.client, source, replica)
    elif described is not None:
        answers = answers_in(described)
    found = {
        one["InstanceId"]: one for wanted in replica for one in chosen(answers.instances, wanted, "--replica")
    }
    hosts = Seen(
        answers, the_source(answers.instances, source), list(found.values()), Unknown("--from asks nobody")
    )
    _refuse_apart(hosts)
    seen = hosts if control is None else _look_around(control, hosts, given, admin_defaults_file)
    settings, unread = draft(seen, given)
    name = str(settings[0].value)
    instead = ", in place of the example" if _is_example(path) else ""
    text = _file(path, source_file, _head(seen, environment), settings)
    _refuse_wrong(settings, source_file, text)
    if text is None:
        echo(f"{source_file} has the cluster {name} already: nothing is changed")
    else:
        write_whole(path, text)
        guessed = ", ".join(one.name for one in settings if one.guessed) or "nothing"
        echo(f"{source_file}{instead}: cluster {name}; guessed, see the comments there: {guessed}")
    for one in unread if control else []:
        echo(f"not read: {one}")
    _following(control, seen, environment, name, tag)


def _refuse_apart(seen: Seen) -> None:
    """Raises ControlPlaneError where the hosts cannot be one cluster's, or one replica is the source."""
    for one in seen.replicas:
        if one["InstanceId"] == seen.source["InstanceId"]:
            raise ControlPlaneError(
                f"--replica {one['InstanceId']}: is the source: give a replica that follows it"
            )
        if one["VpcId"] != seen.source["VpcId"]:
            raise ControlPlaneError(
                f"--replica {one['InstanceId']}: lies in {one['VpcId']}, the source in {seen.source['VpcId']}: an "
                "environment has one VPC; give a replica there"
            )


def _look_around(control: ControlPlane, seen: Seen, given: Given, admin_defaults_file: str) -> Seen:
    """Adds what else can be read. Raises ControlPlaneError where an image is of another architecture."""
    client, replica = control.client, seen.replica
    if given.image:
        found = surroundings.architecture_of_image(client, given.image)
        if found is None:
            raise ControlPlaneError(
                f"--image {given.image}: there is no such image in {control.region}: see the id"
            )
        if isinstance(found, str) and found != replica.get("Architecture"):
            raise ControlPlaneError(
                f"--image {given.image}: is for {found} processors, {replica['InstanceType']} has "
                f"{replica.get('Architecture')}: give an image of that architecture"
            )
    name = str(replica["InstanceId"])
    echo(f"peaker: looking at {name}", err=True)
    profile = (replica.get("IamInstanceProfile") or {}).get("Arn", "").rpartition("/")[2]
    keys = {one["KmsKeyId"] for one in seen.answers.volumes if one.get("KmsKeyId")}
    endpoint = surroundings.dns_name(client, replica)
    if given.dns and "/" not in given.dns:
        endpoint = {"hosted_zone_id": surroundings.zone_of(client, given.dns)}
    load = surroundings.load_in_cloudwatch(
        client, str(cluster_name(seen, given).value), namespace(control.environment), control.clock.now()
    )
    return Seen(
        seen.answers,
        seen.source,
        seen.replicas,
        describe_host(control, name, admin_defaults_file),
        endpoint,
        load,
        surroundings.role_arn(client, profile) if profile else None,
        surroundings.customer_keys(client, keys) if keys else [],
    )


def _head(seen: Seen, environment: str) -> Mapping[str, Any]:
    return {
        "environment": environment,
        "account": str(seen.replica["OwnerId"]),
        "region": region_of(seen.replica["Placement"]["AvailabilityZone"]),
        "vpc_id": seen.replica["VpcId"],
    }


def _is_example(path: Path) -> bool:
    """Tells whether the file is an example of the repository, with an account that nobody has filled in."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return _EXAMPLE in text and _NO_ACCOUNT.search(text) is not None


def _file(path: Path, source: str, head: Mapping[str, Any], settings: Sequence[Setting]) -> str | None:
    """Returns the file's new text, None where the cluster is in it. An example of the repository is replaced."""
    if not path.exists() or _is_example(path):
        return new_file(head, settings)
    text = path.read_text(encoding="utf-8")
    document = known(text, source)
    for name, value in head.items():
        if str(document.get(name)) != value:
            raise ControlPlaneError(
                f"{source}: {name} is {document.get(name)}, the hosts' is {value}: give another --env, or other hosts"
            )
    if settings[0].value in [one.get("name") for one in document["clusters"]]:
        return None
    return with_cluster(text, settings, source)


def _refuse_wrong(settings: Sequence[Setting], source: str, text: str | None) -> None:
    """Raises ControlPlaneError with what is wrong with the cluster, a line each; nothing is written then."""
    if text is None:
        return
    block = {one.name: one.value for one in settings if one.name != "instance_role_arn"}
    block["volumes"] = [one.value for one in block["volumes"]]
    try:
        ClusterBlock.model_validate(block)
    except ValidationError as error:
        lines = []
        found = error.errors(include_url=False)
        follow = ("default_factory_not_called", "too_short")  # from another, where there is one
        for one in [each for each in found if each["type"] not in follow] or found:
            broken, pattern = (one.get("ctx") or {}).get("error"), (one.get("ctx") or {}).get("pattern")
            option = _OPTIONS.get(str(one["loc"][0]) if one["loc"] else "", "")
            at = ".".join(str(part) for part in one["loc"])
            told = f"must be {PATTERN_WORDS[pattern]}" if pattern in PATTERN_WORDS else one["msg"]
            said = (
                [str(fault) for fault in broken.faults]
                if isinstance(broken, BrokenRules)
                else [f"{at}: {told}"]
            )
            lines += [f"{fault}, got {str(one['input'])[:60]!r}{option}" for fault in said]
        raise ControlPlaneError(
            f"{source} is not written: what the hosts have, or an option says, is no setting of Peaker's:\n  "
            + "\n  ".join(lines)
        ) from error


def _following(control: ControlPlane | None, seen: Seen, environment: str, name: str, tag: bool) -> None:
    """Tags the hosts or says how, and prints the lines to type next."""
    wanted = {ENVIRONMENT_TAG: environment, CLUSTER_TAG: name}
    roles = [
        (seen.source, {ROLE_TAG: "source"}),
        *((one, {ROLE_TAG: "replica", LOAD_TAG: "base"}) for one in seen.replicas),
    ]
    lines = []
    for host, own in roles:
        missing = {key: value for key, value in (wanted | own).items() if tags_of(host).get(key) != value}
        if not missing:
            continue
        if tag and control is not None:
            pairs = [{"Key": key, "Value": value} for key, value in missing.items()]
            control.client("ec2").create_tags(Resources=[host["InstanceId"]], Tags=pairs)
            echo(f"tagged {host['InstanceId']}")
        else:
            pairs_shown = " ".join(f"Key={key},Value={value}" for key, value in missing.items())
            lines.append(f"aws ec2 create-tags --resources {host['InstanceId']} --tags {pairs_shown}")
    lines += [
        f"scripts/synth {environment}",
        f"npx cdk bootstrap -c env={environment}  # once for each account and region",
        f"npx cdk deploy -c env={environment} '**'",
    ]
    lines += [f"peaker prepare-base {name} {one['InstanceId']} --env {environment}" for one in seen.replicas]
    lines += [f"peaker register-base {name} {one['InstanceId']} --env {environment}" for one in seen.replicas]
    echo("to deploy it:\n  " + "\n  ".join(lines))
    echo(f"then:\n  peaker doctor {name} --env {environment}\n  peaker plan {name} --env {environment}")
