"""Writes a file whole or not at all, also where the command is killed meanwhile."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Puts the text in place of the file, which keeps its mode. Raises OSError."""
    number, unfinished = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with open(number, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(unfinished, path.stat().st_mode & 0o777 if path.exists() else 0o644)
        os.replace(unfinished, path)
    except BaseException:
        os.unlink(unfinished)
        raise
