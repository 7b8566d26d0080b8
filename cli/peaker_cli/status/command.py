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
from peaker_cli.status.verdict import verdict, worst_first

EPILOG = "Examples: peaker status --env prod; peaker status orders --env prod; peaker status orders --json"
ClusterOrAll = Annotated[str | None, typer.Argument(help="Without it: one line per cluster.")]


def status_command(
    deployment: DeploymentOptions,
    cluster: ClusterOrAll = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the document itself.")] = False,
) -> None:
    """Show how CLUSTER stands: OK, WAITING, PAUSED, UNKNOWN, FAILED or SHORT, with the runbook and the line to type.

    Then its replicas, the run at work, forecast against capacity, the last decision and alarms. The exit status is a
    monitoring plugin's: 0 OK, 1 WAITING or PAUSED, 2 FAILED or SHORT, 3 UNKNOWN; of all clusters the worst one's.
    """
    control = ControlPlane.of(deployment)
    statuses = read_statuses(StatusReader(control), control, cluster)
    if as_json:
        documents = [
            {"verdict": as_document(verdict(one)), **as_document(one)} for one in worst_first(statuses)
        ]
        document = documents if cluster is None else documents[0]
        echo(json.dumps(document, indent=1))
    else:
        console().print(render_overview(statuses) if cluster is None else render_status(statuses[0]))
    if (exit_status := verdict(worst_first(statuses)[0]).exit_status) != 0:
        raise typer.Exit(exit_status)


def read_statuses(reader: StatusReader, control: ControlPlane, cluster: str | None) -> list[ClusterStatus]:
    """Reads the status of one cluster, or of all. Raises ControlPlaneError where none is deployed,
    UnknownCluster for a wrong name.
    """
    names = reader.clusters() if cluster is None else [cluster]
    if not names:
        raise ControlPlaneError(control.not_deployed("no cluster"))
    return [cluster_status(reader.read(name)) for name in names]
