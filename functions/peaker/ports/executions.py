"""The ports on executions of workflows, and on those who are told of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from peaker.domain.reading import Unknown
    from peaker.domain.report.event import Event
    from peaker.domain.runs.run_execution import BegunRun, RunExecution


class Operators(Protocol):
    """The people whom alarms page."""

    def tell(self, subject: str, text: str) -> None:
        """Send them a message. Not idempotent. Raises OperatorsUnreachable where the environment names nobody."""


class Events(Protocol):
    """The account's event bus."""

    def put(self, event: Event) -> None:
        """Put the event on the bus. It may be delivered twice. One that the bus does not take is logged: raises
        nothing."""


class Executions(Protocol):
    """The executions of this environment's workflows."""

    def that_began(self, run: BegunRun) -> RunExecution | Unknown:
        """The execution that began the run, given by its row or its lease; Unknown where Step Functions lists none.

        Executions are listed a moment late, and forgotten 90 days after their end.
        """

    def start_scale_out(self, name: str, given: Mapping[str, Any]) -> None:
        """Start scale_out under this name; a second start of the name is the first one. Raises Throttled,
        AwsUnavailable."""

    def being_rolled_back(self) -> frozenset[str]:
        """Names of the executions that a running roll_back was given."""
