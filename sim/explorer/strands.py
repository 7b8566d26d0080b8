"""Calls to AWS that are made side by side: a strand is a function in a thread of its own, of which one runs at a time.

A strand stops before each of its calls to AWS, if the schedule says so, and hands over to the next one.
"""

from __future__ import annotations

import os
import pickle
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from botocore.exceptions import ReadTimeoutError

from sim.explorer.accesses import Access

ResultT = TypeVar("ResultT")
# After the call is applied: the process ends, the answer is lost, or it is lost and the SDK sends the call again.
FaultKind = Literal["dies", "loses", "sends again"]
KINDS: tuple[FaultKind, ...] = ("dies", "loses", "sends again")


class Died(BaseException):
    """The process of a strand ended: no handler of the function sees it."""


@dataclass(frozen=True)
class Fault:
    """What happens at one call of a strand, by the call's number from 0."""

    call: int
    kind: FaultKind


@dataclass(frozen=True)
class Turn:
    """A strand's turn: it runs until it is about to make the call of that number; with None, to its end."""

    strand: int
    until: int | None = None


@dataclass(frozen=True)
class Made:
    """A call to AWS that a strand made."""

    strand: int
    access: Access


@dataclass
class Outcome:
    """How a strand ended: with a value, with an error's class name and text, or it died."""

    value: Any = None
    error: str = ""
    text: str = ""

    @property
    def told(self) -> tuple[Any, str]:
        return self.value, self.error


@dataclass
class Strand:
    """One of the functions that run side by side."""

    number: int
    body: Callable[[], Any]
    fault: Fault | None = None
    outcome: Outcome | None = None
    calls: int = 0
    until: int | None = None
    go: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    back: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    thread: threading.Thread | None = None

    def take_turn(self, until: int | None) -> None:
        """Let it run; returns when it waits before the call `until`, or has ended."""
        if self.outcome is not None:
            return
        self.until = until
        if self.thread is None:
            self.thread = threading.Thread(target=self._run, daemon=True)
            self.thread.start()
        self.go.release()
        self.back.acquire()

    def _run(self) -> None:
        self.go.acquire()
        _LOCAL.strand = self
        try:
            self.outcome = outcome_of(self.body)
        finally:
            self.back.release()

    def arrive(self) -> None:
        """Called on the strand before each call to AWS."""
        if self.until is not None and self.calls >= self.until:
            self.back.release()
            self.go.acquire()


_LOCAL = threading.local()
_MADE: list[Made] = []


def outcome_of(body: Callable[[], Any]) -> Outcome:
    """Returns how it ends; a death is no error of the function."""
    try:
        return Outcome(body())
    except Died:
        return Outcome(error="Died")
    except Exception as error:
        return Outcome(error=type(error).__name__, text=str(error))


def scheduled(access: Access, is_sent_again: bool, send: Callable[[], ResultT]) -> ResultT:
    """Make a call to AWS on behalf of the strand that runs, when its turn comes."""
    strand: Strand | None = getattr(_LOCAL, "strand", None)
    if strand is None:
        return send()
    strand.arrive()
    number, strand.calls = strand.calls, strand.calls + 1
    _MADE.append(Made(strand.number, access))
    fault = strand.fault if strand.fault is not None and strand.fault.call == number else None
    if fault is not None and fault.kind == "sends again" and is_sent_again:
        try:
            send()
        except Exception:
            return send()
        return send()
    answer = send()
    if fault is not None and fault.kind == "dies":
        raise Died
    if fault is not None and fault.kind == "loses":
        raise ReadTimeoutError(endpoint_url="https://explored")
    return answer


def run(
    bodies: Sequence[Callable[[], Any]], turns: Sequence[Turn], fault: Fault | None = None
) -> tuple[list[Outcome], list[Made]]:
    """Run the functions by the schedule; the fault comes to the first. Returns outcomes and all calls in order."""
    _MADE.clear()
    strands = [Strand(number, body, fault if number == 0 else None) for number, body in enumerate(bodies)]
    for turn in (*turns, *(Turn(one.number) for one in strands)):
        strands[turn.strand].take_turn(turn.until)
    return [one.outcome for one in strands if one.outcome is not None], list(_MADE)


class GoesOn(BaseException):
    """Raised in a child that goes on with what this process was doing when it began to explore."""


def in_child(work: Callable[[], ResultT]) -> ResultT:
    """Do the work in a child of this process and return its result: nothing here changes."""

    def begin(answer: Callable[[bool, Any], None]) -> None:
        try:
            result: tuple[bool, Any] = (True, work())
        except BaseException:
            result = (False, traceback.format_exc())
        answer(*result)

    return in_child_that_goes_on(begin)  # type: ignore[no-any-return]


def in_child_that_goes_on(begin: Callable[[Callable[[bool, Any], None]], None]) -> Any:
    """Begin something in a child, where this raises GoesOn; the child ends with the answer that it gives."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(out)

        def answer(well: bool, result: Any) -> None:
            with os.fdopen(into, "wb") as pipe:
                pickle.dump((well, result), pipe)
            os._exit(0)

        begin(answer)
        raise GoesOn
    os.close(into)
    with os.fdopen(out, "rb") as pipe:
        given = pipe.read()
    os.waitpid(child, 0)
    well, result = pickle.loads(given) if given else (False, "it ended without an answer")
    if not well:
        raise RuntimeError(f"in a child:\n{result}")
    return result
