"""A place on disk for cases that are files, and programs that answer with the case."""

from __future__ import annotations

import atexit
import functools
import json
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from peaker_host.database.mysql_client import MysqlClient
from peaker_host.machine.settings import Completed, Processes, Settings


@functools.cache
def folder() -> Path:
    """One for the process, gone at its end."""
    place = Path(tempfile.mkdtemp(prefix="peaker-hostile-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return place


def file_with(case: str | bytes, name: str = "case") -> str:
    """The case as a file, whatever characters it has."""
    path = folder() / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(case if isinstance(case, bytes) else case.encode("utf-8", "surrogatepass"))
    return str(path)


def host_settings(**changes: Any) -> Settings:
    """A host whose files are in the folder."""
    place = folder()
    own = {
        "state_dir": place / "state",
        "datadir": place / "data",
        "config_dir": place / "conf.d",
        "health_policy_file": place / "health.json",
        "health_defaults_file": place / "health.cnf",
        "admin_defaults_file": place / "admin.cnf",
        "replication_credentials_file": place / "replication.json",
    }
    for name in ("state", "data", "conf.d"):
        (place / name).mkdir(exist_ok=True)
    return Settings(**{**{name: str(path) for name, path in own.items()}, **changes})


class Saying(Processes):
    """Every program says the case; it is kept what they were told."""

    def __init__(self, say: Callable[[str], str]) -> None:
        self._say = say
        self.told: list[str] = []

    def run(self, argv: Sequence[str], **given: Any) -> Completed:
        text = given.get("input_text") or ""
        self.told.append(text)
        return Completed(0, self._say(text), "")


def saying(case: str) -> Saying:
    """The same to every question; a program's output has no lone surrogates."""
    return Saying(lambda _question: case.encode("utf-8", "replace").decode())


def server(case: Any, settings: Settings | None = None) -> MysqlClient:
    """A database that answers every question out of `{"json": {...}, "rows": [...]}`, in the client's batch form."""
    return MysqlClient(answering(case), "mysql", "/defaults")


def answering(case: Any) -> Saying:
    """The programs behind `server`."""
    return Saying(lambda question: batch(case, question))


def batch(case: Any, question: str) -> str:
    """What `mysql --batch` would print for this case: the object's row, the table's rows, or both."""
    whole = case if isinstance(case, dict) else {}
    parts = []
    if "JSON_OBJECT(" in question:
        parts.append("result\n" + _cell(_json(whole.get("json", case))))
    if "JSON_OBJECT(" not in question or ";\nSHOW" in question:
        parts.append(_table(whole.get("rows", case)))
    return "\n".join(part for part in parts if part)


def _table(rows: Any) -> str:
    if not isinstance(rows, list) or not rows or not isinstance(rows[0], dict):
        return "" if rows in (None, [], {}) else str(rows)[:100_000]
    names = [str(name) for name in rows[0]]
    lines = ["\t".join(map(_cell, names))]
    for row in rows:
        values = [row.get(name) for name in rows[0]] if isinstance(row, dict) else [row]
        lines.append("\t".join("NULL" if value is None else _cell(_json_or_text(value)) for value in values))
    return "\n".join(lines)


def _json_or_text(value: Any) -> str:
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    try:
        return json.dumps(value)
    except ValueError:
        return "1" + "0" * 6000


def _cell(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t").replace("\x00", "\\0")
    return escaped.encode("utf-8", "replace").decode()
