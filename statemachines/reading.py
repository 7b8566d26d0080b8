"""Reads a source, and says everything that is wrong in it: file, line, state, field, remedy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from environments.aws_names import nearest
from environments.faults import EnvironmentFileError, line_of
from environments.yaml_text import Document, read_document
from peaker_contract.field_types import PATTERN_WORDS, Fault, Location
from statemachines import policies
from statemachines.source import (
    KINDS,
    Call,
    Each,
    Parallel,
    Scope,
    Workflow,
    kinds_of,
)

# What the expansion itself puts into the payload of a function.
STANDARD_PAYLOAD = {"step", *(part for speaker in policies.SPEAKERS.values() for part in speaker)}


class WorkflowSourceError(Exception):
    """The source cannot be expanded; the message has a line per mistake."""


def read_source(path: Path) -> Workflow:
    """Raises WorkflowSourceError with all mistakes."""
    source = f"{path.parent.name}/{path.name}"
    try:
        if not path.read_text(encoding="utf-8").strip():
            raise WorkflowSourceError(
                f"{source}: is empty: begin with comment, timeout_seconds, start_at, on_failure"
            )
        document = read_document(path, source)
    except (OSError, UnicodeDecodeError) as error:
        raise WorkflowSourceError(f"{source}: cannot be read: {error}") from error
    except EnvironmentFileError as error:
        raise WorkflowSourceError(str(error)) from error
    faults = list(document.faults)
    try:
        workflow = Workflow.model_validate(document.value)
    except ValidationError as error:
        faults += _faults_of_model(error, document.value)
    else:
        faults += _faults_of_scope(workflow, ())
    if faults:
        raise WorkflowSourceError("\n".join(_line_of(source, fault, document) for fault in faults))
    return workflow


def _line_of(source: str, fault: Fault, document: Document) -> str:
    """`statemachines/scale_in.yaml:31: DrainReplica: waits_on: ...`"""
    line = line_of(fault.at, document.lines) or 1
    states = [index + 1 for index, part in enumerate(fault.at[:-1]) if part == "states"]
    where = fault.at[states[-1] :] if states else fault.at
    shown = ": ".join(str(part) for part in where if not isinstance(part, int))
    return ": ".join(part for part in (f"{source}:{line}", shown, fault.message) if part)


# -- of the model ---------------------------------------------------------------------------------------------


def _faults_of_model(error: ValidationError, document: Any) -> Iterator[Fault]:
    for found in error.errors(include_url=False):
        if found["type"] == "too_short" and found["input"]:
            continue  # pydantic counts only the good items of a list; the bad one is told by itself
        at, around = _place(_without_kinds(found["loc"]), document)
        yield Fault(at, _in_words(found, around))


def _without_kinds(loc: Location) -> list[str | int]:
    """pydantic puts the kind of a state after its name."""
    kept: list[str | int] = []
    rest = list(loc)
    while rest:
        kept.append(rest.pop(0))
        if kept[-1] == "states" and rest:
            kept.append(rest.pop(0))
            if rest and rest[0] in KINDS:
                rest.pop(0)
    return kept


def _place(parts: list[str | int], document: Any) -> tuple[Location, Any]:
    """The place in the document, and what is around it; pydantic's own words (`[key]`, `dict`) fall away."""
    at: list[str | int] = []
    around = here = document
    for index, part in enumerate(parts):
        there = here.get(part) if isinstance(here, dict) else None
        if isinstance(here, list) and isinstance(part, int):
            there = here[part]
        if there is None and (index < len(parts) - 1 or part == "[key]"):
            continue
        at.append(part)
        around, here = here, there
    return tuple(at), around


def _in_words(found: Mapping[str, Any], around: Any) -> str:
    kind, context, field = found["type"], found.get("ctx", {}), found["loc"][-1] if found["loc"] else ""
    if kind == "extra_forbidden":
        return _unknown_field(str(field), around)
    if kind == "missing" and field == "comment":
        return "is missing: say in one line what it is for; the console shows it"
    if kind == "missing":
        return "is missing: write it"
    if kind == "union_tag_not_found":
        return _kindless(found["input"])
    if kind == "string_pattern_mismatch":
        return f"must be {PATTERN_WORDS[context['pattern']]}"
    if kind == "value_error":
        return str(context["error"])
    if kind in ("string_type", "invalid-json-value"):
        return f"must be text, got {found['input']!r}: write it in quotes"
    return f"{found['msg'][0].lower()}{found['msg'][1:]}: correct it"


def _unknown_field(field: str, around: Any) -> str:
    kinds = kinds_of(around)
    model = KINDS[kinds[0]] if kinds else None
    known = list(model.model_fields) if model else []
    takes = f"; a state with {kinds[0]} takes {', '.join(known)}" if model else ""
    return f"is no field{nearest(field, known)}: remove or correct it{takes}"


def _kindless(state: Any) -> str:
    given = kinds_of(state)
    if given:
        return f"has {' and '.join(given)}: keep one of them, it says what kind of state this is"
    return f"has none of {', '.join(KINDS)}: write one of them, it says what kind of state this is"


# -- of the whole ---------------------------------------------------------------------------------------------


def _faults_of_scope(scope: Scope, at: Location) -> Iterator[Fault]:
    for field in ("start_at", "on_failure"):
        yield from _faults_of_target(getattr(scope, field), scope, (*at, field))
    for name, state in scope.states.items():
        place = (*at, "states", name)
        for field_at, target in state.ways_on():
            yield from _faults_of_target(target, scope, (*place, *field_at))
        if isinstance(state, Call):
            yield from (fault.below(*place) for fault in _faults_of_payload(state))
        if isinstance(state, Parallel):
            for index, branch in enumerate(state.parallel):
                yield from _faults_of_scope(branch, (*place, "parallel", index))
        if isinstance(state, Each):
            yield from _faults_of_scope(state.run, (*place, "run"))


def _faults_of_target(target: str, scope: Scope, at: Location) -> Iterator[Fault]:
    if target not in scope.states:
        beside = " beside it" if len(at) > 1 else ""
        yield Fault(at, f"{target} is no state{beside}{nearest(target, scope.states)}: name one or add it")


def _faults_of_payload(state: Call) -> Iterator[Fault]:
    if isinstance(state.payload, str) and state.speaks_for == "nobody":
        return
    if not isinstance(state.payload, dict):
        yield Fault(("payload",), "must be a mapping; one expression only where the state speaks_for nobody")
    elif state.speaks_for != "nobody":
        for name in sorted(STANDARD_PAYLOAD & set(state.payload)):
            yield Fault(
                ("payload", name), "is added to every payload: leave it out, or let it speak_for nobody"
            )
