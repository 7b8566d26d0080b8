"""The handler of a step, made of its row in the catalogue and its use case when Lambda asks for it."""

from __future__ import annotations

import importlib
import inspect

from peaker.runtime.step import Handler, step
from peaker_contract.catalogue import FUNCTIONS

_STEPS = {definition.name: definition for definition in FUNCTIONS if definition.steps}


def entry_point(name: str) -> Handler:
    """Returns the handler of the function of that name; its event has the fields of the use case's second
    parameter.

    Raises AttributeError for a name that no step has, which Lambda tells as Runtime.HandlerNotFound.
    """
    definition = _STEPS.get(name)
    if definition is None:
        raise AttributeError(f"no step of a workflow is called {name!r}")
    use_case = getattr(importlib.import_module(f"peaker.usecases.{definition.phase}.{name}"), name)
    _, given = inspect.signature(use_case, eval_str=True).parameters.values()
    return step(use_case, given.annotation, recorded=definition.recorded)
