"""A command is declared once: its name, its parameters, its function and its context."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass
from typing import Any, Callable, Dict, Optional, Tuple

from peaker_host.machine.arguments import run_id
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


@dataclass(frozen=True)
class Command:
    """`run` gives the fields of the result line. It imports what it needs when it runs: an engine's start must not
    cost more processor time than its reads. All but what serves the host for good belong to a run."""

    name: str
    summary: str
    example: str
    run: Callable[[Context], Dict[str, Any]]
    parameters: Tuple[Parameter, ...] = ()
    of_a_run: bool = True

    def add_to(self, commands: Any) -> None:
        """Teach the command line (argparse's subparsers) this command."""
        parser: argparse.ArgumentParser = commands.add_parser(
            self.name,
            help=self.summary,
            description=self.summary + ".",
            epilog=f"Example: peaker_host.pyz {self.name} {self.example}".replace("%", "%%"),
        )
        parser.set_defaults(run=self.run)
        for parameter in ((_RUN_ID,) if self.of_a_run else ()) + self.parameters:
            parameter.add_to(parser)
