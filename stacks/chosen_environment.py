"""This module chooses the environment before it imports the CDK, which takes seconds."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

DEFAULT_ENVIRONMENT = "dev"
# Where the CDK command leaves its context (`-c`, cdk.json, cdk.context.json), and what was too long for a variable.
CONTEXT = "CDK_CONTEXT_JSON"
CONTEXT_OVERFLOW = "CONTEXT_OVERFLOW_LOCATION"


def environment_of_command(variables: Mapping[str, str] = os.environ) -> str:
    """`-c env=NAME` of the CDK command that runs this process, else the shell's."""
    context: dict[str, Any] = json.loads(variables.get(CONTEXT) or "{}")
    if overflow := variables.get(CONTEXT_OVERFLOW):
        context |= json.loads(Path(overflow).read_text(encoding="utf-8"))
    return str(context.get("env") or environment_of_shell(variables))


def environment_of_shell(variables: Mapping[str, str] = os.environ) -> str:
    """PEAKER_ENV; without it dev, and a line on stderr says so."""
    named = variables.get("PEAKER_ENV")
    if not named:
        print(
            f"environment {DEFAULT_ENVIRONMENT}, because none is named (-c env=NAME, or PEAKER_ENV)",
            file=sys.stderr,
        )
    return named or DEFAULT_ENVIRONMENT
