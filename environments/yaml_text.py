"""Reads YAML with the line of each value, and nothing in it that two people could read differently.

A key that comes twice, a tab, an alias that grows out of bounds are refused here. Unquoted words that YAML versions
disagree on (`no`, `012`, `1_000`, `12:30`, a date) become an UnclearWord, which no setting takes but a moment.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import yaml

from environments.faults import EnvironmentFileError, UnclearWord
from peaker_contract.field_types import Fault, Location

# Five hundred clusters as in prod.yaml take less than half of each, as do a hundred with all that they may have.
LARGEST_FILE_BYTES = 8 * 1024 * 1024
MOST_VALUES = 100_000
DEEPEST = 32

_Loader = type[yaml.BaseLoader] | type[yaml.CBaseLoader]
# PyYAML may be built without libyaml.
_FAST_LOADER: _Loader = yaml.CBaseLoader if yaml.__with_libyaml__ else yaml.BaseLoader
_MAP, _LIST, _TEXT = (f"tag:yaml.org,2002:{kind}" for kind in ("map", "seq", "str"))
_LOOK = "look at brackets, quotes, colons and indentation there and in the line before"
_LONGEST_NUMBER = 30
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)", re.ASCII)
_DECIMAL = re.compile(r"(?=[-+]?[.]?[0-9])[-+]?(0|[1-9][0-9]*)?(\.[0-9]*)?([eE][-+]?[0-9]+)?", re.ASCII)
_SPECIAL = {".inf": "inf", "+.inf": "inf", "-.inf": "-inf", ".nan": "nan"}
_WORDS = {"true": True, "false": False, "null": None, "~": None, "": None}
_UNCLEAR = (
    (
        re.compile(r"(?i:yes|no|on|off)"),
        "true or false in some YAML versions",
        "write true or false",
    ),
    (re.compile(r"[-+]?0[0-9_]+"), "an octal number in some YAML versions", "leave the 0 out"),
    (re.compile(r"[-+]?0[xob][0-9A-Fa-f_]+"), "no decimal number", "write it in decimals"),
    (re.compile(r"[-+]?[0-9][0-9_]*_[0-9_.]*"), "a number with underscores", "leave them out"),
    (
        re.compile(r"[-+]?[0-9]+(:[0-5]?[0-9])+(\.[0-9]*)?"),
        "a number to the base of 60 in some YAML versions",
        "write it in decimals",
    ),
    (
        re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ].*)?"),
        "a date",
        "write what the setting takes",
    ),
)


@dataclass(frozen=True)
class Document:
    """A file's content, the line of each path (from 1), and the keys that it has twice."""

    value: Any
    lines: Mapping[Location, int]
    faults: tuple[Fault, ...]


def read_document(path: Path, source: str) -> Document:
    """Raises EnvironmentFileError that names `source` and the line."""
    text = _text_of(path, source)
    try:
        node = _composed(text, source)
    except yaml.YAMLError as error:
        raise EnvironmentFileError(_yaml_fault(error, text, source)) from error
    if node is None or (isinstance(node, yaml.ScalarNode) and not node.value):
        raise EnvironmentFileError(f"{source}: is empty: remove it, and write it with peaker init")
    return _Reader(source).document(node)


def _text_of(path: Path, source: str) -> str:
    try:
        size = path.stat().st_size
        if size > LARGEST_FILE_BYTES:
            raise EnvironmentFileError(
                f"{source}: must have at most {LARGEST_FILE_BYTES // 1024} KiB, has {size / 1024:.0f}: is it an "
                "environment file?"
            )
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise EnvironmentFileError(
            f"{source}:{line}: is not UTF-8 text (byte 0x{error.object[error.start]:02x}): save it as UTF-8"
        ) from error
    except OSError as error:
        raise EnvironmentFileError(f"{source}: cannot be read: {error.strerror}") from error


def _composed(text: str, source: str) -> yaml.Node | None:
    """Composes the text by libyaml, in a tenth of the time. It lets tabs pass, and the words for faults are
    PyYAML's own.
    """
    if "\t" not in text:
        with suppress(yaml.YAMLError, UnicodeError):
            return _composed_by(_FAST_LOADER, text, source)
    return _composed_by(yaml.BaseLoader, text, source)


def _composed_by(loader: _Loader, text: str, source: str) -> yaml.Node | None:
    _check_shape(text, source, loader)  # first: composing goes as deep as the text
    node: yaml.Node | None = yaml.compose(text, Loader=loader)
    return node


def _check_shape(text: str, source: str, loader: _Loader) -> None:
    depth, documents = 0, 0
    for event in yaml.parse(text, Loader=loader):
        line = (event.start_mark.line if event.start_mark else 0) + 1
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
        elif isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if documents > 1:
            raise EnvironmentFileError(f"{source}:{line}: a second document begins: keep one, without ---")
        if depth > DEEPEST:
            raise EnvironmentFileError(
                f"{source}:{line}: is nested more than {DEEPEST} deep: no setting is; look for a bracket too many"
            )


def _yaml_fault(error: yaml.YAMLError, text: str, source: str) -> str:
    mark = getattr(error, "problem_mark", None)
    if "could not find expected ':'" in str(error):
        # The parser notices in the next line.
        mark = getattr(error, "context_mark", None) or mark
    if mark is None:
        position = getattr(error, "position", 0)
        line = text[: position if isinstance(position, int) else 0].count("\n") + 1
        return f"{source}:{line}: is not YAML: {' '.join(str(error).split())}: remove what is no text"
    line, written = mark.line + 1, text.splitlines()[mark.line : mark.line + 1]
    if written and "\t" in written[0]:
        return f"{source}:{line}: has a tab where YAML takes spaces only: put spaces there"
    said = ", ".join(part for part in (getattr(error, "context", None), error.problem) if part)  # type: ignore[attr-defined]
    return f"{source}:{line}: is not YAML: {said}, column {mark.column + 1}: {_LOOK}"


class _Reader:
    """Turns nodes into values. What makes reading them pointless is refused at once, a key given twice at the end."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._lines: dict[Location, int] = {}
        self._faults: list[Fault] = []
        self._open: list[int] = []
        self._values = 0

    def document(self, node: yaml.Node) -> Document:
        self._lines[()] = node.start_mark.line + 1
        return Document(self._value(node, ()), self._lines, tuple(self._faults))

    def _value(self, node: yaml.Node, at: Location) -> Any:
        self._values += 1
        if self._values > MOST_VALUES:
            self._refuse(node, f"has more than {MOST_VALUES} values, aliases followed: write less of it")
        if node.tag not in (_MAP, _LIST, _TEXT):
            # `%0A` in a tag is a line break.
            tag = ascii(node.tag.replace("tag:yaml.org,2002:", "!!"))[1:-1]
            self._refuse(node, f"has the tag {tag}, and settings have none: remove it")
        if isinstance(node, yaml.ScalarNode):
            return node.value if node.style else plain_value(node.value)
        if id(node) in self._open:
            self._refuse(node, "contains itself by an alias: write it out")
        if len(self._open) >= DEEPEST:
            self._refuse(node, f"is nested more than {DEEPEST} deep, aliases followed: no setting is")
        self._open.append(id(node))
        value = self._list(node, at) if isinstance(node, yaml.SequenceNode) else self._mapping(node, at)
        self._open.pop()
        return value

    def _list(self, node: yaml.Node, at: Location) -> list[Any]:
        values = []
        for index, item in enumerate(node.value):
            self._lines[(*at, index)] = item.start_mark.line + 1
            values.append(self._value(item, (*at, index)))
        return values

    def _mapping(self, node: yaml.Node, at: Location) -> dict[str, Any]:
        own: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key, item in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self._refuse(key, "is a list or mapping where the name of a setting belongs: write a name")
            place, line = (*at, key.value), key.start_mark.line + 1
            if key.value == "<<" and not key.style:
                merged = {**self._merged(item, at, own), **merged}
            elif key.value in own:
                first = self._lines[place]
                self._faults.append(Fault(place, f"is given twice, first in line {first}: keep one of them"))
                self._lines[place] = line
            else:
                self._lines[place] = line
                own[key.value] = self._value(item, place)
        return {**merged, **own}

    def _merged(self, node: yaml.Node, at: Location, own: Mapping[str, Any]) -> dict[str, Any]:
        """Merges `<<: *name` or `<<: [*one, *other]`; the first one wins, and the mapping itself over all."""
        found: dict[str, Any] = {}
        kept = {
            place: line
            for place, line in self._lines.items()
            if len(place) > len(at) and place[: len(at)] == at and place[len(at)] in own
        }
        for one in node.value if isinstance(node, yaml.SequenceNode) else [node]:
            if not isinstance(one, yaml.MappingNode):
                self._refuse(one, "must be an alias of a mapping after <<, such as *orders")
            found = {**self._value(one, at), **found}
        self._lines.update(kept)
        return found

    def _refuse(self, node: yaml.Node, message: str) -> NoReturn:
        raise EnvironmentFileError(f"{self._source}:{node.start_mark.line + 1}: {message}")


def plain_value(word: str) -> Any:
    """An unquoted word: a number, true, false, nothing, or text. UnclearWord where people and versions disagree."""
    lowered = word.lower()
    if lowered in _WORDS:
        return _WORDS[lowered]
    if lowered in _SPECIAL:
        return float(_SPECIAL[lowered])
    if any(character.isdigit() for character in word) and len(word) <= _LONGEST_NUMBER:
        if _INTEGER.fullmatch(word):
            return int(word)
        if _DECIMAL.fullmatch(word):
            return float(word)
    for pattern, kind, remedy in _UNCLEAR:
        if pattern.fullmatch(word):
            return UnclearWord(word, kind, remedy)
    return word
