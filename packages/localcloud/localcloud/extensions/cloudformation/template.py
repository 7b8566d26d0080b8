"""CloudFormation templates: which resource waits for which, and the values of intrinsic functions."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

SUB = re.compile(r"\$\{(!?)([^}]+)\}")
ZONES = ("a", "b", "c")


class TemplateError(Exception):
    """The template is wrong, or asks for what the local cloud has not: names the place."""


@dataclass
class Scope:
    """What names in a template stand for."""

    pseudo: Mapping[str, str]
    parameters: Mapping[str, Any]
    conditions: Mapping[str, Any] = field(default_factory=dict)
    mappings: Mapping[str, Any] = field(default_factory=dict)
    physical_id: Callable[[str], str] = str
    attribute: Callable[[str, str], Any] = lambda resource, name: f"{resource}.{name}"
    imported: Callable[[str], Any] = str

    def reference(self, name: str) -> Any:
        if name in self.pseudo:
            return self.pseudo[name]
        if name in self.parameters:
            return self.parameters[name]
        return self.physical_id(name)


NO_VALUE = object()


def resolve(value: Any, scope: Scope) -> Any:
    """The value with every intrinsic function worked out. Raises TemplateError."""
    if isinstance(value, list):
        return [item for item in (resolve(item, scope) for item in value) if item is not NO_VALUE]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        name, argument = next(iter(value.items()))
        if name == "Ref":
            return NO_VALUE if argument == "AWS::NoValue" else scope.reference(argument)
        if name.startswith("Fn::"):
            if name not in FUNCTIONS:
                raise TemplateError(f"the local cloud has no {name}")
            return FUNCTIONS[name](argument, scope)
    resolved = {key: resolve(item, scope) for key, item in value.items()}
    return {key: item for key, item in resolved.items() if item is not NO_VALUE}


def _get_att(argument: Any, scope: Scope) -> Any:
    resource, name = argument.split(".", 1) if isinstance(argument, str) else argument
    return scope.attribute(resource, resolve(name, scope))


def _sub(argument: Any, scope: Scope) -> str:
    template, extra = argument if isinstance(argument, list) else (argument, {})
    known = {key: resolve(item, scope) for key, item in extra.items()}

    def replace(match: re.Match[str]) -> str:
        literal, name = match.group(1), match.group(2).strip()
        if literal:
            return "${" + name + "}"
        if name in known:
            return str(known[name])
        if "." in name:
            return str(_get_att(name, scope))
        return str(scope.reference(name))

    return SUB.sub(replace, template)


def _find_in_map(argument: Any, scope: Scope) -> Any:
    name, top, second = (resolve(item, scope) for item in argument[:3])
    try:
        return scope.mappings[name][top][second]
    except KeyError as error:
        raise TemplateError(f"Fn::FindInMap: no {name}.{top}.{second}") from error


def _if(argument: Any, scope: Scope) -> Any:
    return resolve(argument[1] if condition(argument[0], scope) else argument[2], scope)


def condition(name: str, scope: Scope) -> bool:
    """The value of a named condition."""
    if name not in scope.conditions:
        raise TemplateError(f"no condition {name}")
    return bool(_evaluate(scope.conditions[name], scope))


def _evaluate(rule: Any, scope: Scope) -> bool:
    name, argument = next(iter(rule.items()))
    if name == "Condition":
        return condition(argument, scope)
    if name == "Fn::Equals":
        return str(resolve(argument[0], scope)) == str(resolve(argument[1], scope))
    if name == "Fn::Not":
        return not _evaluate(argument[0], scope)
    if name == "Fn::And":
        return all(_evaluate(item, scope) for item in argument)
    if name == "Fn::Or":
        return any(_evaluate(item, scope) for item in argument)
    raise TemplateError(f"{name} is not a condition function")


def _select(argument: Any, scope: Scope) -> Any:
    index, items = int(resolve(argument[0], scope)), resolve(argument[1], scope)
    if not 0 <= index < len(items):
        raise TemplateError(f"Fn::Select: no item {index} in {items}")
    return items[index]


FUNCTIONS: dict[str, Callable[[Any, Scope], Any]] = {
    "Fn::Base64": lambda argument, scope: base64.b64encode(str(resolve(argument, scope)).encode()).decode(),
    "Fn::FindInMap": _find_in_map,
    "Fn::GetAtt": _get_att,
    "Fn::GetAZs": lambda argument, scope: [
        f"{resolve(argument, scope) or scope.pseudo['AWS::Region']}{zone}" for zone in ZONES
    ],
    "Fn::If": _if,
    "Fn::ImportValue": lambda argument, scope: scope.imported(resolve(argument, scope)),
    "Fn::Join": lambda argument, scope: argument[0].join(str(item) for item in resolve(argument[1], scope)),
    "Fn::Select": _select,
    "Fn::Split": lambda argument, scope: str(resolve(argument[1], scope)).split(argument[0]),
    "Fn::Sub": _sub,
    "Fn::ToJsonString": lambda argument, scope: json.dumps(resolve(argument, scope)),
}


def creation_order(resources: Mapping[str, Any]) -> list[str]:
    """Logical ids, each after what it refers to or depends on. Raises TemplateError for a circle or a stranger."""
    waits_for = {name: set(_references(resource)) & set(resources) for name, resource in resources.items()}
    for name, resource in resources.items():
        depends = resource.get("DependsOn", [])
        for other in [depends] if isinstance(depends, str) else depends:
            if other not in resources:
                raise TemplateError(f"{name} depends on {other}, which is not in the template")
            waits_for[name].add(other)
    order: list[str] = []
    while waits_for:
        ready = [name for name, others in waits_for.items() if not others - set(order)]
        if not ready:
            raise TemplateError(f"Circular dependency between resources: {sorted(waits_for)}")
        order.extend(ready)
        for name in ready:
            del waits_for[name]
    return order


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            if key == "Ref":
                yield item
            elif key == "Fn::GetAtt":
                yield item.split(".")[0] if isinstance(item, str) else item[0]
            elif key == "Fn::Sub":
                text = item[0] if isinstance(item, list) else item
                yield from (match.group(2).split(".")[0].strip() for match in SUB.finditer(text))
                yield from _references(item)
            else:
                yield from _references(item)
    elif isinstance(value, list):
        for item in value:
            yield from _references(item)
