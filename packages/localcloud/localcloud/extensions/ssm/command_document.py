"""Systems Manager Command documents, schema 2.2: what they take, and the shell scripts that they come to.

A parameter with `interpolationType: ENV_VAR` reaches the script as the environment variable `SSM_<name>` and
is never pasted into its text; every other parameter is pasted where the document says `{{ name }}`. One without a value
is not set at all: AWS does not say whether the agent sets an empty one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

REFERENCE = re.compile(r"\{\{\s*([A-Za-z0-9_.:-]+)\s*\}\}")
DEFAULT_TIMEOUT_SECONDS = 3600
LONGEST_TIMEOUT_SECONDS = 172_800
SHELL = "aws:runShellScript"
KNOWN_INPUTS = frozenset({"runCommand", "timeoutSeconds"})
KNOWN_OF_PARAMETERS = frozenset(
    {"type", "description", "default", "allowedPattern", "minChars", "maxChars", "interpolationType"}
)
# Systems Manager guide, troubleshooting parameters: an agent before this one knows no interpolationType.
FIRST_AGENT_WITH_VARIABLES = (3, 3, 2746, 0)

AWS_RUN_SHELL_SCRIPT: Mapping[str, Any] = {
    "schemaVersion": "2.2",
    "description": "Run a shell script or specify the commands to run.",
    "parameters": {
        "commands": {"type": "StringList"},
        "executionTimeout": {"type": "String", "default": "3600", "allowedPattern": "[0-9]{1,6}"},
    },
    "mainSteps": [
        {
            "action": SHELL,
            "name": "runShellScript",
            "inputs": {"runCommand": "{{ commands }}", "timeoutSeconds": "{{ executionTimeout }}"},
        }
    ],
}


class InvalidDocument(Exception):
    """The document cannot be run by the local cloud; says why."""


class InvalidParameters(Exception):
    """The parameters do not fit the document; says which and why."""


@dataclass(frozen=True)
class Script:
    """One shell script to run on a host as root."""

    text: str
    timeout_seconds: float

    def argv(self) -> list[str]:
        """The interpreter of the first line, or sh."""
        first = self.text.split("\n", 1)[0]
        interpreter = first[2:].split() if first.startswith("#!") else ["/bin/sh"]
        return [*interpreter, "-c", self.text]


@dataclass(frozen=True)
class CommandDocument:
    """A Command document: its parameters as written, and its one step."""

    name: str
    version: str
    parameters: Mapping[str, Mapping[str, Any]]
    step_name: str
    inputs: Mapping[str, Any]
    precondition: Sequence[str] | None

    @classmethod
    def parse(cls, name: str, version: str, content: Mapping[str, Any]) -> CommandDocument:
        """Read a document's content. Raises InvalidDocument when this is not one that can be run."""
        if str(content.get("schemaVersion")) != "2.2":
            raise InvalidDocument(f"{name}: the local cloud runs documents of schema 2.2.")
        steps = content.get("mainSteps") or []
        if len(steps) != 1 or steps[0].get("action") != SHELL:
            raise InvalidDocument(f"{name}: the local cloud runs documents of one step, {SHELL}.")
        precondition = steps[0].get("precondition")
        if precondition is not None and set(precondition) != {"StringEquals"}:
            raise InvalidDocument(f"{name}: precondition knows StringEquals only.")
        inputs = dict(steps[0].get("inputs") or {})
        if unknown := sorted(set(inputs) - KNOWN_INPUTS):
            raise InvalidDocument(f"{name}: the local cloud has no input {unknown[0]}.")
        parameters = dict(content.get("parameters") or {})
        if unknown := sorted({key for one in parameters.values() for key in one} - KNOWN_OF_PARAMETERS):
            raise InvalidDocument(f"{name}: the local cloud knows no {unknown[0]} of a parameter.")
        return cls(
            name,
            version,
            parameters,
            str(steps[0].get("name", "")),
            inputs,
            list(precondition["StringEquals"]) if precondition else None,
        )

    def bind(self, given: Mapping[str, Sequence[str] | str]) -> BoundDocument:
        """Check the values and fill in the defaults. Raises InvalidParameters."""
        unknown = sorted(set(given) - set(self.parameters))
        if unknown:
            raise InvalidParameters(
                f"Document {self.name} does not support parameters: {', '.join(unknown)}."
            )
        values: dict[str, str | list[str]] = {}
        for name, specification in self.parameters.items():
            value = given.get(name, specification.get("default"))
            if value is None:
                raise InvalidParameters(f'Parameter "{name}" requires a value.')
            values[name] = _checked(name, specification, value)
        return BoundDocument(self, values)


@dataclass(frozen=True)
class BoundDocument:
    """A document with a value for each of its parameters."""

    document: CommandDocument
    values: Mapping[str, str | list[str]] = field(default_factory=dict)

    def environment(self, agent_version: str) -> dict[str, str]:
        """The variables for the ENV_VAR parameters that have a value; an older agent sets none."""
        if tuple(int(part) for part in agent_version.split(".")) < FIRST_AGENT_WITH_VARIABLES:
            return {}
        return {
            f"SSM_{name}": value if isinstance(value, str) else "\n".join(value)
            for name, value in self.values.items()
            if value and self._is_variable(name)
        }

    def applies(self) -> bool:
        """True when the step's precondition holds on Linux."""
        precondition = self.document.precondition or ()
        return len({"Linux" if side == "platformType" else str(side) for side in precondition}) <= 1

    def script(self) -> Script:
        """The step's script. Raises InvalidDocument for inputs that make no sense."""
        lines = self.document.inputs.get("runCommand", [])
        whole = REFERENCE.fullmatch(lines.strip()) if isinstance(lines, str) else None
        if whole and isinstance(self.values.get(whole[1]), list):
            lines = self.values[whole[1]]
        if isinstance(lines, str):
            lines = [lines]
        return Script("\n".join(self._fill(str(line), pasting_only=True) for line in lines), self._timeout())

    def _timeout(self) -> float:
        raw = self._fill(str(self.document.inputs.get("timeoutSeconds") or DEFAULT_TIMEOUT_SECONDS))
        if not raw.isdigit() or not 1 <= int(raw) <= LONGEST_TIMEOUT_SECONDS:
            raise InvalidDocument(f"timeoutSeconds is {raw!r}, not 1..{LONGEST_TIMEOUT_SECONDS}.")
        return float(raw)

    def _fill(self, text: str, pasting_only: bool = False) -> str:
        def value(match: re.Match[str]) -> str:
            found = self.values.get(match[1])
            if found is None or (pasting_only and self._is_variable(match[1])):
                return match[0]
            return found if isinstance(found, str) else "\n".join(found)

        return REFERENCE.sub(value, text)

    def _is_variable(self, name: str) -> bool:
        return self.document.parameters[name].get("interpolationType") == "ENV_VAR"


def _checked(name: str, specification: Mapping[str, Any], value: Sequence[str] | str) -> str | list[str]:
    items = [value] if isinstance(value, str) else [str(item) for item in value]
    for item in items:
        _check_item(name, specification, item)
    if specification.get("type") == "StringList":
        return items
    if len(items) != 1:
        raise InvalidParameters(f'Parameter "{name}" takes one value, not {len(items)}.')
    return items[0]


def _check_item(name: str, specification: Mapping[str, Any], item: str) -> None:
    pattern = specification.get("allowedPattern")
    if pattern is not None and not re.fullmatch(pattern, item):
        raise InvalidParameters(f'Parameter "{name}" does not match the regular expression: {pattern}')
    low, high = specification.get("minChars", 0), specification.get("maxChars", len(item))
    if not int(low) <= len(item) <= int(high):
        raise InvalidParameters(f'Parameter "{name}" has {len(item)} characters, outside {low}..{high}.')
