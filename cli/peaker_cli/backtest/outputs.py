"""Outputs of a report are checked before it is made."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from peaker_backtest.errors import BadInput, shown
from rich.console import Console
from rich.text import Text

from peaker_cli.failures import ControlPlaneError


def check_outputs(source: Path | None, json_path: Path | None, html_path: Path | None) -> None:
    """Checks that the report can be written before it is made. Raises BadInput."""
    for option, path in (("--json", json_path), ("--html", html_path)):
        if path is None or (option == "--json" and str(path) == "-"):
            continue
        name = f"{option} is {shown(str(path))}"
        try:
            if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
                raise BadInput(f"{name}, where no file can be written; give another path")
            if source is not None and path.exists() and source.exists() and path.samefile(source):
                raise BadInput(f"{name}, which is the input; give another path")
        except (OSError, ValueError) as error:
            raise BadInput(f"{name}: {shown(str(error))}; give another path") from None
    if json_path is not None and html_path is not None and json_path.absolute() == html_path.absolute():
        raise BadInput("--json and --html are the same file; give two paths")


def write(messages: Console, what: str, path: Path, text: str) -> None:
    """Writes the text; `-` for JSON is standard output. Raises ControlPlaneError where it cannot be."""
    if str(path) == "-" and what == "JSON":
        sys.stdout.write(text)
        return
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ControlPlaneError(f"{what} could not be written: {error}") from error
    messages.print(Text(f"{what}: {shown(str(path))}"), soft_wrap=True)
