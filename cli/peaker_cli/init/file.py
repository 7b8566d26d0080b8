"""Writes a cluster into an environment's file: a new file, or more lines in one that people keep. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from peaker_cli.failures import ControlPlaneError
from peaker_cli.init.draft import SHARED, Setting, needed

_BARE = re.compile(r"[A-Za-z/][A-Za-z0-9/_.:+@=-]*(?<!:)")
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off"})
_LONGEST_LINE = 120


def new_file(head: Mapping[str, Any], settings: Sequence[Setting]) -> str:
    """Returns the text of a file with this one cluster."""
    settings = needed(settings, {})
    lines = [
        "# yaml-language-server: $schema=schema.json",
        "# Written by peaker init; docs/settings.md has every setting.",
    ]
    lines += [f"{name}: {in_yaml(value)}" for name, value in head.items()]
    lines += ["# What all clusters have, unless they say otherwise.", "defaults:"]
    lines += [line for one in settings if one.name in SHARED for line in _lines(one, "  ")]
    lines += ["clusters:", *_item([one for one in settings if one.name not in SHARED], "  ")]
    return "\n".join(lines) + "\n"


def known(text: str, source: str) -> Mapping[str, Any]:
    """Returns the file's content. Raises ControlPlaneError where it is none that a cluster can be added to."""
    try:
        document = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ControlPlaneError(f"{source}: is not YAML: {str(error)[:200]}; mend it first") from error
    clusters = document.get("clusters") if isinstance(document, dict) else None
    if not isinstance(clusters, list) or not all(isinstance(one, dict) for one in clusters):
        raise ControlPlaneError(f"{source}: has no list of clusters: mend it first, or give another --env")
    found: Mapping[str, Any] = document
    return found


def with_cluster(text: str, settings: Sequence[Setting], source: str) -> str:
    """Returns the text with one more cluster behind the last; all other lines stay as they are."""
    defaults = known(text, source).get("defaults") or {}
    own = needed(settings, defaults)
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode)  # known() has looked
    [clusters] = [value for key, value in root.value if key.value == "clusters"]
    if clusters.flow_style or not clusters.value:
        raise ControlPlaneError(
            f"{source}: clusters is written in brackets: write one cluster per line after a hyphen"
        )
    indent = " " * clusters.start_mark.column
    lines = text.splitlines()
    last = _last_line(clusters.value[-1])
    return "\n".join([*lines[: last + 1], *_item(own, indent), *lines[last + 1 :]]) + "\n"


def _last_line(node: yaml.Node) -> int:
    """Returns the line in which the node's content ends: a block's own mark is behind the comments that follow it."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        items = node.value[-1]
        return _last_line(items[1] if isinstance(items, tuple) else items)
    end = node.end_mark
    return int(end.line) if end.column or node.end_mark.line == node.start_mark.line else int(end.line) - 1


def _item(settings: Sequence[Setting], indent: str) -> Iterator[str]:
    lines = [line for one in settings for line in _lines(one, f"{indent}  ")]
    first = next(number for number, line in enumerate(lines) if not line.lstrip().startswith("#"))
    lines[first] = f"{indent}- {lines[first].lstrip()}"
    return iter(
        [line if number >= first else f"{indent}{line.lstrip()}" for number, line in enumerate(lines)]
    )


def _lines(setting: Setting, indent: str) -> Iterator[str]:
    if setting.name == "volumes":
        yield f"{indent}volumes:"
        for one in setting.value:
            yield from _commented(f"{indent}  - {in_yaml(one.value)}", one.comment)
    else:
        yield from _commented(f"{indent}{setting.name}: {in_yaml(setting.value)}", setting.comment)


def _commented(line: str, comment: str) -> Iterator[str]:
    if comment and len(line) + len(comment) + 4 > _LONGEST_LINE:
        yield f"{line[: len(line) - len(line.lstrip())]}# {comment}"
        comment = ""
    yield f"{line}  # {comment}" if comment else line


def in_yaml(value: Any) -> str:
    """Returns the value as YAML of one line; text that looks like something else stands in quotes."""
    match value:
        case Mapping():
            return "{" + ", ".join(f"{in_yaml(name)}: {in_yaml(one)}" for name, one in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(in_yaml(one) for one in value) + "]"
        case str() if _BARE.fullmatch(value) and value.lower() not in _WORDS:
            return value
        case _:
            return json.dumps(value, ensure_ascii=False)
