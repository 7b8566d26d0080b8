"""Functions in flight: invoked, they work on when their execution is stopped or no longer waits, up to their own limit.

A function runs to its end at one moment, unless a fault lets it stand still between two calls; then it has a thread of
its own, of which exactly one runs at any time.
"""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sim.workflows.executions import Execution
from sim.workflows.virtual_time import Promise, VirtualTime
from sim.workflows.walker import StateFailed

# What a call takes; a function of thirty calls takes two seconds.
CALL_SECONDS = 0.06
START_SECONDS = 0.2
Body = Callable[[dict[str, Any]], Any]


class Killed(BaseException):
    """The function's process ends: it crashed, or its time is up."""

    def __init__(self, error: str) -> None:
        super().__init__(error)
        self.error = error


@dataclass
class Invocation:
    """One call of a function. `calls` are the ports' methods that it has called, `compute.launch`, in their order.

    `given` are the arguments of the newest of them.
    """

    number: int
    function: str
    state: str
    execution: Execution | None
    payload: dict[str, Any]
    started: float
    limit_seconds: float
    attempt: int
    answer: Promise = field(default_factory=Promise)
    elapsed: float = START_SECONDS
    calls: list[str] = field(default_factory=list)
    given: tuple[Any, ...] = ()
    strand: Strand | None = None
    fault: Interference | None = None

    @property
    def where(self) -> str:
        return f"{self.state or self.function}#{self.attempt}"


class Interference:
    """What happens to one invocation; the default is nothing."""

    @property
    def stands_still(self) -> bool:
        """Whether it may wait between two calls."""
        return False

    def before(self, invocation: Invocation, call: str) -> None:
        """May raise what the call raises, or Killed, or let the function stand still."""

    def after(self, invocation: Invocation, call: str) -> None:
        """The same once the call has had its effect."""

    def ended(self, invocation: Invocation) -> None:
        """May raise Killed after all calls."""


class Strand:
    """A function's own thread. The baton passes at `resume` and at `stand_still`; nobody else runs meanwhile."""

    def __init__(self, body: Callable[[], None]) -> None:
        self._go = threading.Semaphore(0)
        self._back = threading.Semaphore(0)
        self._killed: str | None = None
        self._thread = threading.Thread(target=self._run, args=(body,), daemon=True)
        self.over = False

    def resume(self) -> None:
        if self._thread.ident is None:
            self._thread.start()
        self._go.release()
        self._back.acquire()

    def kill(self, error: str) -> None:
        if not self.over:
            self._killed = error
            self.resume()

    def stand_still(self) -> None:
        """Called on the strand; returns when it is resumed. Raises Killed."""
        self._back.release()
        self._go.acquire()
        if self._killed is not None:
            raise Killed(self._killed)

    def _run(self, body: Callable[[], None]) -> None:
        self._go.acquire()
        try:
            body()
        finally:
            self.over = True
            self._back.release()


class Functions:
    """Lambda. `body` gives what a function does, `limit` its timeout in seconds, `interfere` the faults."""

    def __init__(
        self,
        time: VirtualTime,
        chance: random.Random,
        body: Callable[[str], Body],
        limit: Callable[[str], float],
    ) -> None:
        self.time = time
        self.current: Invocation | None = None
        self.invocations: list[Invocation] = []
        self.interfere: Callable[[Invocation], Interference | None] = lambda _: None
        self._random = chance
        self.body = body
        self._limit = limit
        self._open: list[Invocation] = []

    def invoke(self, execution: Execution | None, state: str, function: str, payload: Any) -> Promise:
        """By a state of an execution, or by a schedule (no execution)."""
        earlier = sum(
            one.state == state and one.function == function and one.execution is execution
            for one in self.invocations
        )
        invocation = Invocation(
            number=len(self.invocations) + 1,
            function=function,
            state=state,
            execution=execution,
            payload=json.loads(json.dumps(payload)),
            started=self.time.seconds,
            limit_seconds=self._limit(function),
            attempt=earlier + 1,
        )
        self.invocations.append(invocation)
        self._begin(invocation)
        return invocation.answer

    def close(self) -> None:
        """End what stands still."""
        for invocation in self._open:
            if invocation.strand is not None:
                invocation.strand.kill("closed")
        self._open.clear()

    def called(self, call: str, action: Callable[[], Any], given: tuple[Any, ...] = ()) -> Any:
        """Do a port's call on behalf of the function that runs now."""
        invocation = self.current
        if invocation is None:
            return action()
        invocation.elapsed += CALL_SECONDS
        invocation.calls.append(call)
        invocation.given = given
        if invocation.fault is None:
            return action()
        invocation.fault.before(invocation, call)
        result = action()
        invocation.fault.after(invocation, call)
        return result

    def stand_still(self, invocation: Invocation, seconds: float) -> None:
        """The function that runs now waits so long; others act meanwhile."""
        strand = invocation.strand
        if strand is None:
            raise ValueError(f"{invocation.where}: its interference did not say that it stands still")
        self.current = None
        self.time.after(seconds, lambda: self._resume(invocation))
        strand.stand_still()
        invocation.elapsed = self.time.seconds - invocation.started
        self.current = invocation

    def loses_answer(self, invocation: Invocation, error: str) -> None:
        """The caller hears this error; the function goes on."""
        self.time.after(1.0, lambda: invocation.answer.fail(StateFailed(error, "on purpose")))

    def _begin(self, invocation: Invocation) -> None:
        invocation.fault = self.interfere(invocation)
        if invocation.fault is None or not invocation.fault.stands_still:
            self._work(invocation)
            return
        invocation.strand = Strand(lambda: self._work(invocation))
        self._open.append(invocation)
        self._resume(invocation)
        self.time.after(invocation.limit_seconds, lambda: self._time_is_up(invocation))

    def _resume(self, invocation: Invocation) -> None:
        if invocation.strand is not None and not invocation.strand.over:
            before = self.current
            invocation.strand.resume()
            self.current = before

    def _time_is_up(self, invocation: Invocation) -> None:
        if invocation.strand is not None and not invocation.strand.over:
            invocation.strand.kill("Sandbox.Timedout")

    def _work(self, invocation: Invocation) -> None:
        before, self.current = self.current, invocation
        try:
            settle = self._done(invocation)
            if invocation.fault is not None:
                invocation.fault.ended(invocation)
        except Killed as end:
            self._killed(invocation, end)
        else:
            self._answer(invocation, settle)
        finally:
            self.current = before

    def _done(self, invocation: Invocation) -> Callable[[], None]:
        """What settles the answer: the function's result or its error."""
        try:
            result = json.loads(json.dumps(self.body(invocation.function)(invocation.payload)))
        except Exception as error:
            said = {"errorMessage": str(error), "errorType": type(error).__name__}
            failure = StateFailed(type(error).__name__, json.dumps(said))
            return lambda: invocation.answer.fail(failure)
        answer = {"ExecutedVersion": "$LATEST", "Payload": result, "StatusCode": 200}
        return lambda: invocation.answer.keep(answer)

    def _killed(self, invocation: Invocation, end: Killed) -> None:
        if end.error == "Sandbox.Timedout":
            invocation.elapsed = invocation.limit_seconds
        failure = StateFailed(end.error, f"RequestId: {invocation.number} Error: {end.error}")
        self._answer(invocation, lambda: invocation.answer.fail(failure))

    def _answer(self, invocation: Invocation, settle: Callable[[], None]) -> None:
        passed = self.time.seconds - invocation.started
        self.time.after(max(0.0, invocation.elapsed - passed), settle)
