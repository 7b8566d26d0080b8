"""A verb asks before it acts; where nobody can be asked, it names the line that acts without a question."""

from __future__ import annotations

import shlex
import sys
from typing import Annotated

import typer

from peaker_cli.failures import ControlPlaneError

Yes = Annotated[bool, typer.Option("--yes", help="Act without a question.")]
Reason = Annotated[str | None, typer.Option(help="Why; the receipt keeps it.")]


def agree(question: str, yes: bool) -> None:
    """Returns where it may be done. Raises ControlPlaneError where nobody can be asked, or the answer is no."""
    if yes:
        return
    if not sys.stdin.isatty():
        line = shlex.join(["peaker", *sys.argv[1:], "--yes"])
        raise ControlPlaneError(f"nothing was done: there is no terminal to ask at. Type: {line}")
    if not typer.confirm(question, err=True):
        raise ControlPlaneError("nothing was done")
