"""IAM policy documents: which statements match an action on a resource, by whom and under which conditions.

Semantics from the IAM User Guide: "IAM JSON policy elements: Condition operators", "Conditions with multiple
context keys or values", "IAM policy elements: Variables and tags". Everything is a pure function of its arguments.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

DOCUMENTS_REMEMBERED = 4096
Tags = Mapping[str, str]


class PolicyNotUnderstood(Exception):
    """A policy, or a key that it asks for, is beyond the local cloud: what it would decide is not known."""


class Context(Protocol):
    """What conditions and policy variables can ask about a request."""

    def values(self, key: str) -> Sequence[str] | None:
        """The values of a condition key, None when the request has none. Raises PolicyNotUnderstood."""


class Principal(Protocol):
    """Who calls, as the Principal element of a resource's policy sees it."""

    def is_named(self, kind: str, name: str) -> bool:
        """Whether `name` under `kind` (AWS, Service, Federated, CanonicalUser) is the caller."""


@dataclass(frozen=True)
class Condition:
    """One operator on one key, e.g. ForAllValues:StringEqualsIfExists aws:TagKeys [...]."""

    operator: str
    quantifier: str
    if_exists: bool
    key: str
    wanted: tuple[str, ...]


@dataclass(frozen=True)
class Statement:
    """One statement; patterns are as written, with their variables."""

    allows: bool
    sid: str
    actions: tuple[str, ...]
    not_actions: tuple[str, ...]
    resources: tuple[str, ...]
    not_resources: tuple[str, ...]
    principals: tuple[tuple[str, str], ...] | None
    conditions: tuple[Condition, ...]
    has_variables: bool

    def matches(self, action: str, resource: str, context: Context) -> bool:
        """Whether it speaks of this action on this resource under these conditions, whoever the principal is."""
        if _names_action(self.actions or self.not_actions, action) != bool(self.actions):
            return False
        fill = (lambda text: _filled(text, context)) if self.has_variables else _plain
        if self.resources:
            if not any(_matches(fill(pattern), resource) for pattern in self.resources):
                return False
        elif any(_matches(fill(pattern), resource) for pattern in self.not_resources):
            return False
        return all(_holds(condition, context, fill) for condition in self.conditions)

    def names(self, principal: Principal) -> bool:
        """Whether its Principal element is the caller."""
        if self.principals is not None:
            return any(principal.is_named(kind, name) for kind, name in self.principals)
        return True


@dataclass(frozen=True)
class PolicyDocument:
    """A parsed policy."""

    statements: tuple[Statement, ...]


@lru_cache(maxsize=DOCUMENTS_REMEMBERED)
def parse(document: str) -> PolicyDocument:
    """A policy from its JSON text, parsed once. Raises PolicyNotUnderstood."""
    try:
        body = json.loads(document)
    except ValueError as error:
        raise PolicyNotUnderstood(f"a policy is no JSON: {error}") from error
    statements = _listed(body.get("Statement"))
    variables = body.get("Version") == "2012-10-17"
    return PolicyDocument(tuple(_statement(each, variables) for each in statements))


def _statement(body: Mapping[str, Any], variables: bool) -> Statement:
    known = {"Sid", "Effect", "Action", "NotAction", "Resource", "NotResource", "Principal"}
    unknown = sorted(set(body) - known - {"Condition"})
    if unknown or body.get("Effect") not in ("Allow", "Deny"):
        raise PolicyNotUnderstood(f"a statement has {', '.join(unknown) or 'no Effect Allow or Deny'}")
    return Statement(
        allows=body["Effect"] == "Allow",
        sid=str(body.get("Sid", "")),
        actions=_texts(body.get("Action")),
        not_actions=_texts(body.get("NotAction")),
        resources=_texts(body.get("Resource")) or (() if "NotResource" in body else ("*",)),
        not_resources=_texts(body.get("NotResource")),
        principals=_principals(body.get("Principal")),
        conditions=tuple(_conditions(body.get("Condition") or {})),
        has_variables=variables and "${" in json.dumps(body),
    )


def _listed(value: Any) -> list[Any]:
    return [] if value is None else value if isinstance(value, list) else [value]


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(_text(each) for each in _listed(value))


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _principals(value: Any) -> tuple[tuple[str, str], ...] | None:
    if value is None:
        return None
    if not isinstance(value, Mapping):
        return (("AWS", str(value)),)
    return tuple((kind, str(name)) for kind, names in value.items() for name in _listed(names))


def _conditions(block: Mapping[str, Mapping[str, Any]]) -> Iterable[Condition]:
    for written, keys in block.items():
        quantifier, _, rest = written.rpartition(":")
        operator = rest.removesuffix("IfExists")
        if operator not in _TESTS and operator != "Null":
            raise PolicyNotUnderstood(f"the condition operator {written} is not known")
        if quantifier not in ("", "ForAllValues", "ForAnyValue"):
            raise PolicyNotUnderstood(f"the set operator {quantifier} is not known")
        for key, wanted in keys.items():
            yield Condition(operator, quantifier, operator != rest, key, _texts(wanted))


# -- one condition --------------------------------------------------------------------------------------------


def _holds(condition: Condition, context: Context, fill: Callable[[str], str | None]) -> bool:
    found = context.values(condition.key)
    if condition.operator == "Null":
        return any((found is None) == (wanted.lower() == "true") for wanted in condition.wanted)
    test = _TESTS[condition.operator]
    negated = "Not" in condition.operator
    if not found:
        if condition.if_exists or condition.quantifier == "ForAllValues":
            return True
        return negated and condition.quantifier != "ForAnyValue"
    wanted = [each for each in (fill(text) for text in condition.wanted) if each is not None]

    def one(value: str) -> bool:
        hit = any(test(value, each) for each in wanted)
        return hit != negated

    if condition.quantifier == "ForAllValues":
        return all(one(value) for value in found)
    if condition.quantifier == "ForAnyValue":
        return any(one(value) for value in found)
    return all(one(value) for value in found) if negated else any(one(value) for value in found)


def _arn(value: str, wanted: str) -> bool:
    """Each of the six parts by itself: a wildcard does not reach beyond its colon, but in the last part."""
    parts, patterns = value.split(":", 5), wanted.split(":", 5)
    if wanted == "*":
        return True
    if len(parts) != len(patterns):
        return False
    return all(_matches(pattern, part) for part, pattern in zip(parts, patterns, strict=True))


def _equals(value: str, wanted: str) -> bool:
    return value == wanted


def _equals_ignoring_case(value: str, wanted: str) -> bool:
    return value.lower() == wanted.lower()


def _like(value: str, wanted: str) -> bool:
    return _matches(wanted, value)


# Negated operators test the same; _holds turns the answer round.
_TESTS: dict[str, Callable[[str, str], bool]] = {
    "StringEquals": _equals,
    "StringNotEquals": _equals,
    "StringLike": _like,
    "StringNotLike": _like,
    "Bool": _equals_ignoring_case,
    "ArnEquals": _arn,
    "ArnNotEquals": _arn,
    "ArnLike": _arn,
    "ArnNotLike": _arn,
}


# -- patterns -------------------------------------------------------------------------------------------------


@lru_cache(maxsize=DOCUMENTS_REMEMBERED)
def _glob(pattern: str) -> re.Pattern[str]:
    """`*` is any text and `?` any character; `[*]` and `[?]` are the characters themselves (see _filled)."""
    parts = re.split(r"(\[\*\]|\[\?\]|\*|\?)", pattern)
    wild = {"*": ".*", "?": ".", "[*]": r"\*", "[?]": r"\?"}
    return re.compile("".join(wild.get(part, re.escape(part)) for part in parts) + r"\Z", re.DOTALL)


@lru_cache(maxsize=DOCUMENTS_REMEMBERED)
def _names_action(patterns: tuple[str, ...], action: str) -> bool:
    """Whether one of them is this action's; nearly every request asks the same as one before it."""
    return any(_glob(pattern.lower()).match(action.lower()) for pattern in patterns)


def _matches(pattern: str | None, text: str) -> bool:
    return pattern is not None and _glob(pattern).match(text) is not None


def _plain(text: str) -> str | None:
    return text


_VARIABLE = re.compile(r"\$\{([^}]*)\}")
_LITERALS = {"*": "[*]", "?": "[?]", "$": "$"}


def _filled(text: str, context: Context) -> str | None:
    """The text with its variables; None when one has no value and no default, so that nothing matches."""
    missing = False

    def value(match: re.Match[str]) -> str:
        nonlocal missing
        key, _, rest = match.group(1).partition(",")
        if key in _LITERALS:
            return _LITERALS[key]
        found = context.values(key.strip())
        if found and len(found) == 1:
            return found[0]
        if rest:
            return rest.strip().strip("'")
        missing = True
        return ""

    filled = _VARIABLE.sub(value, text)
    return None if missing else filled
