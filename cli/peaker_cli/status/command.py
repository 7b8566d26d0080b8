"""`peaker status`: what is going on, now."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from peaker_cli.control_plane import ControlPlane
from peaker_cli.deployment import DeploymentOptions
from peaker_cli.failures import ControlPlaneError
from peaker_cli.printing import console, echo
from peaker_cli.status.document import ClusterStatus, as_document, cluster_status
from peaker_cli.status.gather import StatusReader
from peaker_cli.status.rendering import render_overview, render_status

EPILOG = "Examples: peaker status --env prod; peaker status orders --env prod; peaker status orders --json"
ClusterOrAll = Annotated[str | None, typer.Argument(help="Without it: one line per cluster.")]


def status_command(
    deployment: DeploymentOptions,
    cluster: ClusterOrAll = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the document itself.")] = False,
) -> None:
    """Show replicas, the run at work, forecast against capacity, the last decision and alarms of CLUSTER."""
    control = ControlPlane.of(deployment)
    statuses = read_statuses(StatusReader(control), control, cluster)
    if as_json:
        document = as_document(statuses if cluster is None else statuses[0])
        echo(json.dumps(document, indent=1))
    else:
        console().print(render_overview(statuses) if cluster is None else render_status(statuses[0]))


def read_statuses(reader: StatusReader, control: ControlPlane, cluster: str | None) -> list[ClusterStatus]:
    """Reads the status of one cluster, or of all. Raises ControlPlaneError where none is deployed,
    UnknownCluster for a wrong name.
    """
    names = reader.clusters() if cluster is None else [cluster]
    if not names:
        raise ControlPlaneError(control.not_deployed("no cluster"))
    return [cluster_status(reader.read(name)) for name in names]
