"""What a target gets of an event: as it is, a part of it, or what an input transformer makes of it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any


def target_payload(target: Mapping[str, Any], event: Mapping[str, Any], rule_arn: str) -> str:
    """The JSON text that a rule's target receives: Input, InputPath, InputTransformer, or the whole event."""
    if target.get("Input") is not None:
        return str(target["Input"])
    if target.get("InputPath") is not None:
        return json.dumps(_at(event, target["InputPath"]))
    transformer = target.get("InputTransformer")
    if transformer:
        values = {name: _at(event, path) for name, path in transformer.get("InputPathsMap", {}).items()}
        return transform(transformer["InputTemplate"], {**values, **_predefined(event, rule_arn)})
    return json.dumps(event)


def _predefined(event: Mapping[str, Any], rule_arn: str) -> dict[str, Any]:
    return {
        "aws.events.rule-arn": rule_arn,
        "aws.events.rule-name": rule_arn.rsplit("/", 1)[-1],
        "aws.events.event.ingestion-time": event["time"],
        "aws.events.event": {key: value for key, value in event.items() if key != "detail"},
        "aws.events.event.json": event,
    }


def transform(template: str, values: Mapping[str, Any]) -> str:
    """Fill `<name>` in an input template.

    Outside quotes a value is written as JSON (so text gets its quotes); inside quotes it is written as text,
    escaped for where it stands. A path that the event does not have gives null, or nothing inside quotes.
    """
    out: list[str] = []
    quoted = False
    position = 0
    placeholder = re.compile(r"<([A-Za-z0-9_.\-]+)>")
    while position < len(template):
        match = placeholder.match(template, position)
        if match and match.group(1) in values:
            value = values[match.group(1)]
            out.append(_inside_quotes(value) if quoted else json.dumps(value))
            position = match.end()
            continue
        character = template[position]
        if character == "\\" and quoted:
            out.append(template[position : position + 2])
            position += 2
            continue
        quoted ^= character == '"'
        out.append(character)
        position += 1
    return "".join(out)


def _inside_quotes(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value)
    return json.dumps(text)[1:-1]


def _at(event: Mapping[str, Any], path: str) -> Any:
    """The value at a JSON path of dots and [n] (all that EventBridge allows), or None."""
    value: Any = event
    for name, index in re.findall(r"\.([^.\[\]]+)|\[(\d+)\]", path.removeprefix("$")):
        if name and isinstance(value, Mapping) and name in value:
            value = value[name]
        elif index and isinstance(value, Sequence) and int(index) < len(value):
            value = value[int(index)]
        else:
            return None
    return value
