"""Runs cases against the entry points. A case is known by seed, entry point and number, and can be run again alone."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any
from unittest.mock import patch

from tests.hostile.entry_point import EntryPoint
from tests.hostile.payloads import CANARY

# Of the processor, so that a busy machine makes no case slow.
SECONDS_AT_MOST = 5.0
_SHOWN_CHARACTERS = 300


class Hung(BaseException):
    """A case took more than SECONDS_AT_MOST of the processor. No parser catches it."""


@dataclass(frozen=True)
class Complaint:
    """What went wrong with one case, and how to run it again."""

    entry: str
    why: str
    case: str
    replay: str

    def __str__(self) -> str:
        return f"{self.entry}: {self.why}\n  case: {self.case}\n  again: {self.replay}"


@dataclass
class Tally:
    """Cases that were run, of which each entry point took or refused some, and the complaints."""

    cases: int = 0
    taken: int = 0
    refused: int = 0
    complaints: list[Complaint] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Take in what another tally counted."""
        self.cases += other.cases
        self.taken += other.taken
        self.refused += other.refused
        self.complaints += other.complaints


def run_entry(entry: EntryPoint, seed_number: int, cases: int, stop_after: int = 5) -> Tally:
    """Runs that many cases of the seeded mutator; returns their tally."""
    tally = Tally()
    for number in range(cases):
        case = case_of(entry, seed_number, number)
        replay = f"python -m tests.hostile --seed {seed_number} --entry '{entry.name}' --case {number}"
        _count(tally, entry, case, replay)
        if len(tally.complaints) >= stop_after:
            break
    return tally


def case_of(entry: EntryPoint, seed_number: int, number: int) -> Any:
    """The mutator's case of that number."""
    return entry.case(Random(f"{seed_number}:{entry.name}:{number}"))


def complaint_of(entry: EntryPoint, case: Any) -> tuple[str | None, bool]:
    """Why the case is none that the entry point may answer so, None where it may; and whether it refused it."""
    answer: Any
    try:
        with _limited(SECONDS_AT_MOST), patch.object(socket, "getaddrinfo", _knows_no_name):
            try:
                answer = entry.call(case)
            except entry.own as refusal:
                answer = refusal
            entry.after(case, answer)
    except Hung:
        return f"took more than {SECONDS_AT_MOST:g} s of the processor", False
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:_SHOWN_CHARACTERS]!r} at {_place(error)}", False
    return None, isinstance(answer, BaseException)


def _knows_no_name(host: object, *_: object, **__: object) -> list[object]:
    """A hostile name is asked of no name server: nothing leaves this machine."""
    raise socket.gaierror(socket.EAI_NONAME, f"Name or service not known: {host!r}")


def _count(tally: Tally, entry: EntryPoint, case: Any, replay: str) -> None:
    tally.cases += 1
    why, refused = complaint_of(entry, case)
    if why is not None:
        tally.complaints.append(Complaint(entry.name, why, repr(case)[:_SHOWN_CHARACTERS], replay))
    elif refused:
        tally.refused += 1
    else:
        tally.taken += 1


def shell_was_run() -> bool:
    """Whether a payload reached a shell since `forget_canary`."""
    return os.path.lexists(CANARY)


def forget_canary() -> None:
    """What an earlier run has left."""
    Path(CANARY).unlink(missing_ok=True)


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    def hung(_signal: int, _frame: FrameType | None) -> None:
        raise Hung

    before: Callable[..., Any] | int | None = signal.signal(signal.SIGVTALRM, hung)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _place(error: BaseException) -> str:
    """Where it was raised, and the innermost line of ours."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [
        frame
        for frame in frames
        if "site-packages" not in frame.filename and "/lib/python" not in frame.filename
    ]
    shown = [frames[-1], *(ours[-1:] if ours and ours[-1] is not frames[-1] else [])]
    return ", ".join(f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno}" for frame in shown)
