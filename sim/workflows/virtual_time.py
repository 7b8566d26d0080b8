"""Time that passes only when everything waits: an event heap, promises, and processes that wait for them."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator
from datetime import UTC, datetime, timedelta
from typing import Any

START = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
Steps = Generator["Promise", Any, Any]


class Timer:
    """Something that is to happen; `cancel` takes it back."""

    __slots__ = ("action", "cancelled")

    def __init__(self, action: Callable[[], object]) -> None:
        self.action = action
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class VirtualTime:
    """`seconds` since START. Events of one moment happen in the order in which they were asked for."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._events: list[tuple[float, int, Timer]] = []
        self._count = 0

    def now(self) -> datetime:
        return self.datetime_of(self.seconds)

    @staticmethod
    def datetime_of(seconds: float) -> datetime:
        return START + timedelta(seconds=round(seconds, 6))

    @staticmethod
    def seconds_of(moment: datetime) -> float:
        return (moment - START).total_seconds()

    def after(self, seconds: float, action: Callable[[], object]) -> Timer:
        self._count += 1
        timer = Timer(action)
        heapq.heappush(self._events, (self.seconds + max(0.0, seconds), self._count, timer))
        return timer

    def sleep(self, seconds: float) -> Promise:
        """A promise that is kept so much later."""
        promise = Promise()
        self.after(seconds, lambda: promise.keep(None))
        return promise

    def run(self, until: float, done: Callable[[], bool] | None = None) -> None:
        """Let events happen up to the second `until`, or until `done` says so."""
        while self._events and self._events[0][0] <= until:
            if done is not None and done():
                return
            at, _, timer = heapq.heappop(self._events)
            if not timer.cancelled:
                self.seconds = at
                timer.action()
        if done is None:
            self.seconds = max(self.seconds, until)


class Promise:
    """A value or an error that comes later; the first of them counts."""

    def __init__(self) -> None:
        self.settled = False
        self._value: Any = None
        self._error: BaseException | None = None
        self._then: list[Callable[[Promise], None]] = []

    def keep(self, value: Any) -> None:
        self._settle(value, None)

    def fail(self, error: BaseException) -> None:
        self._settle(None, error)

    def then(self, action: Callable[[Promise], None]) -> None:
        if self.settled:
            action(self)
        else:
            self._then.append(action)

    def result(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._value

    def _settle(self, value: Any, error: BaseException | None) -> None:
        if self.settled:
            return
        self.settled, self._value, self._error = True, value, error
        for action in self._then:
            action(self)
        self._then.clear()


class Process:
    """Steps that wait for one promise after the other; `ended` is kept with what they return."""

    def __init__(self, steps: Steps) -> None:
        self.ended = Promise()
        self._steps = steps
        self._waiting = 0

    def begin(self) -> Process:
        self._go_on(lambda: self._steps.send(None))
        return self

    def cancel(self) -> None:
        """End here and now; `ended` is never settled."""
        self._waiting = -1
        self._steps.close()

    def _go_on(self, step: Callable[[], Promise]) -> None:
        try:
            promise = step()
        except StopIteration as end:
            self.ended.keep(end.value)
        except Exception as error:
            self.ended.fail(error)
        else:
            self._waiting += 1
            turn = self._waiting
            promise.then(lambda settled: self._resume(turn, settled))

    def _resume(self, turn: int, promise: Promise) -> None:
        if turn != self._waiting:
            return
        try:
            value = promise.result()
        except Exception as error:
            thrown = error
            self._go_on(lambda: self._steps.throw(thrown))
        else:
            self._go_on(lambda: self._steps.send(value))
