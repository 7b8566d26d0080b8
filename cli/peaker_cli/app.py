"""The `peaker` command: what Peaker would do, what it did, and what it would have done."""

from __future__ import annotations

import peaker_cli.interruption  # noqa: F401  first: Ctrl-C may come while the others load

# isort: split
import json
import sys
from importlib.metadata import version
from typing import Annotated, Any

import typer
from botocore.exceptions import BotoCoreError, ClientError
from peaker.domain.errors import PeakerError
from rich.console import Console
from rich.table import Table

from peaker_cli.backtest import EPILOG as BACKTEST_EPILOG
from peaker_cli.backtest import backtest_command
from peaker_cli.control_plane import ControlPlane, ControlPlaneError
from peaker_cli.deployment import DeploymentOptions, takes_deployment
from peaker_cli.failures import ended
from peaker_cli.iostat import EPILOG as IOSTAT_EPILOG
from peaker_cli.iostat import iostat_command
from peaker_cli.knee import EPILOG as KNEE_EPILOG
from peaker_cli.knee import knee_command
from peaker_cli.plan import render_plan
from peaker_cli.receipt import render_receipt
from peaker_cli.register_base import EPILOG as REGISTER_BASE_EPILOG
from peaker_cli.register_base import register_base_command

app = typer.Typer(
    name="peaker",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
AsJson = Annotated[bool, typer.Option("--json", help="Print the document itself.")]
PLAN_LIMIT_SECONDS = 180


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"peaker {version('peaker')}")
        raise typer.Exit


@app.callback()
def peaker(
    show_version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version and exit."),
    ] = False,
) -> None:
    """Warm MySQL read replicas before the peak, gone after it."""


app.command("backtest", epilog=BACKTEST_EPILOG)(takes_deployment(backtest_command))
app.command("iostat", epilog=IOSTAT_EPILOG)(iostat_command)
app.command("knee", epilog=KNEE_EPILOG)(knee_command)
app.command("register-base", epilog=REGISTER_BASE_EPILOG)(takes_deployment(register_base_command))


@app.command(epilog="Example: peaker plan orders --env prod --region eu-west-1")
@takes_deployment
def plan(
    cluster: str,
    deployment: DeploymentOptions,
    as_json: AsJson = False,
) -> None:
    """Show what a scale_out of CLUSTER would do now, when, at what price; nothing is touched."""
    control = ControlPlane.of(deployment)
    execution = control.wait(
        control.start("scale_out", {"cluster": cluster, "mode": "plan"}), PLAN_LIMIT_SECONDS
    )
    if execution.failure is not None:
        error, cause = execution.failure
        raise ControlPlaneError(f"{error}: {cause}")
    _show(execution.output, as_json, render_plan)


@app.command(epilog="Example: peaker runs orders --env prod")
@takes_deployment
def runs(cluster: str, deployment: DeploymentOptions) -> None:
    """List the runs of CLUSTER, oldest first."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("run", "operation", "started"):
        table.add_column(column)
    for run in ControlPlane.of(deployment).runs(cluster):
        table.add_row(str(run["run_id"]), str(run.get("operation", "")), str(run["sk"]).split("#")[1])
    Console().print(table)


@app.command(epilog="Example: peaker receipt scale-out-orders-20261121T014000-9f3a --env prod")
@takes_deployment
def receipt(
    run_id: str,
    deployment: DeploymentOptions,
    as_json: AsJson = False,
) -> None:
    """Show a run's receipt: each step, its minutes and numbers, what was made, what it cost."""
    _show(ControlPlane.of(deployment).receipt(run_id), as_json, render_receipt)


def _show(document: Any, as_json: bool, render: Any) -> None:
    if as_json:
        typer.echo(json.dumps(document, indent=1, default=str))
    else:
        Console().print(render(document))


def main() -> None:
    """Entry point; a failure is one line on stderr and exit status 1, a wrong call is status 2."""
    explained = (ControlPlaneError, PeakerError, ClientError, BotoCoreError)
    sys.exit(ended(app, explained))


if __name__ == "__main__":
    main()
