"""The gate lets one command at a time change the host, and none that comes too late or under an older fencing token.

Systems Manager may deliver a command late, run it twice, and run it although it said that it was not delivered. In the
state directory: host.lock (held while a command changes the host), fence.json (the highest token of each ledger) and
last_command.json (the result of the newest command that changed the host).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from dataclasses import dataclass
from typing import IO, Any, Callable, Dict, Iterator, List, Optional, Tuple

from peaker_host.machine.errors import (
    CommandFenced,
    CommandTooLate,
    HostBusy,
    StateDirectoryFull,
    UnreadableFile,
)
from peaker_host.machine.files import boot_id, open_lock_file, read_json, write_json
from peaker_host.machine.settings import Settings
from peaker_host.machine.understanding import understood

# Shorter than the shortest time-out of a document whose command waits here, so that a refusal reaches the result.
_WAIT_SECONDS = 120.0
_LOOK_SECONDS = 0.1


@dataclass(frozen=True)
class FencingToken:
    """A fencing token says under which lease of which ledger a command was sent; a member of a batch has a second
    number."""

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
        try:
            write_json(path, {**seen, token.ledger: list(token.numbers)})
        except OSError as error:
            raise StateDirectoryFull(f"{path} cannot be written: {error.strerror}") from error


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
