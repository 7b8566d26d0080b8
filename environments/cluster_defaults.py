"""The `defaults` of an environment file are settings that each of its clusters has unless it says otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from peaker_contract.field_types import Fault


def in_each_cluster(document: Any) -> Any:
    """Returns the file's content with the defaults in each cluster. What is of another form stays as it is."""
    defaults = _defaults(document)
    if not defaults or not isinstance(document.get("clusters"), list):
        return document
    clusters = [_merged(defaults, one) if isinstance(one, dict) else one for one in document["clusters"]]
    return {**document, "clusters": clusters}


def told_once(faults: Iterable[Fault], document: Any) -> Iterator[Fault]:
    """Yields the faults; one of a setting that clusters have from the defaults is a fault of the defaults."""
    defaults = _defaults(document)
    for fault in faults:
        match fault.at:
            case ("clusters", int(index), *rest) if rest and _is_from(
                defaults, document["clusters"][index], rest
            ):
                yield Fault(("defaults", *rest), fault.message)
            case _:
                yield fault


def _defaults(document: Any) -> Mapping[str, Any]:
    found = document.get("defaults") if isinstance(document, dict) else None
    return found if isinstance(found, dict) else {}


def _merged(defaults: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    both = {**defaults, **own}
    for name in defaults.keys() & own.keys():
        if isinstance(defaults[name], dict) and isinstance(own[name], dict):
            both[name] = _merged(defaults[name], own[name])
    return both


def _is_from(defaults: Any, own: Any, path: Sequence[str | int]) -> bool:
    """Tells whether the cluster has what stands at the path from the defaults."""
    for part in path:
        if not isinstance(own, dict) or not isinstance(defaults, dict) or part not in defaults:
            return False
        if part not in own:
            return True
        own, defaults = own[part], defaults[part]
    return False
