"""`peaker status`: what is going on, now."""

from __future__ import annotations

from collections.abc import Callable

import typer

from peaker_cli.aws_failures import EXPECTED, reason
from peaker_cli.control_plane import ControlPlane
from peaker_cli.deployment import DeploymentOptions
from peaker_cli.failures import ControlPlaneError
from peaker_cli.files import HtmlFile, write_page
from peaker_cli.printing import AsJson, OneOrAll, console, echo, echo_json, telling
from peaker_cli.status.document import ClusterStatus, cluster_status
from peaker_cli.status.gather import StatusReader
from peaker_cli.status.page import render_page
from peaker_cli.status.rendering import render_facts, render_overview
from peaker_cli.status.verdict import EXIT_STATUS, Word, status_document, verdict, worst_first
from peaker_contract.errors import PeakerError

EPILOG = (
    "Examples: peaker status --env prod; peaker status orders --env prod; peaker status --html fleet.html"
)


def status_command(
    deployment: DeploymentOptions,
    cluster: OneOrAll = None,
    as_json: AsJson = False,
    html_path: HtmlFile = None,
) -> None:
    """Show how CLUSTER stands: OK, WAITING, PAUSED, UNKNOWN, FAILED or SHORT, with the runbook and the line to type.

    Then its replicas, the run at work, forecast against capacity, the last decision and alarms. The exit status is a
    monitoring plugin's: 0 OK, 1 WAITING or PAUSED, 2 FAILED or SHORT, 3 UNKNOWN; of all clusters the worst one's.
    """
    reader = StatusReader(ControlPlane.of(deployment))
    try:
        with telling("reading the clusters") as tell:
            statuses = read_statuses(reader, cluster, lambda name: tell(f"reading {name}"))
    except (PeakerError, ControlPlaneError, *EXPECTED) as error:
        why = reason(error)
        if as_json:
            echo_json({"unknown": why})
        else:
            echo(f"{Word.UNKNOWN}: {why}")
        raise typer.Exit(EXIT_STATUS[Word.UNKNOWN]) from None
    if html_path is not None:
        weeks = {one.cluster: reader.week(reader.settings(one.cluster), one.at) for one in statuses}
        write_page(html_path, render_page(worst_first(statuses), weeks))
    if as_json:
        documents = [status_document(one) for one in worst_first(statuses)]
        document = documents if cluster is None else documents[0]
        echo_json(document)
    elif cluster is None:
        worst = worst_first(statuses)[0]
        echo(verdict(worst).first_line.replace(": ", f": {worst.cluster}: ", 1))
        console().print(render_overview(statuses))
    else:
        # One line, however long: monitors show the first one alone.
        echo(verdict(statuses[0]).first_line)
        console().print(render_facts(statuses[0]))
    if (exit_status := verdict(worst_first(statuses)[0]).exit_status) != 0:
        raise typer.Exit(exit_status)


def read_statuses(
    reader: StatusReader, cluster: str | None, tell: Callable[[str], None] = lambda name: None
) -> list[ClusterStatus]:
    statuses = []
    for name in reader.deployed(cluster):
        tell(name)
        statuses.append(cluster_status(reader.read(name)))
    return statuses
