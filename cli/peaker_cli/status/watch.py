"""`peaker watch`: the status, again and again."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from peaker_cli.aws_failures import EXPECTED, one_line
from peaker_cli.control_plane import ControlPlane
from peaker_cli.deployment import DeploymentOptions
from peaker_cli.printing import AsJson, OneOrAll, console, echo
from peaker_cli.status.command import read_statuses
from peaker_cli.status.document import ClusterStatus
from peaker_cli.status.gather import StatusReader
from peaker_cli.status.rendering import render_overview, render_status, status_line
from peaker_cli.status.verdict import status_document
from peaker_contract.errors import PeakerError

EPILOG = "Examples: peaker watch orders --env prod; peaker watch --env prod --every 30 >>watch.log"


def watch_command(
    deployment: DeploymentOptions,
    cluster: OneOrAll = None,
    every: Annotated[float, typer.Option(min=1.0, help="Seconds between two looks.")] = 5.0,
    as_json: AsJson = False,
) -> None:
    """Show the status of CLUSTER live until Ctrl-C; where the output is no terminal, append a line per look."""
    reader = StatusReader(ControlPlane.of(deployment))

    def look() -> list[ClusterStatus]:
        return read_statuses(reader, cluster)

    try:
        if sys.stdout.isatty() and not as_json:
            _live(look, cluster is not None, every)
        else:
            _append(look, every, as_json)
    except KeyboardInterrupt:
        return


def _live(look: Callable[[], list[ClusterStatus]], one: bool, every: float) -> None:
    newest = _rendered(look(), one)
    live = Live(newest, console=console(), auto_refresh=False)
    try:  # not `with`: Ctrl-C while it starts must give the cursor back as well
        live.start()
        while True:
            live.update(newest, refresh=True)
            time.sleep(every)
            try:
                newest = _rendered(look(), one)
            except (PeakerError, *EXPECTED) as error:
                live.update(Group(newest, Text(f"no news: {one_line(error)}", style="yellow")), refresh=True)
    finally:
        live.stop()


def _append(look: Callable[[], list[ClusterStatus]], every: float, as_json: bool) -> None:
    statuses = look()
    while True:
        for status in statuses:
            echo(json.dumps(status_document(status)) if as_json else status_line(status))
        time.sleep(every)
        try:
            statuses = look()
        except (PeakerError, *EXPECTED) as error:
            why = one_line(error)
            echo(json.dumps({"unknown": why}) if as_json else f"no news: {why}")
            statuses = []


def _rendered(statuses: list[ClusterStatus], one: bool) -> RenderableType:
    return render_status(statuses[0]) if one else render_overview(statuses)
