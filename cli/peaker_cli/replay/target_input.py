"""What a rule gives its target, made of the event anew: a dead letter holds the event itself.

As EventBridge does it (PutTargets: Input, InputPath, InputTransformer): outside quotes a value is written as JSON,
inside them as text; a path that the event does not have is null, or nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from peaker.domain.decoding import parsed_json

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|<[A-Za-z0-9_.\-]+>')
_PLACEHOLDER = re.compile(r"<([A-Za-z0-9_.\-]+)>")
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")


def target_input(target: Mapping[str, Any], event: Mapping[str, Any]) -> str:
    """The JSON text for a target as `events:ListTargetsByRule` describes it.

    Raises ValueError when the filled template is no JSON.
    """
    if target.get("Input") is not None:
        return str(target["Input"])
    if target.get("InputPath") is not None:
        return json.dumps(_at(event, str(target["InputPath"])))
    if transformer := target.get("InputTransformer"):
        paths = transformer.get("InputPathsMap", {})
        filled = _filled(
            str(transformer["InputTemplate"]), {name: _at(event, path) for name, path in paths.items()}
        )
        parsed_json(filled)
        return filled
    return json.dumps(event)


def _filled(template: str, values: Mapping[str, Any]) -> str:
    def token(found: re.Match[str]) -> str:
        text = found[0]
        if text.startswith('"'):
            return _PLACEHOLDER.sub(lambda inner: _as_text(values, inner), text)
        return json.dumps(values[text[1:-1]]) if text[1:-1] in values else text

    return _TOKEN.sub(token, template)


def _as_text(values: Mapping[str, Any], found: re.Match[str]) -> str:
    if found[1] not in values:
        return found[0]
    value = values[found[1]]
    if value is None:
        return ""
    return json.dumps(value if isinstance(value, str) else json.dumps(value))[1:-1]


def _at(event: Mapping[str, Any], path: str) -> Any:
    value: Any = event
    for name, index in _STEP.findall(path.removeprefix("$")):
        if name and isinstance(value, Mapping) and name in value:
            value = value[name]
        elif index and isinstance(value, list) and int(index) < len(value):
            value = value[int(index)]
        else:
            return None
    return value
