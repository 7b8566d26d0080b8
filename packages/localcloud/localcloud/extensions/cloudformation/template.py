"""CloudFormation templates: which resource waits for which, and the values of intrinsic functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any


class TemplateError(Exception):
    """The template is wrong, or asks for what the local cloud has not: names the place."""


@dataclass
class Scope:
    """What names in a template stand for."""

    pseudo: Mapping[str, str]
    physical_id: Callable[[str], str] = str
    attribute: Callable[[str, str], Any] = lambda resource, name: f"{resource}.{name}"

    def reference(self, name: str) -> Any:
        return self.pseudo[name] if name in self.pseudo else self.physical_id(name)


def resolve(value: Any, scope: Scope) -> Any:
    """The value with every intrinsic function worked out. Raises TemplateError."""
    if isinstance(value, list):
        return [resolve(item, scope) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        name, argument = next(iter(value.items()))
        if name == "Ref":
            return scope.reference(argument)
        if name.startswith("Fn::"):
            if name not in FUNCTIONS:
                raise TemplateError(f"the local cloud has no {name}")
            return FUNCTIONS[name](argument, scope)
    return {key: resolve(item, scope) for key, item in value.items()}


def _get_att(argument: Any, scope: Scope) -> Any:
    resource, name = argument.split(".", 1) if isinstance(argument, str) else argument
    return scope.attribute(resource, resolve(name, scope))


FUNCTIONS: dict[str, Callable[[Any, Scope], Any]] = {
    "Fn::GetAtt": _get_att,
    "Fn::Join": lambda argument, scope: argument[0].join(str(item) for item in resolve(argument[1], scope)),
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
            else:
                yield from _references(item)
    elif isinstance(value, list):
        for item in value:
            yield from _references(item)
