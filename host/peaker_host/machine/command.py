"""A command is declared once: its name, its parameters with the converters of their text, its function, its context.

The gate lets one command at a time change the host, and none that comes too late or under an older fencing token:
Systems Manager may deliver a command late, run it twice, and run it although it said that it was not delivered. In the
state directory: host.lock (held while a command changes the host), fence.json (the highest token of each ledger) and
last_command.json (the result of the newest command that changed the host).
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import re
import sys
import time
from dataclasses import dataclass
from typing import IO, Any, Callable, Dict, Iterator, List, Optional, Tuple

from peaker_host.machine.errors import (
    CommandFenced,
    CommandTooLate,
    HostBusy,
    InvalidArgument,
    UnreadableFile,
    understood,
)
from peaker_host.machine.files import boot_id, open_lock_file, read_json, write_json
from peaker_host.machine.settings import Machine, Settings

# Shorter than the shortest time-out of a document whose command waits here, so that a refusal reaches the result.
_WAIT_SECONDS = 120.0
_LOOK_SECONDS = 0.1


@dataclass(frozen=True)
class FencingToken:
    """Under which lease of which ledger a command was sent; a member of a batch has a second number."""

    ledger: str
    numbers: Tuple[int, int]

    def __str__(self) -> str:
        return f"{self.numbers[0]}.{self.numbers[1]} of {self.ledger}"


@dataclass(frozen=True)
class SentCommand:
    """A command as it was sent. `key` is all that it asks; the same key in two commands asks the same twice.

    `not_after` (epoch seconds) is the latest time at which it may begin: with the key it names one sending.
    """

    command: str
    key: str
    token: Optional[FencingToken]
    not_after: Optional[int]


def admit(settings: Settings, sent: SentCommand, now: float) -> None:
    """Raises CommandTooLate and CommandFenced; keeps the token if it is the highest so far."""
    if sent.not_after is not None and now > sent.not_after:
        raise CommandTooLate(
            f"{sent.command} was to begin before {_utc(sent.not_after)}, and the host's clock says {_utc(now)}; "
            "it is sent again. If that clock is wrong, set it"
        )
    if sent.token is not None:
        with _fence_locked(settings):
            _keep_highest(settings, sent.command, sent.token)


def run_alone(
    settings: Settings, sent: SentCommand, clock: Callable[[], float], run: Callable[[], Dict[str, Any]]
) -> Dict[str, Any]:
    """Runs a command that changes the host while no other does; returns its result.

    The same sending that has ended well gets its result again. So does a command that asks the same as the one for
    which it waited. Raises HostBusy where another one does not end in time.
    """
    done = _result(settings, sent)
    if done is not None and done["not_after"] == sent.not_after is not None:
        return _fields(done)
    admit(settings, sent, clock())
    with alone(settings, sent) as has_waited:
        done = _result(settings, sent) if has_waited else None
        if done is not None:
            return _fields(done)
        if sent.token is not None:
            admit(settings, SentCommand(sent.command, sent.key, sent.token, None), clock())
        _forget_result(settings)
        result = run()
        _keep_result(settings, sent, result)
        return result


@contextlib.contextmanager
def alone(settings: Settings, sent: SentCommand) -> Iterator[bool]:
    """Holds host.lock; says whether another command had it first. Waits for its own like as long as that takes."""
    with open_lock_file(settings.state_path("host.lock")) as lock:
        has_waited = False
        deadline = time.monotonic() + _WAIT_SECONDS
        while not _taken(lock):
            has_waited = True
            command, key = _holder(lock)
            if key != sent.key and time.monotonic() >= deadline:
                raise HostBusy(f"{sent.command}: {command} changes the host for {_WAIT_SECONDS:g} s and more")
            time.sleep(_LOOK_SECONDS)
        lock.seek(0)
        lock.truncate()
        lock.write(json.dumps([sent.command, sent.key]))
        lock.flush()
        yield has_waited


def forget_tokens(settings: Settings) -> None:
    """Forgets what tokens were seen, for a ledger that begins anew."""
    with _fence_locked(settings), contextlib.suppress(FileNotFoundError):
        os.unlink(settings.state_path("fence.json"))


def _keep_highest(settings: Settings, command: str, token: FencingToken) -> None:
    path = settings.state_path("fence.json")
    seen = read_json(path) or {}
    with understood(UnreadableFile, path, "run `peaker prepare-base` or delete it"):
        first, second = seen.get(token.ledger, (0, 0))
        highest = FencingToken(token.ledger, (int(first), int(second)))
    if token.numbers < highest.numbers:
        raise CommandFenced(
            f"{command} was sent under token {token}, and the host has seen {highest}: another run has taken over. If "
            "the ledger began anew, run `peaker prepare-base` for the host"
        )
    if token.numbers > highest.numbers:
        write_json(path, {**seen, token.ledger: list(token.numbers)})


def _result(settings: Settings, sent: SentCommand) -> Optional[Dict[str, Any]]:
    """Returns the newest command's record where it asked the same on this boot of the host."""
    try:
        last = read_json(settings.state_path("last_command.json")) or {}
    except UnreadableFile:
        return None
    is_same = last.get("key") == sent.key and last.get("boot") == boot_id()
    return last if is_same and isinstance(last.get("result"), dict) else None


def _fields(record: Dict[str, Any]) -> Dict[str, Any]:
    fields: Dict[str, Any] = record["result"]
    return fields


def _forget_result(settings: Settings) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(settings.state_path("last_command.json"))


def _keep_result(settings: Settings, sent: SentCommand, result: Dict[str, Any]) -> None:
    """A disk that is full loses the memory of it, not the command."""
    record = {"key": sent.key, "not_after": sent.not_after, "boot": boot_id(), "result": result}
    with contextlib.suppress(OSError):
        write_json(settings.state_path("last_command.json"), record)


def _taken(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(lock: IO[str]) -> List[str]:
    """Returns command and key of the one that holds the lock; it may just be writing them."""
    lock.seek(0)
    try:
        command, key = json.loads(lock.read())
    except ValueError:
        return ["another command", ""]
    return [str(command), str(key)]


@contextlib.contextmanager
def _fence_locked(settings: Settings) -> Iterator[None]:
    with open_lock_file(settings.state_path("fence.lock")) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _utc(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


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
    """The context gives every command the machine that it runs on, and its arguments."""

    machine: Machine
    arguments: argparse.Namespace

    @staticmethod
    def say(text: str) -> None:
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
            return run_alone(context.machine, sent, time.time, lambda: self.run(context))
        if self.fenced:
            admit(context.machine, self.sent(context.arguments), time.time())
        return self.run(context)

    def sent(self, arguments: argparse.Namespace) -> SentCommand:
        asked = {name: value for name, value in vars(arguments).items() if name not in _OF_A_SENDING}
        key = json.dumps(asked, sort_keys=True, default=str)
        return SentCommand(self.name, key, arguments.fencing_token, arguments.not_after)

    def add_to(self, commands: Any) -> None:
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
