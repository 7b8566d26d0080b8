"""The `peaker` command: what Peaker would do, what it does, what it did, and what it would have done."""

from __future__ import annotations

import peaker_cli.interruption  # noqa: F401  first: Ctrl-C may come while the others load

# isort: split
import sys
from importlib.metadata import version
from typing import Annotated

import typer
from peaker.domain.errors import PeakerError

from peaker_cli import plan, receipt_command, runs, status, watch
from peaker_cli.aws_failures import EXPECTED, one_line
from peaker_cli.backtest import EPILOG as BACKTEST_EPILOG
from peaker_cli.backtest import backtest_command
from peaker_cli.control_plane import ControlPlaneError
from peaker_cli.deployment import takes_deployment
from peaker_cli.failures import ended
from peaker_cli.iostat import EPILOG as IOSTAT_EPILOG
from peaker_cli.iostat import iostat_command
from peaker_cli.knee import EPILOG as KNEE_EPILOG
from peaker_cli.knee import knee_command
from peaker_cli.prepare_base import EPILOG as PREPARE_BASE_EPILOG
from peaker_cli.prepare_base import prepare_base_command
from peaker_cli.register_base import EPILOG as REGISTER_BASE_EPILOG
from peaker_cli.register_base import register_base_command

app = typer.Typer(
    name="peaker",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


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
app.command("plan", epilog=plan.EPILOG)(takes_deployment(plan.plan_command))
app.command("status", epilog=status.EPILOG)(takes_deployment(status.status_command))
app.command("watch", epilog=watch.EPILOG)(takes_deployment(watch.watch_command))
app.command("runs", epilog=runs.EPILOG)(takes_deployment(runs.runs_command))
app.command("receipt", epilog=receipt_command.EPILOG)(takes_deployment(receipt_command.receipt_command))
app.command("iostat", epilog=IOSTAT_EPILOG)(iostat_command)
app.command("knee", epilog=KNEE_EPILOG)(knee_command)
app.command("prepare-base", epilog=PREPARE_BASE_EPILOG)(takes_deployment(prepare_base_command))
app.command("register-base", epilog=REGISTER_BASE_EPILOG)(takes_deployment(register_base_command))


def main() -> None:
    """Entry point; a failure is one line on stderr and exit status 1, a wrong call is status 2."""
    sys.exit(ended(_explained, (ControlPlaneError,)))


def _explained() -> None:
    """The application; what AWS or a rule refused is told with its remedy."""
    try:
        app()
    except (PeakerError, *EXPECTED) as error:
        raise ControlPlaneError(one_line(error)) from error


if __name__ == "__main__":
    main()
