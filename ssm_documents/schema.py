"""The part of the SSM document schema 2.2 that Peaker uses, as a closed model.

Nothing else checks a Command document before AWS does. The model refuses what AWS would refuse, and also what
AWS would accept and what would hurt: parameters pasted into the shell text, patterns that
Java and Go read differently (the API checks with one, the agent with the other), a variable that may not be set.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

MAX_DOCUMENT_BYTES = 64 * 1024
MAX_EXECUTION_SECONDS = 172_800
_MAX_REPETITION = 1000
_FORBIDDEN_IN_PATTERNS = {
    r"\(\?(?!:)": "groups that begin with (? other than (?:",
    r"\\[1-9k]": "back references",
    r"[*+?}]\+": "possessive quantifiers",
    r"\\[ZGRXhHvVN]": "escapes that only one of the two engines knows",
    r"&&": "intersections of character classes",
}
_VARIABLE = re.compile(r"\$\{?SSM_([A-Za-z0-9]+)\}?")


class InvalidDocument(ValueError):
    """A document that AWS would refuse or that is unsafe. The message names the file and the field."""


def _portable_pattern(pattern: str) -> str:
    if not (pattern.startswith("^") and pattern.endswith("$")):
        raise ValueError("must be anchored: ^...$")
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"is no regular expression: {error}") from error
    without_classes = re.sub(r"\[(?:\\.|[^\]\\])*\]", "[]", pattern)
    for forbidden, what in _FORBIDDEN_IN_PATTERNS.items():
        subject = pattern if forbidden == "&&" else without_classes
        if re.search(forbidden, subject):
            raise ValueError(f"Java's and Go's regular expressions differ in {what}")
    for low, high in re.findall(r"\{(\d+)(?:,(\d*))?\}", without_classes):
        if int(high or low) > _MAX_REPETITION:
            raise ValueError(f"Go refuses repetitions above {_MAX_REPETITION}")
    return pattern


def _seconds_text(value: str) -> str:
    if not re.fullmatch(r"[1-9]\d*", value) or int(value) > MAX_EXECUTION_SECONDS:
        raise ValueError(f"must be text of a whole number from 1 to {MAX_EXECUTION_SECONDS}")
    return value


def _shell_without_templates(line: str) -> str:
    if "{{" in line or "}}" in line:
        raise ValueError("must not paste parameters with {{ }}: use the environment variable $SSM_<Name>")
    return line


ParameterName = Annotated[str, Field(pattern=r"^[A-Z][A-Za-z0-9]{0,49}$")]


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Parameter(_Closed):
    """A parameter: text that reaches the shell as an environment variable, and a pattern it must match."""

    type: Literal["String"]
    description: Annotated[str, Field(min_length=1, max_length=2048)]
    interpolationType: Literal["ENV_VAR"]
    allowedPattern: Annotated[str, AfterValidator(_portable_pattern)]
    default: str | None = None
    minChars: Annotated[int, Field(ge=0)] | None = None
    maxChars: Annotated[int, Field(ge=1)] | None = None

    @property
    def may_be_empty(self) -> bool:
        """The agent may then leave the variable unset, which ends a script under `set -u`."""
        return re.match(self.allowedPattern, "") is not None

    @model_validator(mode="after")
    def _default_matches(self) -> Parameter:
        if self.default is not None and not re.match(self.allowedPattern, self.default):
            raise ValueError("default does not match allowedPattern")
        return self


class Precondition(_Closed):
    """Where the step runs."""

    StringEquals: tuple[Literal["platformType"], Literal["Linux"]]

    @model_validator(mode="before")
    @classmethod
    def _pair(cls, value: Any) -> Any:
        if isinstance(value, dict) and isinstance(value.get("StringEquals"), list):
            return {**value, "StringEquals": tuple(value["StringEquals"])}
        return value


class ShellInputs(_Closed):
    """What a shell step runs and how long it may take."""

    timeoutSeconds: Annotated[str, AfterValidator(_seconds_text)]
    runCommand: Annotated[list[Annotated[str, AfterValidator(_shell_without_templates)]], Field(min_length=1)]
    workingDirectory: str | None = None


class Step(_Closed):
    """One step. Only shell steps are used."""

    action: Literal["aws:runShellScript"]
    name: Annotated[str, Field(pattern=r"^[a-zA-Z0-9_]{3,128}$")]
    precondition: Precondition
    inputs: ShellInputs


class Document(_Closed):
    """A Command document."""

    schemaVersion: Literal["2.2"]
    description: Annotated[str, Field(min_length=1)]
    parameters: Annotated[dict[ParameterName, Parameter], Field(default_factory=dict)]
    mainSteps: Annotated[list[Step], Field(min_length=1)]

    @model_validator(mode="after")
    def _variables_are_declared_and_used(self) -> Document:
        text = "\n".join(line for step in self.mainSteps for line in step.inputs.runCommand)
        used = {match.group(1) for match in _VARIABLE.finditer(text)}
        unknown, unused = sorted(used - set(self.parameters)), sorted(set(self.parameters) - used)
        if unknown:
            raise ValueError(f"the shell uses $SSM_{unknown[0]}, but there is no parameter {unknown[0]}")
        if unused:
            raise ValueError(f"parameter {unused[0]} is never used as $SSM_{unused[0]}")
        for name, parameter in self.parameters.items():
            if parameter.may_be_empty and re.search(rf"\$(?:SSM_{name}\b|\{{SSM_{name}(?!-\}}))", text):
                raise ValueError(f"{name} may be empty, and its variable not set: write ${{SSM_{name}-}}")
        names = [step.name for step in self.mainSteps]
        if len(set(names)) != len(names):
            raise ValueError("two steps have the same name")
        return self


def load_document(path: Path, values: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Read and check one document; its name is the file's name without the ending.

    Each of `values` is written where the file has `{% name %}`. Raises InvalidDocument with the file, the field and
    the reason.
    """
    try:
        text = path.read_text(encoding="utf-8")
        for name, value in (values or {}).items():
            text = text.replace(f"{{% {name} %}}", value)
        content = yaml.safe_load(text)
    except (ValueError, yaml.YAMLError) as error:
        raise InvalidDocument(f"{path}: {error}") from error
    check_document(content, str(path))
    result: dict[str, Any] = content
    return result


def check_document(content: Any, place: str = "document") -> Document:
    """Check a document's content. Raises InvalidDocument with every wrong field."""
    size = len(json.dumps(content, default=str).encode())
    if size > MAX_DOCUMENT_BYTES:
        raise InvalidDocument(f"{place}: {size} bytes as JSON, AWS allows {MAX_DOCUMENT_BYTES}")
    try:
        return Document.model_validate(content)
    except ValidationError as error:
        reasons = "; ".join(
            f"{'.'.join(str(part) for part in entry['loc']) or 'document'}: {entry['msg']}"
            for entry in error.errors()
        )
        raise InvalidDocument(f"{place}: {reasons}") from error


def document_paths() -> list[Path]:
    """All documents, sorted by name."""
    return sorted(Path(__file__).parent.glob("*.yaml"))
