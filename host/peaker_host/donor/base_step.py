"""One line of what prepare_base looked at or made."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Callable, Dict, Sequence, Union

from peaker_host.machine.errors import HostError, UnclearAnswer
from peaker_host.machine.understanding import understood

DONE, THERE, WARNING, REFUSED = "done", "already there", "warning", "refused"


@dataclass(frozen=True)
class Step:
    """`state`: done (made now), already there, warning (works, and will hurt one day) or refused. `remedy` says what
    the owner of the server does about a warning or a refusal."""

    name: str
    state: str
    detail: str
    remedy: str = ""


class Refusal(Exception):
    """A look found what must be another way first."""

    def __init__(self, detail: str, remedy: str) -> None:
        super().__init__(detail)
        self.detail = detail
        self.remedy = remedy


def looked(name: str, look: Callable[[], Union[str, Step]]) -> Step:
    """The look's detail as a step that is there already; a refusal or a named failure as a refused one."""
    try:
        with understood(UnclearAnswer, "what the server says"):
            found = look()
    except Refusal as refusal:
        return Step(name, REFUSED, refusal.detail, refusal.remedy)
    except HostError as error:
        return Step(name, REFUSED, f"{type(error).__name__}: {error}")
    return Step(name, THERE, found) if isinstance(found, str) else found


def refused(steps: Sequence[Step]) -> Sequence[Step]:
    """Those that were refused."""
    return [step for step in steps if step.state == REFUSED]


def as_result(steps: Sequence[Step]) -> Dict[str, Any]:
    """The steps as they go into the result line, and whether anything was changed."""
    return {"steps": [asdict(step) for step in steps], "changed": any(step.state == DONE for step in steps)}
