"""One line of what prepare_base looked at or made."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Callable, Dict, Sequence, Union

from peaker_host.machine.errors import HostError, UnclearAnswer
from peaker_host.machine.understanding import understood

DONE, THERE, WARNING, REFUSED = "done", "already there", "warning", "refused"


@dataclass(frozen=True)
class Step:
    """A step of prepare_base: done (made now), already there, warning (works, and will hurt one day) or refused.

    `remedy` says what
    the owner of the server does about a warning or a refusal."""

    name: str
    state: str
    detail: str
    remedy: str = ""


class Refusal(Exception):
    """A check found something that its owner must change first."""

    def __init__(self, detail: str, remedy: str) -> None:
        super().__init__(detail)
        self.detail = detail
        self.remedy = remedy


def looked(name: str, look: Callable[[], Union[str, Step]]) -> Step:
    """Runs a check and returns its step: already there, or refused with the reason."""
    try:
        with understood(UnclearAnswer, "what the server says"):
            found = look()
    except Refusal as refusal:
        return Step(name, REFUSED, refusal.detail, refusal.remedy)
    except HostError as error:
        return Step(name, REFUSED, f"{type(error).__name__}: {error}")
    return Step(name, THERE, found) if isinstance(found, str) else found


def refused(steps: Sequence[Step]) -> Sequence[Step]:
    """Returns the refused steps."""
    return [step for step in steps if step.state == REFUSED]


def as_result(steps: Sequence[Step]) -> Dict[str, Any]:
    """The steps as they go into the result line, and whether anything was changed."""
    return {"steps": [asdict(step) for step in steps], "changed": any(step.state == DONE for step in steps)}
