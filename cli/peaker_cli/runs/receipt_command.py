"""`peaker receipt`: what a run did; of one that has no receipt yet, what it is doing."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from peaker.domain.decoding import understood
from peaker.domain.reading import Unknown
from peaker.domain.report.run_progress import RunProgress, run_progress
from peaker.domain.runs.ledger import RunRow
from rich.console import RenderableType

from peaker_cli.control_plane import ControlPlane
from peaker_cli.deployment import DeploymentOptions
from peaker_cli.failures import ControlPlaneError
from peaker_cli.printing import console, echo
from peaker_cli.runs.command import RunLine, open_line
from peaker_cli.runs.receipt import render_receipt
from peaker_cli.status.document import as_document
from peaker_cli.status.gather import StatusReader
from peaker_cli.status.rendering import ended_line, progress_line
from peaker_cli.status.run_at_work import run_status
from peaker_contract.errors import LedgerInconsistent

EPILOG = "Example: peaker receipt scale-out-orders-20261121T014000-9f3a --env prod"


@dataclass(frozen=True)
class Unfinished:
    """A run that has no receipt yet: its line of `peaker runs`, what it is doing, and how its execution ended."""

    run: RunLine
    progress: RunProgress | Unknown
    ended: str | None


def receipt_command(
    run_id: str,
    deployment: DeploymentOptions,
    as_json: Annotated[bool, typer.Option("--json", help="Print the document itself.")] = False,
) -> None:
    """Show a run's receipt: each step, its minutes and numbers, what was made, what it cost."""
    control = ControlPlane.of(deployment)
    receipt = control.find_receipt(run_id)
    if receipt is not None:
        if as_json:
            echo(json.dumps(receipt, indent=1, default=str))
        else:
            console().print(receipt_panel(receipt))
        return
    unfinished = read_unfinished(StatusReader(control), control, run_id)
    if as_json:
        echo(json.dumps(as_document(unfinished), indent=1))
    else:
        echo(unfinished_text(unfinished, control))


def receipt_panel(receipt: dict[str, Any]) -> RenderableType:
    """The receipt for a person. Raises ControlPlaneError for one that this release cannot read."""
    with understood(ControlPlaneError, "the receipt (--json prints it as it is)"):
        return render_receipt(receipt)


def read_unfinished(reader: StatusReader, control: ControlPlane, run_id: str) -> Unfinished:
    """Raises ControlPlaneError for a run that the ledger does not know."""
    run = _run(reader, control, run_id)
    settings = reader.settings(run.cluster)
    steps = reader.ledger.steps(run_id)
    at_work = reader.at_work(run.cluster)
    now = control.clock.now()
    line = open_line(run, steps, settings, at_work, now)
    if at_work is not None and at_work.lease.run_id == run_id:
        status = run_status(at_work, settings, now)
        return Unfinished(line, status.progress, ended_line(status, status.ended) if status.ended else None)
    return Unfinished(line, run_progress(steps, settings, now), None)


def unfinished_text(unfinished: Unfinished, control: ControlPlane) -> str:
    """Answers a person who asks for the receipt too early."""
    run = unfinished.run
    now = control.clock.now()
    head = f"{run.run_id} has no receipt yet: {run.state} since {run.started_at:%d %b %H:%M:%S} UTC"
    if unfinished.ended:
        return f"{head}\n{unfinished.ended}"
    doing = f"{progress_line(unfinished.progress, now)}"
    if run.state == "running":
        return f"{head}\n{doing}"
    return f"{head}\nlast seen in {doing}; it no longer holds its cluster's lease, sweep_orphans ends it"


def _run(reader: StatusReader, control: ControlPlane, run_id: str) -> RunRow:
    with control.reading_ledger():
        try:
            return reader.ledger.run(run_id)
        except LedgerInconsistent as error:
            raise ControlPlaneError(
                f"no run {run_id!r} in {control.ledger_table}; `peaker runs CLUSTER` lists those that there are"
            ) from error
