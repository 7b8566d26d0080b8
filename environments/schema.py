"""Reads environment files: `environments/<name>.yaml`, checked before anything is synthesized or deployed.

A bad file is refused as a whole, with one line per fault: file and line, path of the field (clusters and volumes by
name), what is wrong and the remedy. The settings are in
`settings.py` and peaker_contract/, their reference in docs/settings.md.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from environments.advice import advice
from environments.aws_names import nearest
from environments.faults import EnvironmentFileError, told
from environments.settings import Cluster, Environment
from environments.yaml_text import Document, read_document

__all__ = [
    "ENVIRONMENTS_DIRECTORY",
    "Cluster",
    "Environment",
    "EnvironmentFileError",
    "available_environments",
    "load_environment",
]

ENVIRONMENTS_DIRECTORY = Path(__file__).resolve().parent


def available_environments(directory: Path = ENVIRONMENTS_DIRECTORY) -> list[str]:
    return sorted(path.stem for path in directory.glob("*.yaml"))


def _on_stderr(line: str) -> None:
    print(line, file=sys.stderr)


def load_environment(
    name: str,
    directory: Path = ENVIRONMENTS_DIRECTORY,
    *,
    warn: Callable[[str], None] = _on_stderr,
    now: datetime | None = None,
) -> Environment:
    """Read `<directory>/<name>.yaml`; what deserves a second look goes to `warn`, a line each.

    `now` (default: the clock) is what calendar events are held against. Raises EnvironmentFileError when there is no
    such file, when it is no YAML, when a setting is wrong, or when the file describes an environment of another name.
    """
    known = available_environments(directory)
    source = f"{directory.name}/{name}.yaml"
    if name not in known:
        shown = ", ".join(known) or "none"
        raise EnvironmentFileError(
            f"{source}: does not exist; known environments: {shown}{nearest(name, known)}"
        )
    document = read_document(directory / f"{name}.yaml", source)
    environment = _checked(document, source)
    if environment.environment != name:
        raise EnvironmentFileError(
            f"{source}:{document.lines[('environment',)]}: environment: must be {name}, the name of the file, got "
            f"{environment.environment}"
        )
    for one in advice(environment, now or datetime.now(UTC)):
        warn(f"warning: {told(source, one, document.value, document.lines)}")
    return environment


def _checked(document: Document, source: str) -> Environment:
    """Raises EnvironmentFileError with the faults of the text and of the settings together."""
    try:
        environment = Environment.parse(document.value, source, document.lines)
    except EnvironmentFileError as error:
        found = [*document.faults, *error.faults]
        raise EnvironmentFileError.about(source, found, document.value, document.lines) from None
    if document.faults:
        raise EnvironmentFileError.about(source, document.faults, document.value, document.lines)
    return environment
