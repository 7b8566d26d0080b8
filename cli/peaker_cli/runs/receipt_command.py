"""`peaker receipt`: what a run did; of one that has no receipt yet, what it is doing."""

from __future__ import annotations

from typing import Annotated

import typer
from peaker.domain.runs.ledger import RunRow

from peaker_cli.control_plane import ControlPlane
from peaker_cli.deployment import DeploymentOptions
from peaker_cli.durations import clock
from peaker_cli.failures import ControlPlaneError
from peaker_cli.files import HtmlFile, write_page
from peaker_cli.printing import AsJson, console, echo, echo_json
from peaker_cli.runs.command import LEFT, RunLine, is_whole, named_run, open_line
from peaker_cli.runs.receipt import render_receipt
from peaker_cli.runs.receipt_page import render_page
from peaker_cli.status.document import as_document
from peaker_cli.status.gather import StatusReader
from peaker_contract.errors import LedgerInconsistent

EPILOG = "Examples: peaker receipt last --env prod; peaker receipt 9f3a --html receipt.html"


def receipt_command(
    run: Annotated[str, typer.Argument(help="Its id, the id's last characters, or last.")],
    deployment: DeploymentOptions,
    as_json: AsJson = False,
    html_path: HtmlFile = None,
) -> None:
    """Show a run's receipt: each step, its minutes and numbers, what was made, what it cost."""
    control = ControlPlane.of(deployment)
    reader = StatusReader(control)
    run_id = run if is_whole(run) else named_run(control, reader.clusters(), run)
    receipt = control.find_receipt(run_id)
    if receipt is not None:
        if html_path is not None:
            write_page(html_path, render_page(receipt))
        if as_json:
            echo_json(receipt)
        else:
            console().print(render_receipt(receipt))
        return
    row = _run(reader, control, run_id)
    at_work, settings = reader.at_work(row.cluster), reader.settings(row.cluster)
    line = open_line(row, reader.ledger.steps(run_id), settings, at_work, control.clock.now())
    if html_path is not None:
        raise ControlPlaneError(f"{unfinished_text(line)}; there is no page of it")
    if as_json:
        echo_json(as_document(line))
    else:
        echo(unfinished_text(line))


def unfinished_text(run: RunLine) -> str:
    head = f"{run.run_id} has no receipt yet: {run.state} since {clock(run.started_at)}"
    left = "; nobody works on it, sweep_orphans ends it" if run.state == LEFT else ""
    return f"{head}, in {run.step or 'no step yet'}{left}"


def _run(reader: StatusReader, control: ControlPlane, run_id: str) -> RunRow:
    with control.reading_ledger():
        try:
            return reader.ledger.run(run_id)
        except LedgerInconsistent as error:
            raise ControlPlaneError(
                f"no run {run_id!r} in {control.ledger_table}; `peaker runs CLUSTER` lists those that there are"
            ) from error
