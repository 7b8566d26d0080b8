"""Prints the settings reference that docs/settings.md is, or the JSON Schema that editors read.

    python -m environments.reference            the reference, Markdown
    python -m environments.reference --schema   environments/schema.json

`make settings-reference` writes the reference, and a test finds when it was forgotten. scripts/setup writes the schema,
which is no part of the repository.
"""

from __future__ import annotations

import argparse
import inspect
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from environments.settings import Environment
from peaker_contract.field_types import PATTERN_WORDS

JsonSchema = Mapping[str, Any]

HEAD = """# Settings

<!-- Made by `make settings-reference` from the models in peaker_contract/ and environments/; edit those. -->

What `environments/<name>.yaml` may say. A file is checked before anything is synthesized: each fault is told on a line
of its own with file, line, path, what is wrong and the remedy; what is allowed and looks like a slip is told as a
warning. Editors with a YAML language server complete and check the files by `environments/schema.json`, which their
first line names and `scripts/setup` writes; rules between settings are checked by `scripts/synth` alone.

A setting without a default is required. `[]` in a path stands for each item of a list.

Plain YAML is read, with anchors and merges. Refused, because people and programs read them differently: a key given
twice, tags, numbers with a leading 0, underscores or colons, and `yes`, `no`, `on` and `off`. Text that looks like a
number, a date or one of those words belongs in quotes: `account: "123456789012"`.
"""


@dataclass(frozen=True)
class Section:
    """The settings of one model, at one path of the file."""

    path: str
    definition: JsonSchema
    required: frozenset[str]

    @property
    def title(self) -> str:
        kind = self.definition["properties"].get("kind", {}).get("const")
        shown = f"`{self.path}`" if self.path else "The file"
        return f"{shown} of kind `{kind}`" if kind else shown

    @property
    def anchor(self) -> str:
        kept = (one for one in self.title.lower().replace(" ", "-") if one.isalnum() or one in "-_")
        return "".join(kept)


def json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of an environment file, with words for each pattern. A cluster may have any setting from
    the defaults, so editors hear of no missing one.
    """
    schema = _schema()
    cluster = schema["$defs"]["Cluster"]
    del cluster["required"]
    schema["properties"]["defaults"] = {**schema["properties"]["defaults"], "$ref": "#/$defs/Cluster"}
    return schema


def _schema() -> dict[str, Any]:
    schema = Environment.model_json_schema(by_alias=True)
    _explain(schema)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _explain(node: Any) -> None:
    if isinstance(node, dict):
        pattern = node.get("pattern")
        if isinstance(pattern, str) and pattern in PATTERN_WORDS:
            node["patternErrorMessage"] = f"must be {PATTERN_WORDS[pattern]}"
        if "patternProperties" in node:
            node["additionalProperties"] = False
        if "properties" in node and "description" in node:
            node["description"] = inspect.cleandoc(node["description"]).partition("\n\n")[0]
        if isinstance(node.get("title"), str):
            del node["title"]
        for value in node.values():
            _explain(value)
    elif isinstance(node, list):
        for value in node:
            _explain(value)


def markdown() -> str:
    schema = _schema()
    sections = list(_sections("", schema, schema["$defs"]))
    parts = [HEAD, *(_section(section, sections) for section in sections)]
    return "\n".join(parts)


def _sections(path: str, definition: JsonSchema, definitions: JsonSchema) -> Iterator[Section]:
    yield Section(path, definition, frozenset(definition.get("required", ())))
    for name, prop in definition["properties"].items():
        for below, reference in _references(prop):
            yield from _sections(_joined(path, name) + below, definitions[reference], definitions)


def _references(prop: JsonSchema) -> Iterator[tuple[str, str]]:
    """Yields the models that a setting holds: `` or `[]`, and their names."""
    for one in (prop, *prop.get("oneOf", ()), *prop.get("anyOf", ())):
        if "$ref" in one:
            yield "", one["$ref"].rsplit("/", 1)[-1]
    if "$ref" in prop.get("items", {}):
        yield "[]", prop["items"]["$ref"].rsplit("/", 1)[-1]


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _section(section: Section, sections: Sequence[Section]) -> str:
    rows = [
        "| setting | meaning | default | values | example |",
        "|---|---|---|---|---|",
        *(_row(section, name, prop, sections) for name, prop in section.definition["properties"].items()),
    ]
    return "\n".join([f"## {section.title}", "", section.definition["description"], "", *rows, ""])


def _row(section: Section, name: str, prop: JsonSchema, sections: Sequence[Section]) -> str:
    parts = [one for one in sections if one.path.removesuffix("[]") == _joined(section.path, name)]
    links = ", ".join(
        f"[{'kind ' if len(parts) > 1 else ''}{_link(one, parts)}](#{one.anchor})" for one in parts
    )
    default = "required" if name in section.required else _default(prop, bool(parts))
    example = "" if parts else f"`{json.dumps(_example(prop), ensure_ascii=False)}`"
    values = links or _values(prop)
    if parts and "items" in prop:
        values = f"{links}; {_length(prop)}"
    cells = (f"`{name}`", prop["description"], default, values, example)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _example(prop: JsonSchema) -> Any:
    """The default is the example of a setting that has no other."""
    return prop["examples"][0] if "examples" in prop else prop["default"]


def _link(section: Section, parts: Sequence[Section]) -> str:
    return str(section.definition["properties"]["kind"]["const"]) if len(parts) > 1 else "below"


def _default(prop: JsonSchema, is_section: bool) -> str:
    if is_section:
        return "its own" if "items" not in prop else "none"
    given = prop.get("default")
    return "none" if given is None else f"`{json.dumps(given)}`"


def _values(prop: JsonSchema) -> str:
    for one in prop.get("anyOf", ()):
        if one.get("type") != "null":
            return _values(one)
    if "enum" in prop or "const" in prop:
        return ", ".join(f"`{one}`" for one in prop.get("enum", (prop.get("const"),)))
    match prop.get("type"):
        case "boolean":
            return "`true`, `false`"
        case "integer" | "number":
            return _range(prop)
        case "string":
            return _text(prop)
        case "array":
            return f"{_length(prop)}: {_values(prop['items'])}"
        case _ if "patternProperties" not in prop:
            return "as in [`clusters[]`](#clusters)"
        case _:
            [(pattern, values)] = prop["patternProperties"].items()
            return f"{_length(prop)}: {PATTERN_WORDS[pattern]}, to {_text(values)}"


def _range(prop: JsonSchema) -> str:
    low, above = prop.get("minimum"), prop.get("exclusiveMinimum")
    high, below = prop.get("maximum"), prop.get("exclusiveMaximum")
    ends = [
        f"{low:.15g}" if low is not None else f"above {above:.15g}",
        f"{high:.15g}" if high is not None else f"below {below:.15g}",
    ]
    step = prop.get("multipleOf")
    if step is None:
        return " to ".join(ends)
    return " to ".join(ends) + (f", multiples of {step}" if step >= 1 else f", {len(str(step)) - 2} decimals")


def _text(prop: JsonSchema) -> str:
    words = prop.get("patternErrorMessage", "text").removeprefix("must be ")
    longest = f", at most {prop['maxLength']} characters" if "maxLength" in prop else ""
    return f"{words}{longest}"


def _length(prop: JsonSchema) -> str:
    least = prop.get("minItems", prop.get("minProperties", 0))
    most = prop.get("maxItems", prop.get("maxProperties"))
    return f"{least} to {most}"


def models() -> Iterator[type[BaseModel]]:
    """Every model that a file consists of."""
    waiting: list[Any] = [Environment]
    seen: set[type[BaseModel]] = set()
    while waiting:
        one = waiting.pop()
        if isinstance(one, type) and issubclass(one, BaseModel):
            if one not in seen:
                seen.add(one)
                yield one
                waiting += [field.annotation for field in one.model_fields.values()]
        else:
            waiting += getattr(one, "__args__", ())


def schema_text() -> str:
    return json.dumps(json_schema(), indent=1, ensure_ascii=False) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m environments.reference", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument("--schema", action="store_true", help="the JSON Schema instead of the reference")
    options = parser.parse_args(arguments)
    sys.stdout.write(schema_text() if options.schema else markdown())
    return 0


if __name__ == "__main__":
    sys.exit(main())
