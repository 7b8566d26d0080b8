"""Expressions of the States Language, as the local cloud evaluates them; plain paths without the evaluator."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from localcloud.extensions.stepfunctions.jsonata import EvaluationError, evaluate

_PATH = re.compile(r"^\$([A-Za-z_]\w*)((?:\.[A-Za-z_]\w*)*)$")
_MISSING = object()


def filled(template: Any, bindings: Mapping[str, Any], now: datetime) -> Any:
    """The template with the value of each `{% ... %}` in its place. Raises EvaluationError."""
    if isinstance(template, str):
        return value(template[2:-2].strip(), bindings, now) if template.startswith("{%") else template
    if isinstance(template, Mapping):
        return {name: filled(part, bindings, now) for name, part in template.items()}
    if isinstance(template, list):
        return [filled(part, bindings, now) for part in template]
    return template


def value(expression: str, bindings: Mapping[str, Any], now: datetime) -> Any:
    """The value of one expression. Raises EvaluationError."""
    path = _PATH.match(expression)
    if path:
        found = _followed(bindings.get(path[1], _MISSING), path[2].split(".")[1:])
        if found is not _MISSING:
            return found
    return evaluate(expression, bindings, now)


def _followed(found: Any, names: list[str]) -> Any:
    """Objects only: what a list or a missing name means is the evaluator's to say."""
    for name in names:
        if not isinstance(found, Mapping) or name not in found:
            return _MISSING
        found = found[name]
    return found


__all__ = ["EvaluationError", "filled", "value"]
