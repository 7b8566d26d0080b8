"""The way into service is the states that a replica passes, read from the catalogue.

The lead time is predicted from these, runs teach it by these, and the receipt measures up to the last of them.
"""

from __future__ import annotations

from peaker_contract.catalogue import STEPS
from peaker_contract.steps import Method, Part


def states_of(*parts: Part, method: Method = Method.BUILD) -> tuple[str, ...]:
    """The states that such a run passes for these parts of its lead time."""
    return tuple(step.state for step in STEPS if step.part in parts and method in step.methods)


def states_passed(method: Method) -> frozenset[str]:
    """All states that such a run passes between its plan and its receipt."""
    return frozenset(states_of(*Part, method=method))


def parts_of(method: Method) -> tuple[Part, ...]:
    """The parts of the lead time of such a run, in the order in which they pass."""
    return tuple(part for part in Part if states_of(part, method=method))


def states_beside_others() -> frozenset[str]:
    """The states that pass while others are at work too."""
    return frozenset(step.state for step in STEPS if step.beside)


def serving_state() -> str:
    """The state at whose end a replica has its full share of the reads."""
    [state] = (step.state for step in STEPS if step.serves)
    return state
