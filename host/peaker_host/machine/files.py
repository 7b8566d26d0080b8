"""Files that are never seen half written."""

from __future__ import annotations

import json
import os
import tempfile
from typing import IO, Any, Dict, Optional

from peaker_host.machine.errors import UnreadableFile, understood

_REMEDY = "move it away and run the command again"


def write_atomically(path: str, text: str, mode: int = 0o644) -> None:
    """Replace a file's content in one step, durable when the call returns."""
    directory = os.path.dirname(path) or "."
    os.makedirs(directory, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(prefix=".peaker-", dir=directory)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
            os.fchmod(file.fileno(), mode)
        os.replace(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise


def write_json(path: str, content: Dict[str, Any]) -> None:
    write_atomically(path, json.dumps(content, separators=(",", ":")) + "\n")


def open_lock_file(path: str) -> IO[str]:
    """Opens a lock's file for root alone: another user who could open it could keep every command from running."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    os.fchmod(descriptor, 0o600)
    return os.fdopen(descriptor, "r+", encoding="utf-8")


def boot_id() -> str:
    """The id of this boot of the host; empty where the kernel tells none."""
    return (read_text("/proc/sys/kernel/random/boot_id") or "").strip()


def read_json(path: str) -> Optional[Dict[str, Any]]:
    """A JSON object from a file that `write_json` wrote; None when there is none. Raises UnreadableFile."""
    try:
        with open(path, encoding="utf-8") as file, understood(UnreadableFile, path, _REMEDY):
            content = json.load(file)
    except FileNotFoundError:
        return None
    if not isinstance(content, dict):
        raise UnreadableFile(f"{path} cannot be read: it holds no JSON object; {_REMEDY}")
    return content


def read_text(path: str) -> Optional[str]:
    """A file's text; None when there is none."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return None
