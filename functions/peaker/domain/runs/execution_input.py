"""The execution input is a person's or a rule's order to a workflow; its faults are listed one line per
field. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError, model_validator

from peaker.domain.decoding import Contract
from peaker.domain.instants import from_iso
from peaker_contract.errors import InvalidRequest
from peaker_contract.field_types import ClusterName

Operation = Literal["scale_out", "scale_in"]
Mode = Literal["act", "plan"]

LONGEST_REASON = 256
# CloudWatch's state reason has up to 1,023 characters.
LONGEST_TRIGGER_TEXT = 2048
_LONGEST_SHOWN = 60
# By it Step Functions links an execution to the one that started it (`associateWithParent` of CDK). It is not for us.
_LINK_TO_PARENT = "AWS_STEP_FUNCTIONS_STARTED_BY_EXECUTION_ID"
# By operation: the fields that belong to the other one, and why.
_OF_THE_OTHER: Mapping[Operation, Mapping[str, str]] = {
    "scale_in": {
        "ready_by": "only scale_out makes a replica ready",
        "above_limits": "only scale_out passes a limit",
    },
    "scale_out": {"replica": "only scale_in takes a replica"},
}


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("has control characters")
    return text


def _instant(text: str) -> str:
    from_iso(text)
    return text


Line = Annotated[str, AfterValidator(_printable)]


class Trigger(Contract):
    """A trigger started the run. `at` is when the alarm went off (ISO 8601).

    `by` is the IAM principal of the person who started it, as `peaker` asks STS for it.
    """

    kind: Literal["alarm", "schedule", "manual"] = "manual"
    alarm: Annotated[str, Field(max_length=LONGEST_TRIGGER_TEXT)] | None = None
    reason: Annotated[str, Field(max_length=LONGEST_TRIGGER_TEXT)] | None = None
    at: Annotated[str, AfterValidator(_instant)] | None = None
    by: Annotated[Line, Field(max_length=LONGEST_TRIGGER_TEXT)] | None = None


class ExecutionInput(Contract):
    """The input that a person or a rule gives to the state machine. `ready_by`: when the replica is to serve
    (ISO 8601).

    `above_limits`: the run may pass max_replicas and the budget. Only a person's start may say so, and has to say why.
    """

    cluster: ClusterName
    mode: Mode = "act"
    count: Annotated[int, Field(ge=1, strict=True)] = 1
    replica: Annotated[str, Field(pattern=r"^i-([0-9a-f]{8}|[0-9a-f]{17})$")] | None = None
    ready_by: Annotated[str, AfterValidator(_instant)] | None = None
    above_limits: Annotated[bool, Field(strict=True)] = False
    reason: Annotated[Line, Field(max_length=LONGEST_REASON)] | None = None
    trigger: Trigger = Trigger()

    @model_validator(mode="before")
    @classmethod
    def _without_link(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        return {name: value for name, value in given.items() if name != _LINK_TO_PARENT}

    @property
    def why(self) -> str:
        """Returns the start's reason in its own words, or else the kind of start."""
        return self.reason or self.trigger.reason or self.trigger.kind


_ALLOWED = {
    "input": 'an object such as {"cluster": "orders"}',
    "cluster": "the name of a cluster: lower case, digits and hyphens, at most 20 characters",
    "mode": '"act" or "plan"',
    "count": "a whole number from 1 to the cluster's max_replicas",
    "replica": 'an instance id such as "i-0123456789abcdef0"',
    "ready_by": 'a time with its zone such as "2026-11-27T06:00:00Z"',
    "above_limits": "true or false",
    "reason": f"one line of text of at most {LONGEST_REASON} characters",
    "trigger": 'an object such as {"kind": "manual"}',
    "trigger.kind": '"alarm", "schedule" or "manual"',
    "trigger.alarm": f"the alarm's name, text of at most {LONGEST_TRIGGER_TEXT} characters",
    "trigger.reason": f"text of at most {LONGEST_TRIGGER_TEXT} characters",
    "trigger.by": f"an IAM principal, one line of text of at most {LONGEST_TRIGGER_TEXT} characters",
    "trigger.at": 'a time with its zone such as "2026-11-21T01:40:00Z"',
}


def execution_input_problems(given: Any, operation: Operation | None = None) -> dict[str, str]:
    """Lists the faults by field: what was given and what is allowed. Empty for a right input.

    `operation` adds the rule that a field belongs to one workflow. A field that is null is wrong: it is meant to
    have a value, and a default in its place could take another replica away than the one that was meant.
    """
    found: dict[str, str] = {}
    if isinstance(given, Mapping):
        found |= _of_the_other_workflow(given, operation)
        found |= {name: _not_allowed(name, None) for name in _nulls(given)}
        found |= _more_than_the_named_one(given)
        found |= _above_limits_without_a_person(given)
    try:
        ExecutionInput.model_validate(given)
    except ValidationError as error:
        for item in error.errors():
            field = ".".join(str(part) for part in item["loc"]) or "input"
            found.setdefault(field, _problem(field, item, operation))
    return found


def parse_execution_input(given: Any, operation: Operation | None = None) -> ExecutionInput:
    """The typed input. Raises InvalidRequest with a line per wrong field."""
    problems = execution_input_problems(given, operation)
    if problems:
        raise InvalidRequest(as_lines(problems))
    return ExecutionInput.model_validate(given)


def as_lines(problems: Mapping[str, str]) -> str:
    """`field: what is wrong`, a line each."""
    return "\n".join(f"{_shown_name(field)}: {text}" for field, text in problems.items())


def unknown_cluster(name: str, known: Sequence[str]) -> str:
    """Returns the message about a cluster that the environment does not have."""
    near = get_close_matches(name.lower(), known, 1)
    meant = f". Did you mean {near[0]}?" if near else ""
    return f"cluster: given {shown(name)}; clusters of this environment: {', '.join(known) or 'there are none'}{meant}"


def shown(value: Any) -> str:
    """A value as it was given, cut when it is long."""
    if value is None or isinstance(value, bool):
        return str(value).lower().replace("none", "null")
    text = f'"{value}"' if isinstance(value, str) and value.isprintable() else repr(value)
    if len(text) <= _LONGEST_SHOWN:
        return text
    return f"{text[:_LONGEST_SHOWN]}... ({len(text):,} characters)"


def _of_the_other_workflow(given: Mapping[Any, Any], operation: Operation | None) -> dict[str, str]:
    if operation is None:
        return {}
    return {
        field: f"given {shown(given[field])}; {why}: leave the field out"
        for field, why in _OF_THE_OTHER[operation].items()
        if field in given
    }


def _more_than_the_named_one(given: Mapping[Any, Any]) -> dict[str, str]:
    count = given.get("count", 1)
    if given.get("replica") is None or count == 1:
        return {}
    return {"count": f"given {shown(count)}; replica names the one that is to go: leave the field out"}


def _above_limits_without_a_person(given: Mapping[Any, Any]) -> dict[str, str]:
    if given.get("above_limits") is not True:
        return {}
    found, trigger = {}, given.get("trigger")
    kind = trigger.get("kind", "manual") if isinstance(trigger, Mapping) else "manual"
    if kind != "manual":
        found["above_limits"] = (
            f"given true by a start of kind {shown(kind)}; allowed is true only where a person starts"
        )
    reason = given.get("reason")
    if "reason" not in given or (isinstance(reason, str) and not reason.strip()):
        found["reason"] = f"given none; above_limits needs one: allowed is {_ALLOWED['reason']}"
    return found


def _nulls(given: Mapping[Any, Any]) -> list[str]:
    trigger = given.get("trigger")
    inner = trigger if isinstance(trigger, Mapping) else {}
    names = [str(name) for name, value in given.items() if value is None]
    names += [f"trigger.{name}" for name, value in inner.items() if value is None]
    return [name for name in names if name in _ALLOWED]


def _problem(field: str, item: Any, operation: Operation | None) -> str:
    if item["type"] == "missing":
        return f"not given; allowed is {_ALLOWED[field]}"
    if item["type"] == "extra_forbidden":
        return _unknown(field, operation)
    return _not_allowed(field, item["input"])


def _not_allowed(field: str, value: Any) -> str:
    text = f"given {shown(value)}; allowed is {_ALLOWED[field]}"
    near = get_close_matches(value.lower(), ("act", "plan"), 1) if isinstance(value, str) else []
    return f'{text}. Did you mean "{near[0]}"?' if field == "mode" and near else text


def _unknown(field: str, operation: Operation | None) -> str:
    prefix, _, name = field.rpartition(".")
    model = Trigger if prefix == "trigger" else ExecutionInput
    foreign = _OF_THE_OTHER[operation] if operation else {}
    known = [one for one in model.model_fields if one not in foreign]
    near = get_close_matches(name.lower(), known, 1)
    meant = f"did you mean {near[0]}? " if near else ""
    return f"no such field; {meant}Allowed are {', '.join(known)}"


def _shown_name(field: str) -> str:
    if field in _ALLOWED:
        return field
    text = field if field.isprintable() else repr(field)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
