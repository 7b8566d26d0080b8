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
# Systems Manager guide, troubleshooting parameters: an agent before this one knows no interpolationType.
FIRST_AGENT_WITH_VARIABLES = (3, 3, 2746, 0)

AWS_RUN_SHELL_SCRIPT: Mapping[str, Any] = {
    "schemaVersion": "2.2",
    "description": "Run a shell script or specify the commands to run.",
    "parameters": {
        "commands": {"type": "StringList", "minItems": 1},
        "workingDirectory": {"type": "String", "default": "", "maxChars": 4096},
        "executionTimeout": {"type": "String", "default": "3600", "allowedPattern": "[0-9]{1,6}"},
    },
    "mainSteps": [
        {
            "action": SHELL,
            "name": "runShellScript",
            "inputs": {
                "runCommand": "{{ commands }}",
                "workingDirectory": "{{ workingDirectory }}",
                "timeoutSeconds": "{{ executionTimeout }}",
            },
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
    working_directory: str
    timeout_seconds: float

    def argv(self) -> list[str]:
        """The interpreter of the first line (or sh), in the working directory."""
        first = self.text.split("\n", 1)[0]
        interpreter = first[2:].split() if first.startswith("#!") else ["/bin/sh"]
        argv = [*interpreter, "-c", self.text]
        if self.working_directory:
            argv = ["/bin/sh", "-c", 'cd -- "$0" && exec "$@"', self.working_directory, *argv]
        return argv


@dataclass(frozen=True)
class Step:
    """One of a document's mainSteps."""

    name: str
    action: str
    inputs: Mapping[str, Any]
    precondition: Sequence[str] | None = None
    exits_on_failure: bool = False
    exits_on_success: bool = False
    is_finally: bool = False

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> Step:
        inputs = dict(raw.get("inputs") or {})
        merged = {
            **inputs,
            **{key: raw[key] for key in ("onFailure", "onSuccess", "finallyStep") if key in raw},
        }
        precondition = raw.get("precondition")
        if precondition is not None and set(precondition) != {"StringEquals"}:
            raise InvalidDocument(f"Step {raw.get('name')}: precondition knows StringEquals only.")
        return cls(
            name=str(raw.get("name", "")),
            action=str(raw.get("action", "")),
            inputs=inputs,
            precondition=list(precondition["StringEquals"]) if precondition else None,
            exits_on_failure=str(merged.get("onFailure", "")) in ("exit", "successAndExit"),
            exits_on_success=str(merged.get("onSuccess", "")) == "exit",
            is_finally=str(merged.get("finallyStep", "")).lower() == "true",
        )


@dataclass(frozen=True)
class CommandDocument:
    """A Command document: its parameters as written, and its steps in order."""

    name: str
    version: str
    parameters: Mapping[str, Mapping[str, Any]]
    steps: Sequence[Step]

    @classmethod
    def parse(cls, name: str, version: str, content: Mapping[str, Any]) -> CommandDocument:
        """Read a document's content. Raises InvalidDocument when this is not one that can be run."""
        if str(content.get("schemaVersion")) != "2.2":
            raise InvalidDocument(f"{name}: the local cloud runs documents of schema 2.2.")
        steps = [Step.parse(raw) for raw in content.get("mainSteps") or []]
        if not steps:
            raise InvalidDocument(f"{name}: has no mainSteps.")
        for step in steps:
            if step.action != SHELL and step.precondition is None:
                raise InvalidDocument(f"{name}: the local cloud runs {SHELL}, not {step.action}.")
        return cls(name, version, dict(content.get("parameters") or {}), steps)

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

    def applies(self, step: Step) -> bool:
        """True when the step's precondition holds on Linux."""
        if step.precondition is None:
            return True
        sides = ["Linux" if side == "platformType" else self._fill(str(side)) for side in step.precondition]
        return len(set(sides)) == 1

    def script(self, step: Step) -> Script:
        """The step's script. Raises InvalidDocument for inputs that make no sense."""
        lines = step.inputs.get("runCommand", [])
        whole = REFERENCE.fullmatch(lines.strip()) if isinstance(lines, str) else None
        if whole and isinstance(self.values.get(whole[1]), list):
            lines = self.values[whole[1]]
        if isinstance(lines, str):
            lines = [lines]
        text = "\n".join(self._fill(str(line), pasting_only=True) for line in lines)
        directory = self._fill(str(step.inputs.get("workingDirectory") or ""))
        return Script(text, directory, self._timeout(step))

    def _timeout(self, step: Step) -> float:
        raw = self._fill(str(step.inputs.get("timeoutSeconds") or DEFAULT_TIMEOUT_SECONDS))
        if not raw.isdigit() or not 1 <= int(raw) <= LONGEST_TIMEOUT_SECONDS:
            raise InvalidDocument(
                f"Step {step.name}: timeoutSeconds is {raw!r}, not 1..{LONGEST_TIMEOUT_SECONDS}."
            )
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
        _check_bounds(name, "items", len(items), specification.get("minItems"), specification.get("maxItems"))
        return items
    if len(items) != 1:
        raise InvalidParameters(f'Parameter "{name}" takes one value, not {len(items)}.')
    return items[0]


def _check_item(name: str, specification: Mapping[str, Any], item: str) -> None:
    allowed = specification.get("allowedValues")
    if allowed is not None and item not in [str(value) for value in allowed]:
        raise InvalidParameters(f'Parameter "{name}" has value "{item}", not one of {list(allowed)}.')
    pattern = specification.get("allowedPattern")
    if pattern is not None and not re.fullmatch(pattern, item):
        raise InvalidParameters(f'Parameter "{name}" does not match the regular expression: {pattern}')
    _check_bounds(name, "characters", len(item), specification.get("minChars"), specification.get("maxChars"))


def _check_bounds(name: str, what: str, count: int, low: Any, high: Any) -> None:
    if (low is not None and count < int(low)) or (high is not None and count > int(high)):
        raise InvalidParameters(
            f'Parameter "{name}" has {count} {what}, outside {low or 0}..{high or "any"}.'
        )
