"""`localcloud cluster`: the cluster that Peaker finds, on whichever data plane the local cloud has."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import boto3
from botocore.exceptions import ClientError

from lab import seed
from lab.base_preparation import by_command
from lab.cluster import BringUpError, RunningCluster, bring_up
from lab.local_cloud import LocalCloudFailed, ask
from lab.simulated_cluster import make_simulated_cluster

REGION = "us-east-1"


def make_cluster(
    endpoint: str, environment: str, name: str, load: float | None, progress: Callable[[str], None]
) -> RunningCluster:
    """Raises BringUpError with the remedy when the local cloud, the stacks or the seed dataset are missing."""

    def client(service: str) -> Any:
        return boto3.client(  # type: ignore[call-overload]
            service,
            region_name=REGION,
            endpoint_url=endpoint,
            aws_access_key_id="local",
            aws_secret_access_key="local",
        )

    def admin(path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        try:
            return ask(endpoint, path, body)
        except LocalCloudFailed as error:
            raise BringUpError(str(error)) from error
        except OSError as error:
            raise BringUpError(
                f"no local cloud at {endpoint} ({error}). Start one: python -m localcloud serve"
            ) from error

    state = admin("state")
    settings = _settings(client("ssm"), environment, name)
    prepare_base = by_command(endpoint, state["host_endpoint_url"], environment, name, REGION)
    if state["dataplane"] == "simulated":
        return make_simulated_cluster(client, admin, environment, settings, load, prepare_base, progress)
    kept = seed.load_seed(Path(state["state_dir"]), seed.Dataset())
    if kept is None:
        raise BringUpError("there is no seed dataset; make it once: python -m localcloud prepare")
    return bring_up(client, admin, settings, kept, prepare_base, progress)


def _settings(ssm: Any, environment: str, name: str) -> dict[str, Any]:
    folder = f"/peaker/{environment}/clusters/"
    try:
        settings: dict[str, Any] = json.loads(ssm.get_parameter(Name=f"{folder}{name}")["Parameter"]["Value"])
    except ClientError as error:
        if error.response["Error"]["Code"] != "ParameterNotFound":
            raise
        found = ssm.get_parameters_by_path(Path=folder)["Parameters"]
        known = ", ".join(one["Name"].removeprefix(folder) for one in found)
        raise BringUpError(
            f"cluster {name!r} is not deployed in environment {environment!r}; there are: {known or 'none'}. "
            f"Deploy first: scripts/synth {environment}, then python -m localcloud deploy cdk.out/{environment}"
        ) from error
    return settings
