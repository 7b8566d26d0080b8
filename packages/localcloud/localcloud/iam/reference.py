"""AWS's Service Authorization Reference, as far as the local cloud knows it: service_reference.json."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_name("service_reference.json")
# Every action has these ("AWS global condition context keys"), where the request has a value for them.
GLOBAL_KEYS = frozenset(
    f"aws:{name}"
    for name in [
        "calledvia",
        "currenttime",
        "epochtime",
        "multifactorauthpresent",
        "principalaccount",
        "principalarn",
        "principalisawsservice",
        "principalservicename",
        "principaltype",
        "requestedregion",
        "resourceaccount",
        "securetransport",
        "sourceaccount",
        "sourcearn",
        "sourceip",
        "sourceowner",
        "useragent",
        "userid",
        "username",
        "viaawsservice",
    ]
)


@cache
def actions() -> dict[str, dict[str, list[str]]]:
    """By action, by resource type ("" for those of every type), the condition keys in lower case."""
    found: dict[str, dict[str, list[str]]] = json.loads(FILE.read_text(encoding="utf-8"))["actions"]
    return found


@cache
def has_resources(action: str) -> bool:
    """Whether the action is authorized on resources; one that is not needs Resource "*"."""
    return bool(set(actions()[action]) - {""})


@cache
def supports(action: str, kind: str, key: str) -> bool:
    """Whether a request of this action has the condition key (lower case) for this resource type."""
    if key in GLOBAL_KEYS or key.startswith("aws:principaltag/"):
        return True
    kinds = actions().get(action, {})
    return any(
        key == known or (known.endswith(("/", ":")) and key.startswith(known))
        for known in (*kinds.get(kind, ()), *kinds.get("", ()))
    )
