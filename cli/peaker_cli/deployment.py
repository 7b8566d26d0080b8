"""A deployment is the Peaker that a command talks to: the options that all such commands share, and their
meaning.

A command takes `deployment: DeploymentOptions` and is registered with `app.command(...)(takes_deployment(command))`.
What a person leaves out comes from the usual places; nothing is assumed in silence:

environment  --env, PEAKER_ENV, `local` on a local cloud, the only deployable file in the checkout's environments/
region       --region, AWS_REGION, AWS_DEFAULT_REGION, the profile's region, the environment's file in the checkout
profile      --profile, AWS_PROFILE, the default profile
endpoint     --endpoint, AWS_ENDPOINT_URL; on a loopback address it is a local cloud
"""

from __future__ import annotations

import functools
import inspect
import ipaddress
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import botocore.session
import typer
import yaml
from botocore.exceptions import ProfileNotFound

from peaker_cli.failures import plain
from peaker_contract.names import LOCAL_ENVIRONMENT

LOCAL_REGION = "us-east-1"
_ENVIRONMENT_NAME = re.compile(r"[a-z][a-z0-9]{0,9}")
_REGION_NAME = re.compile(r"[a-z]{2,4}(-[a-z]+)+-\d+")

_Environment = Annotated[
    str | None,
    typer.Option(
        "--env",
        show_default="PEAKER_ENV, or the only one of the checkout",
        help="Environment that was deployed, e.g. prod.",
    ),
]
_Region = Annotated[
    str | None,
    typer.Option(
        "--region",
        show_default="AWS_REGION, the profile's, or the environment file's",
        help="AWS region.",
    ),
]
_Profile = Annotated[
    str | None, typer.Option("--profile", show_default="AWS_PROFILE", help="AWS profile of ~/.aws/config.")
]
_Endpoint = Annotated[
    str | None,
    typer.Option(
        "--endpoint",
        show_default="AWS_ENDPOINT_URL",
        help="AWS API of a local cloud, e.g. http://127.0.0.1:4566.",
    ),
]


class DeploymentUnclear(Exception):
    """Environment, region, profile or endpoint is wrong or not known; the message is one line with the remedy."""


@dataclass(frozen=True)
class Surroundings:
    """The process environment, the AWS profile's region, and the regions of the checkout's environments by name."""

    variables: Mapping[str, str]
    profile_region: str | None = None
    environments: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Deployment:
    """One deployed Peaker. `notes` says what was not named but found, and what contradicts it."""

    environment: str
    region: str
    profile: str | None
    endpoint_url: str | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class DeploymentOptions:
    """These options are as typed; None where nothing was."""

    environment: str | None = None
    region: str | None = None
    profile: str | None = None
    endpoint: str | None = None

    def resolve(self, in_environment: bool = True) -> Deployment:
        """The deployment that is meant; notes go to stderr. What is unclear ends the command with status 2.

        Without `in_environment` it is the account and the region alone, where no environment was named.
        """
        try:
            found = resolve_deployment(self, surroundings_of(self), in_environment)
        except DeploymentUnclear as error:
            typer.echo(plain(f"peaker: {error}"), err=True)
            raise typer.Exit(2) from None
        for note in found.notes:
            typer.echo(plain(f"peaker: {note}"), err=True)
        return found


def takes_deployment(command: Callable[..., None]) -> Callable[..., None]:
    """The command with --env, --region, --profile and --endpoint in place of its parameter `deployment`."""
    signature = inspect.signature(command, eval_str=True)

    @functools.wraps(command)
    def called(**given: Any) -> None:
        options = {name: given.pop(name) for name in ("environment", "region", "profile", "endpoint")}
        command(deployment=DeploymentOptions(**options), **given)

    own = [one for name, one in signature.parameters.items() if name != "deployment"]
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in (
            ("environment", _Environment),
            ("region", _Region),
            ("profile", _Profile),
            ("endpoint", _Endpoint),
        )
    ]
    parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own] + shared
    called.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return called


def resolve_deployment(
    options: DeploymentOptions, here: Surroundings, in_environment: bool = True
) -> Deployment:
    """Decide what is meant from what was given and what is around. Raises DeploymentUnclear."""
    endpoint = _endpoint(options, here)
    environment, environment_found = "", ""
    if in_environment or options.environment or here.variables.get("PEAKER_ENV"):
        environment, environment_found = _environment(options, here, endpoint)
    region, region_found, conflict = _region(options, here, environment, endpoint)
    found = ", ".join(one for one in (environment_found, region_found) if one)
    notes = tuple(one for one in (found, conflict) if one)
    return Deployment(environment, region, options.profile, endpoint, notes)


def is_local_cloud(endpoint_url: str | None) -> bool:
    """Tells whether the AWS API at this address is on this machine."""
    host = urlsplit(endpoint_url or "").hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _endpoint(options: DeploymentOptions, here: Surroundings) -> str | None:
    ignored = here.variables.get("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "").lower() == "true"
    configured = None if ignored else here.variables.get("AWS_ENDPOINT_URL")
    source, endpoint = (
        ("--endpoint", options.endpoint) if options.endpoint else ("AWS_ENDPOINT_URL", configured)
    )
    if not endpoint:
        return None
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise DeploymentUnclear(f"{source} {endpoint!r} is no URL; give it as http://127.0.0.1:4566")
    return endpoint


def _environment(options: DeploymentOptions, here: Surroundings, endpoint: str | None) -> tuple[str, str]:
    """The environment, and what to say where nobody named it."""
    variable = here.variables.get("PEAKER_ENV")
    source, named = ("--env", options.environment) if options.environment else ("PEAKER_ENV", variable)
    if named:
        if not _ENVIRONMENT_NAME.fullmatch(named):
            raise DeploymentUnclear(
                f"{source} {named!r} is no name of an environment: a small letter, then at most nine small "
                "letters and digits, e.g. prod"
            )
        return named, ""
    if is_local_cloud(endpoint):
        return LOCAL_ENVIRONMENT, f"environment {LOCAL_ENVIRONMENT} (a local cloud's)"
    candidates = [one for one in here.environments if one != LOCAL_ENVIRONMENT]
    if len(candidates) == 1:
        return candidates[0], f"environment {candidates[0]} (the only one in environments/)"
    known = f"; this checkout has {', '.join(sorted(here.environments))}" if here.environments else ""
    raise DeploymentUnclear(f"which environment? Give --env, e.g. --env prod, or set PEAKER_ENV{known}")


def _region(
    options: DeploymentOptions, here: Surroundings, environment: str, endpoint: str | None
) -> tuple[str, str, str]:
    """The region, what to say where nobody named it, and what contradicts it."""
    local = is_local_cloud(endpoint)
    profile = _profile_name(options, here)
    file = f"environments/{environment}.yaml" if environment in here.environments else ""
    assumed = [(file, here.environments[environment])] if file else []
    if local:
        assumed.append(("a local cloud's", LOCAL_REGION))
    named = [("--region", options.region)]
    # What a shell has set for AWS is not meant for the local cloud's own environment.
    if not (local and environment == LOCAL_ENVIRONMENT):
        named += [(name, here.variables.get(name)) for name in ("AWS_REGION", "AWS_DEFAULT_REGION")]
        named.append((profile, here.profile_region))
    source, region = next(((source, value) for source, value in named + assumed if value), ("", None))
    if region is None:
        raise DeploymentUnclear(
            "which region? Give --region, set AWS_REGION, or choose a --profile that has one"
            + (f"; {file} has none" if file else "")
        )
    if not _REGION_NAME.fullmatch(region):
        raise DeploymentUnclear(f"{source}: {region!r} is no AWS region; give one like eu-west-1")
    if source in dict(assumed):
        return region, f"region {region} ({source})", ""
    rivals = assumed[:1] if file else []
    if options.profile and source.startswith("AWS_"):
        rivals.append((profile, here.profile_region))
    against = " and ".join(f"{rival} says {value}" for rival, value in rivals if value and value != region)
    return region, "", f"region {region} from {source}, but {against}; --region decides" if against else ""


def _profile_name(options: DeploymentOptions, here: Surroundings) -> str:
    name = options.profile or here.variables.get("AWS_PROFILE")
    return f"profile {name}" if name else "the default profile"


def surroundings_of(options: DeploymentOptions) -> Surroundings:
    """Read the process environment, the AWS profile, and the checkout around the working directory.

    Raises DeploymentUnclear when the profile that was named does not exist.
    """
    session = botocore.session.Session(profile=options.profile)
    try:
        region = session.get_scoped_config().get("region")
    except ProfileNotFound:
        named = options.profile or os.environ.get("AWS_PROFILE") or os.environ.get("AWS_DEFAULT_PROFILE")
        known = ", ".join(session.available_profiles) or "none"
        raise DeploymentUnclear(f"no AWS profile {named!r} in ~/.aws/config; there are: {known}") from None
    return Surroundings(dict(os.environ), region, regions_of_environments(Path.cwd()))


def checkout_of(directory: Path) -> Path | None:
    for folder in (directory, *directory.parents):
        if (folder / "cdk.json").is_file() and (folder / "environments" / "schema.py").is_file():
            return folder
    return None


def regions_of_environments(directory: Path) -> dict[str, str | None]:
    """The environments of the checkout that `directory` lies in, by name; None where a file names no region."""
    root = checkout_of(directory)
    files = sorted((root / "environments").glob("*.yaml")) if root else []
    return {path.stem: _region_in(path) for path in files}


def _region_in(path: Path) -> str | None:
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return None
    region = document.get("region") if isinstance(document, dict) else None
    return region if isinstance(region, str) else None
