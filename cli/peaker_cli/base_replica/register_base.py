"""`peaker register-base`: a base replica goes behind its read endpoint, which Peaker does only for its own."""

from __future__ import annotations

from typing import Annotated

import typer
from peaker.adapters.ec2.compute import Ec2Compute
from peaker.adapters.read_endpoint.by_kind import read_endpoints
from peaker.adapters.ssm.clusters import ParameterClusters
from peaker.domain.replicas.inventory import Instance
from peaker.ports.endpoint import TrafficRouter

from peaker_cli.control_plane import ControlPlane
from peaker_cli.deployment import DeploymentOptions
from peaker_cli.failures import ControlPlaneError
from peaker_cli.printing import AsJson, echo, echo_json
from peaker_contract.cluster import ClusterSettings
from peaker_contract.names import (
    CLUSTER_TAG,
    ENVIRONMENT_TAG,
    LOAD_TAG,
    OWNER_TAG,
    ROLE_TAG,
)

_ALIVE = {"pending", "running"}
EPILOG = "Example: peaker register-base orders i-0123456789abcdef0 --env prod"


def register_base_command(
    cluster: str,
    instance_id: Annotated[str, typer.Argument(metavar="INSTANCE")],
    deployment: DeploymentOptions,
    as_json: AsJson = False,
) -> None:
    """Put base replica INSTANCE behind CLUSTER's read endpoint, as one of the proven; once per base replica."""
    control = ControlPlane.of(deployment)
    settings = ParameterClusters(control.client("ssm"), control.environment).settings(cluster)
    instance = Ec2Compute(control.client("ec2"), control.environment).instance(instance_id)
    register_base(read_endpoints(control.client), settings, instance)
    if as_json:
        echo_json({"cluster": cluster, "instance_id": instance_id, "registered": True})
        return
    echo(f"{instance_id} is behind the read endpoint of {cluster}; it gets reads once it is found healthy")


def register_base(router: TrafficRouter, settings: ClusterSettings, instance: Instance) -> None:
    """Register and promote. Raises ControlPlaneError for anything but a base replica of the cluster."""
    if (why := why_not_base(settings, instance)) is not None:
        raise ControlPlaneError(f"{instance.instance_id} {why}")
    router.register(settings, instance.instance_id)
    router.promote(settings, instance.instance_id)


def why_not_base(settings: ClusterSettings, instance: Instance) -> str | None:
    """Returns why this instance does not go behind the read endpoint, and the remedy; None for a base replica."""
    tags, cluster = instance.tags, settings.name
    environment = tags.get(ENVIRONMENT_TAG)
    role, owner = tags.get(ROLE_TAG), tags.get(CLUSTER_TAG)
    if role == "source":
        return (
            f"is the source of {owner} (tag {ROLE_TAG}=source): it takes the writes and never serves reads behind the "
            "read endpoint; give the id of a replica"
        )
    if OWNER_TAG in tags:
        return f"was made by Peaker (tag {OWNER_TAG}), which registers it itself once it is proven"
    if instance.state not in _ALIVE:
        return f"is {instance.state}; start it first"
    if owner is not None and owner != cluster:
        return f"belongs to the cluster {owner} (tag {CLUSTER_TAG}), not to {cluster}; give the cluster that it is of"
    if environment is not None and environment != settings.environment:
        return (
            f"belongs to the environment {environment} (tag {ENVIRONMENT_TAG}), not to {settings.environment}; give "
            "the environment that it is of"
        )
    if owner is None or role != "replica" or environment is None:
        return (
            f"is not tagged as a replica of {cluster}: {ROLE_TAG} is {role or 'not set'}, {CLUSTER_TAG} is "
            f"{owner or 'not set'}, {ENVIRONMENT_TAG} is {environment or 'not set'}. If it follows the source of "
            f"{cluster}, run: aws ec2 create-tags --resources {instance.instance_id} --tags "
            f"Key={CLUSTER_TAG},Value={cluster} Key={ENVIRONMENT_TAG},Value={settings.environment} "
            f"Key={ROLE_TAG},Value=replica Key={LOAD_TAG},Value=base"
        )
    return None
