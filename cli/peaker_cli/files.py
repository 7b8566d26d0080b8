"""Files that a command writes: whole or not at all, at a place that is looked at before anything else is done."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from peaker_cli.failures import ControlPlaneError, plain


def writable(path: Path | None) -> Path | None:
    """Raises BadParameter where no file can be written in place."""
    return _checked(path, path if path and path.exists() else None)


def replaceable(path: Path | None) -> Path | None:
    """Raises BadParameter where `write_whole` cannot put a file."""
    if str(path) == "-":
        raise typer.BadParameter("give a file: this is not written to standard output")
    return _checked(path, None)


def replaceable_or_output(path: Path | None) -> Path | None:
    """Raises BadParameter where `write_whole` cannot put a file; - is standard output."""
    return path if str(path) == "-" else replaceable(path)


def _checked(path: Path | None, written: Path | None) -> Path | None:
    try:
        wrong = path and (path.is_dir() or not os.access(written or path.parent, os.W_OK))
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"{str(path)!r}: {error}") from error
    if wrong:
        raise typer.BadParameter(f"no file can be written at {path}: give another path")
    return path


HtmlFile = Annotated[
    Path | None, typer.Option("--html", callback=replaceable, help="Write a page that needs nothing else.")
]


def write_page(path: Path, page: str) -> None:
    """Raises ControlPlaneError where it cannot be written."""
    try:
        write_whole(path, plain(page))
    except OSError as error:
        raise ControlPlaneError(f"{path}: {error.strerror}") from error


def write_whole(path: Path, text: str) -> None:
    """Puts the text in place of the file, which keeps its mode, also where the command is killed. Raises OSError."""
    number, unfinished = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with open(number, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(unfinished, path.stat().st_mode & 0o777 if path.exists() else 0o644)
        os.replace(unfinished, path)
    except BaseException:
        os.unlink(unfinished)
        raise
