"""A command is declared once: its name, its parameters with the converters of their text, its function, its context."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Tuple

from peaker_host.machine.command_gate import FencingToken, SentCommand, admit, run_alone
from peaker_host.machine.errors import InvalidArgument
from peaker_host.machine.processes import Processes
from peaker_host.machine.settings import Settings

_RUN_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]{0,79}")
_HOST_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z.:-]{0,252}")
_FENCING_TOKEN = re.compile(r"([0-9A-Za-z/_-]{1,120}):([0-9]{1,15})\.([0-9]{1,9})")
_MAX_SERVER_ID = 2**32 - 1


def typed(check: Callable[[str], Any], what: str) -> Callable[[str], Any]:
    """A converter from one that raises ValueError or InvalidArgument; `what` is what the text must be."""

    def convert(text: str) -> Any:
        try:
            return check(text)
        except (ValueError, OverflowError, InvalidArgument) as error:
            raise argparse.ArgumentTypeError(f"must be {what}, not {text!r}") from error

    return convert


def _within(convert: Callable[[str], Any], low: float, high: float) -> Callable[[str], Any]:
    def check(text: str) -> Any:
        value = convert(text)
        if not low <= value <= high:
            raise ValueError(text)
        return value

    return check


def _matching(pattern: "re.Pattern[str]") -> Callable[[str], str]:
    def check(text: str) -> str:
        if not pattern.fullmatch(text):
            raise ValueError(text)
        return text

    return check


def _absolute_paths(text: str) -> List[str]:
    paths = text.split(",")
    if not all(os.path.isabs(path) for path in paths):
        raise ValueError(text)
    return paths


def _absolute_or_empty(text: str) -> str:
    if text and not os.path.isabs(text):
        raise ValueError(text)
    return text


def _fencing_token(text: str) -> FencingToken:
    found = _FENCING_TOKEN.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return FencingToken(found[1], (int(found[2]), int(found[3])))


fencing_token = typed(_fencing_token, "a ledger's name, a colon, and two numbers with a point between")
run_id = typed(_matching(_RUN_NAME), "a run id of letters, digits and hyphens, at most 80")
host_name = typed(_matching(_HOST_NAME), "a host name or address")
absolute_paths = typed(_absolute_paths, "absolute paths, separated by commas")
path_or_nothing = typed(_absolute_or_empty, "an absolute path, or empty")
positive_int = typed(_within(int, 1, 10**9), "a whole number from 1")
count = typed(_within(int, 0, 10**9), "a whole number from 0")
epoch_seconds = typed(_within(int, 1, 10**12), "a time in seconds since 1970")
percent = typed(_within(int, 1, 100), "a whole number from 1 to 100")
port = typed(_within(int, 0, 65535), "a port")
server_id = typed(_within(int, 1, _MAX_SERVER_ID), "a server id from 1 to 4294967295")
positive = typed(_within(float, 1e-9, 1e12), "a number above 0")
not_negative = typed(_within(float, 0, 1e9), "a number from 0")
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

    def sent(self, arguments: argparse.Namespace) -> SentCommand:
        """Returns the command as it was sent."""
        asked = {name: value for name, value in vars(arguments).items() if name not in _OF_A_SENDING}
        key = json.dumps(asked, sort_keys=True, default=str)
        return SentCommand(self.name, key, arguments.fencing_token, arguments.not_after)

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
