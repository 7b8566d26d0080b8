"""A command is declared once: its name, its parameters, its function and its context."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, Optional, Tuple

from peaker_host.machine.arguments import epoch_seconds, fencing_token, run_id
from peaker_host.machine.command_gate import Sent, admit, run_alone
from peaker_host.machine.processes import Processes
from peaker_host.machine.settings import Settings

REQUIRED = object()


@dataclass(frozen=True)
class Context:
    """The context gives every command the host's settings, the edge to other programs, and its arguments."""

    settings: Settings
    processes: Processes
    arguments: argparse.Namespace

    @staticmethod
    def say(text: str) -> None:
        """Progress for people, on standard error."""
        print(text, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Parameter:
    """One option of a command; without a default it must be given.

    `convert` makes its value from the text and raises argparse.ArgumentTypeError with what is wrong. `alone` is its
    value when the option stands without one. `environment`: the variable that gives the default.
    """

    option: str
    meaning: str
    convert: Callable[[str], Any] = str
    default: Any = REQUIRED
    choices: Optional[Tuple[str, ...]] = None
    alone: Optional[str] = None
    environment: str = ""

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        """Teach the parser this option."""
        given: Dict[str, Any] = {"help": self.meaning, "type": self.convert, "choices": self.choices}
        if self.default is REQUIRED:
            given["required"] = True
        else:
            given["default"] = os.environ.get(self.environment, self.default)
        if self.alone is not None:
            given.update(nargs="?", const=self.alone)
        parser.add_argument(self.option, **given)


_RUN_ID = Parameter("--run-id", "the run that asks", run_id)
# By the environment, so that a host package that knows neither takes a document that gives both.
_FENCE = (
    Parameter(
        "--fencing-token",
        "of the lease under which it was sent",
        fencing_token,
        None,
        environment="PEAKER_FENCING_TOKEN",
    ),
    Parameter(
        "--not-after",
        "latest time to begin, in epoch seconds",
        epoch_seconds,
        None,
        environment="PEAKER_NOT_AFTER",
    ),
)
# Each sending has its own; none changes what is asked.
_OF_A_SENDING = ("fencing_token", "not_after", "block_list_url", "run", "settings")


@dataclass(frozen=True)
class Command:
    """`run` gives the fields of the result line. It imports what it needs when it runs: an engine's start must not
    cost more processor time than its reads. All but what serves the host for good belong to a run.

    `fenced`: it is refused when it comes late or under an older token. `alone`: no other such command runs meanwhile.
    """

    name: str
    summary: str
    example: str
    run: Callable[[Context], Dict[str, Any]]
    parameters: Tuple[Parameter, ...] = ()
    of_a_run: bool = True
    fenced: bool = False
    alone: bool = False

    def guarded(self, context: Context) -> Dict[str, Any]:
        """Runs the command if and when it may change the host."""
        if self.alone:
            sent = self.sent(context.arguments)
            return run_alone(context.settings, sent, time.time, lambda: self.run(context))
        if self.fenced:
            admit(context.settings, self.sent(context.arguments), time.time())
        return self.run(context)

    def sent(self, arguments: argparse.Namespace) -> Sent:
        """Returns the command as it was sent."""
        asked = {name: value for name, value in vars(arguments).items() if name not in _OF_A_SENDING}
        key = json.dumps(asked, sort_keys=True, default=str)
        return Sent(self.name, key, arguments.fencing_token, arguments.not_after)

    def add_to(self, commands: Any) -> None:
        """Teach the command line (argparse's subparsers) this command."""
        parser: argparse.ArgumentParser = commands.add_parser(
            self.name,
            help=self.summary,
            description=self.summary + ".",
            epilog=f"Example: peaker_host.pyz {self.name} {self.example}".replace("%", "%%"),
        )
        parser.set_defaults(run=self.guarded)
        common = ((_RUN_ID,) if self.of_a_run else ()) + (_FENCE if self.fenced else ())
        for parameter in common + self.parameters:
            parameter.add_to(parser)
