"""Says what is wrong in an environment file: file, line, path with clusters and volumes by name, fault and remedy."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, get_args, get_origin

from pydantic import BaseModel, ValidationError

from environments.withdrawn import WITHDRAWN
from peaker_contract.endpoint_settings import ENDPOINT_KINDS
from peaker_contract.field_types import PATTERN_WORDS, BrokenRules, Fault, Location

Lines = Mapping[Location, int]
# These items have names, which say more than their places in a list.
_NAMED = ("clusters", "volumes")
_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")
_SHOWN_CHARACTERS = 60
_MAPPING = "must be a mapping of settings, `name: value` per line"
_EXPECTED = {
    "string_too_long": "must have at most {max_length} characters",
    "string_type": "must be text; write it in quotes",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "finite_number": "must be a number that is not infinite",
    "greater_than": "must be above {gt:.15g}",
    "greater_than_equal": "must be at least {ge:.15g}",
    "less_than": "must be below {lt:.15g}",
    "less_than_equal": "must be at most {le:.15g}",
    "too_short": "must have at least {min_length}: add one",
    "too_long": "must have at most {max_length}: remove some",
    "tuple_type": "must be a list, one item per line after a hyphen",
    "dict_type": "must be a mapping, `name: value` per line",
    "model_type": _MAPPING,
    "model_attributes_type": _MAPPING,
}


@dataclass(frozen=True)
class UnclearWord:
    """An unquoted word that YAML 1.1, YAML 1.2 and people read differently, such as `no` or `012`.

    It is a value of its own, so that the field that it stands in is blamed; a moment is the only field that takes one.
    """

    text: str
    kind: str
    remedy: str

    def __repr__(self) -> str:
        return self.text


class EnvironmentFileError(Exception):
    """The environment file cannot be used; the message has one line per fault, each with its remedy.

    `faults` are the same, with the paths of keys and list indexes; empty when the file could not be read.
    """

    def __init__(self, message: str, faults: Sequence[Fault] = ()) -> None:
        super().__init__(message)
        self.faults = tuple(faults)

    @classmethod
    def about(cls, source: str, faults: Iterable[Fault], document: object, lines: Lines | None) -> Self:
        known = lines or {}
        unique = sorted(dict.fromkeys(faults), key=lambda fault: line_of(fault.at, known) or 0)
        return cls("\n".join(told(source, fault, document, known) for fault in unique), unique)


def told(source: str, fault: Fault, document: object, lines: Lines) -> str:
    """`file:line: path: what is wrong and the remedy`; the line where it is known."""
    line = line_of(fault.at, lines)
    place = source if line is None else f"{source}:{line}"
    path = shown_path(fault.at, document)
    return f"{place}: {path}: {fault.message}" if path else f"{place}: {fault.message}"


def shown_path(at: Location, document: object) -> str:
    """`clusters.orders.volumes.data.iops`. Without a name that only one of them has, the index stands."""
    parts: list[str] = []
    here: Any = document
    for index, part in enumerate(at):
        named = isinstance(part, int) and index > 0 and at[index - 1] in _NAMED
        parts.append((_name_of(here, part) if named else None) or _readable(str(part)))
        try:
            here = here[part]
        except (KeyError, IndexError, TypeError):
            here = None
    return ".".join(parts)


def _readable(part: str) -> str:
    """A key as one can read it in a line: names of settings are printable, what a file has instead may be anything."""
    text = part if part.isprintable() else ascii(part)[1:-1]
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 3]}..."


def _name_of(items: object, index: str | int) -> str | None:
    names = [item.get("name") if isinstance(item, dict) else None for item in _as_list(items)]
    name = names[index] if isinstance(index, int) and index < len(names) else None
    good = isinstance(name, str) and _NAME.fullmatch(name) and names.count(name) == 1
    return name if good else None


def _as_list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def line_of(at: Location, lines: Lines) -> int | None:
    """Returns the line of the nearest thing that the file has: a missing setting is reported where it should
    stand.
    """
    return next((lines[at[:end]] for end in range(len(at), -1, -1) if at[:end] in lines), None)


def faults_of(error: ValidationError, model: type[BaseModel]) -> Iterator[Fault]:
    """Yields pydantic's errors, in words."""
    for found in error.errors(include_url=False):
        if not _follows_from_another(found):
            yield from _in_words(found, model)


def _follows_from_another(found: Mapping[str, Any]) -> bool:
    # pydantic counts only the valid items of a list, so one bad item also makes the list "too short"; and it cannot
    # work a setting out whose sources are wrong.
    short = found["type"] == "too_short" and len(found["input"]) >= found["ctx"]["min_length"]
    return bool(short or found["type"] == "default_factory_not_called")


def _in_words(found: Mapping[str, Any], model: type[BaseModel]) -> Iterator[Fault]:
    location = found["loc"]
    at = _in_the_file(location)
    context = found.get("ctx") or {}
    broken = context.get("error")
    match found["type"]:
        case "value_error" if isinstance(broken, BrokenRules):
            yield from (fault.below(*at) for fault in broken.faults)
        case "value_error":
            yield Fault(at, _with_the_value(str(broken), found["input"]))
        case "missing":
            yield Fault(at, "is required: add it")
        case "extra_forbidden":
            yield Fault(at, _withdrawn(at) or f"is not a setting{_nearest(location, model)}")
        case "union_tag_not_found":
            yield Fault((*at, "kind"), "is required: add it")
        case "union_tag_invalid":
            kinds = str(context["expected_tags"]).replace(", ", " or ").replace("'", "")
            yield Fault((*at, "kind"), f"must be {kinds}, got {shown(_kind_in(found['input']))}")
        case _:
            yield Fault(at, _with_the_value(_what_is_expected(found, context), found["input"]))


def _what_is_expected(found: Mapping[str, Any], context: Mapping[str, Any]) -> str:
    match found["type"]:
        case "literal_error":
            return f"must be {str(context['expected']).replace(chr(39), '')}"
        case "string_pattern_mismatch":
            return f"must be {PATTERN_WORDS[context['pattern']]}"
        case "multiple_of":
            return _multiple(context["multiple_of"])
        case kind if kind in _EXPECTED:
            return _EXPECTED[kind].format(**context)
        case _:
            message = str(found["msg"]).replace("Input should be", "must be")
            return f"{message[0].lower()}{message[1:]}"


def _multiple(of: float) -> str:
    return f"must be a multiple of {of:g}" if of >= 1 else f"must have at most {len(f'{of:g}') - 2} decimals"


def _with_the_value(message: str, given: object) -> str:
    if isinstance(given, UnclearWord):
        remedy = "" if "in quotes" in message else f": {given.remedy}"
        return f"{message}, got {given}, which is {given.kind}{remedy}"
    return message if ", got " in message else f"{message}, got {shown(given)}"


def shown(value: object) -> str:
    """A value as the file has it, in short."""
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case dict() | list() if not value:
            return "an empty mapping" if isinstance(value, dict) else "an empty list"
        case dict() | list():
            return "a mapping" if isinstance(value, dict) else "a list"
        case _:
            text = repr(value)
            return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 3]}..."


def _kind_in(endpoint: object) -> object:
    return endpoint.get("kind") if isinstance(endpoint, dict) else endpoint


def _in_the_file(location: Location) -> Location:
    """pydantic puts into the path what the file has not: the kind of endpoint that it took, and a mark of keys."""
    kept = [
        part
        for before, part in zip(("", *location), location, strict=False)
        if not (before == "read_endpoint" and part in ENDPOINT_KINDS) and part != "[key]"
    ]
    return tuple(kept)


def _withdrawn(at: Location) -> str | None:
    remedy = WITHDRAWN.get(".".join(part for part in at if isinstance(part, str)))
    return f"is no longer a setting: {remedy}" if remedy else None


def _nearest(location: Location, model: type[BaseModel]) -> str:
    fields = [field.alias or name for name, field in _model_at(location[:-1], model).model_fields.items()]
    near = difflib.get_close_matches(str(location[-1]), fields, n=1)
    return f"; did you mean {near[0]}?" if near else f": remove it; the settings here are {', '.join(fields)}"


def _model_at(path: Sequence[str | int], model: type[BaseModel]) -> type[BaseModel]:
    choices = [model]
    for part in path:
        if part in model.model_fields:
            choices = _models_in(model.model_fields[str(part)].annotation)
            model = choices[0]
        else:
            model = next((one for one in choices if part in _kinds_of(one)), model)
    return model


def _kinds_of(model: type[BaseModel]) -> tuple[str, ...]:
    field = model.model_fields.get("kind")
    return () if field is None else get_args(field.annotation)


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if get_origin(annotation) is None:
        return [annotation] if isinstance(annotation, type) and issubclass(annotation, BaseModel) else []
    return [model for argument in get_args(annotation) for model in _models_in(argument)]
