"""Calls to AWS that are made side by side: a strand is a function in a thread of its own, of which one runs at a time.

A strand stops before each of its calls to AWS, if the schedule says so, and hands over to the next one.
"""

from __future__ import annotations

import gc
import os
import pickle
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeVar

from botocore.exceptions import ReadTimeoutError

from sim.explorer.accesses import Access
from sim.workflows.functions import Strand

ResultT = TypeVar("ResultT")
# After the call is applied: the process ends, the answer is lost, or it is lost and the SDK sends the call again.
FaultKind = Literal["dies", "loses", "sends again"]
KINDS: tuple[FaultKind, ...] = ("dies", "loses", "sends again")


class Died(BaseException):
    """The process of a strand ended: no handler of the function sees it."""


class Fault(NamedTuple):
    """What happens at one call of a strand, by the call's number from 0."""

    call: int
    kind: FaultKind


class Turn(NamedTuple):
    """A strand's turn: it runs until it is about to make the call of that number; with None, to its end."""

    strand: int
    until: int | None = None


class Made(NamedTuple):
    """A call to AWS that a strand made."""

    strand: int
    access: Access


class Outcome(NamedTuple):
    """How a strand ended: with a value, with an error's class name and text, or it died."""

    value: Any = None
    error: str = ""
    text: str = ""


@dataclass
class _Function:
    """One of the functions that run side by side, `until` it is about to make the call of that number."""

    number: int
    body: Callable[[], Any]
    fault: Fault | None
    outcome: Outcome = field(default_factory=Outcome)
    calls: int = 0
    until: int | None = None

    def __post_init__(self) -> None:
        self._strand = Strand(self._work)

    def take_turn(self, until: int | None) -> None:
        """Let it run; returns when it waits, or has ended."""
        self.until = until
        if not self._strand.over:
            self._strand.resume()

    def arrive(self) -> None:
        """Called on its strand before each call to AWS."""
        if self.until is not None and self.calls >= self.until:
            self._strand.stand_still()

    def _work(self) -> None:
        _LOCAL.function = self
        self.outcome = outcome_of(self.body)


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


def scheduled(
    access: Access, is_sent_again: bool, send: Callable[[], ResultT], look: Callable[[], Mapping[str, Any]]
) -> ResultT:
    """Make a call to AWS on behalf of the function that runs, when its turn comes.

    `look` shows what is at places; where it is the same before and after, the call has changed nothing.
    """
    function: _Function | None = getattr(_LOCAL, "function", None)
    if function is None:
        return send()
    function.arrive()
    number, function.calls = function.calls, function.calls + 1
    before = look()
    kind = function.fault.kind if function.fault is not None and function.fault.call == number else None
    if kind == "sends again" and is_sent_again:
        outcome_of(send)
    try:
        answer = send()
    finally:
        after = look()
        _MADE.append(
            Made(function.number, access.unchanged({one for one in before if before[one] == after[one]}))
        )
    if kind == "dies":
        raise Died
    if kind == "loses":
        raise ReadTimeoutError(endpoint_url="https://explored")
    return answer


def run(
    bodies: Sequence[Callable[[], Any]], turns: Sequence[Turn], fault: Fault | None = None
) -> tuple[list[Outcome], list[Made]]:
    """Run the functions by the schedule; the fault comes to the first. Returns outcomes and all calls in order."""
    _MADE.clear()
    functions = [_Function(number, body, None if number else fault) for number, body in enumerate(bodies)]
    for turn in (*turns, *(Turn(one.number) for one in functions)):
        functions[turn.strand].take_turn(turn.until)
    return [one.outcome for one in functions], list(_MADE)


class GoesOn(BaseException):
    """Raised in a child that goes on with what this process was doing when it began to explore."""


def in_child(work: Callable[[], ResultT]) -> ResultT:
    """Do the work in a child of this process and return its result: nothing here changes."""

    def begin(answer: Callable[[bool, Any], None]) -> None:
        gc.disable()
        answer_of(work, answer)

    return in_child_that_goes_on(begin)  # type: ignore[no-any-return]


def answer_of(work: Callable[[], Any], answer: Callable[[bool, Any], None]) -> None:
    """Answer with the result of the work, or with what went wrong."""
    try:
        result: tuple[bool, Any] = (True, work())
    except BaseException:
        result = (False, traceback.format_exc())
    answer(*result)


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
