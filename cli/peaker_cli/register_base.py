"""`peaker register-base`: a base replica goes behind its read endpoint, which Peaker does only for its own."""

from __future__ import annotations

from typing import Annotated

import typer
from peaker.adapters.ec2_compute import Ec2Compute
from peaker.adapters.parameter_clusters import ParameterClusters
from peaker.adapters.read_endpoint_by_kind import read_endpoints
from peaker.domain.cluster import ClusterSettings
from peaker.domain.errors import PeakerError
from peaker.domain.inventory import CLUSTER_TAG, OWNER_TAG, ROLE_TAG, Instance
from peaker.ports import TrafficRouter

from peaker_cli.control_plane import ControlPlane, ControlPlaneError
from peaker_cli.deployment import DeploymentOptions

EPILOG = "Example: peaker register-base orders i-0123456789abcdef0 --env prod"


def register_base_command(
    cluster: str,
    instance_id: Annotated[str, typer.Argument(metavar="INSTANCE")],
    deployment: DeploymentOptions,
) -> None:
    """Put base replica INSTANCE behind CLUSTER's read endpoint, as one of the proven; once per base replica."""
    control = ControlPlane.of(deployment)
    try:
        settings = ParameterClusters(control.client("ssm"), control.environment).settings(cluster)
        instance = Ec2Compute(control.client("ec2")).instance(instance_id)
        client = control.client
        router = read_endpoints(client("elbv2"), client("route53"), client("ec2"), client("cloudwatch"))
        register_base(router, settings, instance)
    except PeakerError as error:
        raise ControlPlaneError(str(error)) from error
    typer.echo(
        f"{instance_id} is behind the read endpoint of {cluster}; it gets reads once it is found healthy"
    )


def register_base(router: TrafficRouter, settings: ClusterSettings, instance: Instance) -> None:
    """Register and promote. Raises ControlPlaneError for anything but a base replica of the cluster."""
    tags = instance.tags
    if tags.get(CLUSTER_TAG) != settings.name or tags.get(ROLE_TAG) != "replica":
        raise ControlPlaneError(
            f"{instance.instance_id} is no replica of {settings.name}: tag it {CLUSTER_TAG}={settings.name} and "
            f"{ROLE_TAG}=replica, found {tags.get(CLUSTER_TAG)!r} and {tags.get(ROLE_TAG)!r}"
        )
    if OWNER_TAG in tags:
        raise ControlPlaneError(
            f"{instance.instance_id} was made by Peaker (tag {OWNER_TAG}), which registers it itself once it is proven"
        )
    router.register(settings, instance.instance_id)
    router.promote(settings, instance.instance_id)
