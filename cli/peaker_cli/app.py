"""The `peaker` command: what Peaker would do, what it does, what it did, and what it would have done."""

from __future__ import annotations

import peaker_cli.interruption  # noqa: F401  first: Ctrl-C may come while the others load

# isort: split
import importlib
import inspect
import os
import sys
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from peaker_cli.failures import CALLED_WRONGLY, ControlPlaneError, ended, plain, say

# The module of each, in the order of the help. It has the function `<command>_command` and an EPILOG.
COMMANDS = {
    "backtest": "backtest.command",
    "init": "init.command",
    "doctor": "doctor.command",
    "plan": "runs.plan_command",
    "status": "status.command",
    "watch": "status.watch",
    "why": "status.why",
    "runs": "runs.command",
    "receipt": "runs.receipt_command",
    "scale-out": "verbs.start",
    "scale-in": "verbs.start",
    "retire": "verbs.start",
    "abort": "verbs.abort",
    "pause": "verbs.pause",
    "resume": "verbs.pause",
    "month": "month.command",
    "iostat": "storage.iostat",
    "knee": "storage.knee",
    "rehearse": "rehearse.command",
    "prepare-base": "base_replica.prepare_base",
    "register-base": "base_replica.register_base",
    "allow-removal": "removal.command",
}


# Of `peaker` and of each command.
HELP = {"help_option_names": ["-h", "--help"]}


class CommandsOnDemand(TyperGroup):
    """Imports the module of the command that is asked for: together they take more than a second."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name, None when there is none."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"peaker_cli.{COMMANDS[cmd_name]}")
        function = getattr(module, f"{cmd_name.replace('-', '_')}_command")
        if "deployment" in inspect.signature(function).parameters:
            from peaker_cli.deployment import takes_deployment

            function = takes_deployment(function)
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
        alone.command(cmd_name, epilog=module.EPILOG, context_settings=HELP)(function)
        return get_command(alone)


app = typer.Typer(
    name="peaker",
    cls=CommandsOnDemand,
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings=HELP,
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


def main() -> None:
    """Entry point; a failure is one line on stderr and exit status 1, a wrong call is status 2."""
    # Before a command imports numpy: the forecast's matrices are small, so its threads would wait for work and spin.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for number, word in enumerate(sys.argv[1:], 1):
        if "\n" in word or plain(word) != word:
            say(
                f"argument {number}, {plain(word)[:80]}: has control characters, which no name and no option has"
            )
            sys.exit(CALLED_WRONGLY)
    sys.exit(ended(_explained, (ControlPlaneError,)))


def _explained() -> None:
    """The application; what AWS or a rule refused is told with its remedy."""
    try:
        app()
    except ControlPlaneError:
        raise
    except Exception as error:
        from peaker_cli.aws_failures import EXPECTED, reason
        from peaker_contract.errors import PeakerError

        if isinstance(error, (PeakerError, *EXPECTED)):
            raise ControlPlaneError(reason(error)) from error
        raise


if __name__ == "__main__":
    main()
