"""The page of a command: where it is to be written is looked at before anything is read from AWS."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from peaker_cli.failures import ControlPlaneError, plain
from peaker_cli.whole_file import write_whole


def _writable(path: Path | None) -> Path | None:
    if path is not None and (path.is_dir() or not os.access(path.parent, os.W_OK)):
        raise typer.BadParameter(f"no file can be written at {path}")
    return path


HtmlFile = Annotated[
    Path | None, typer.Option("--html", callback=_writable, help="Write a page that needs nothing else.")
]


def write_page(path: Path, page: str) -> None:
    """Writes the page whole or not at all. Raises ControlPlaneError where it cannot be."""
    try:
        write_whole(path, plain(page))
    except OSError as error:
        raise ControlPlaneError(f"{path}: {error.strerror}") from error
