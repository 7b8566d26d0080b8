"""Server variables that a command changes for a while, and a note of their former values.

The note outlasts the command: the next one after a killed one restores them. A value that somebody changed meanwhile
is left alone.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Tuple

from peaker_host.database.mysql_client import MysqlClient, sql_text
from peaker_host.machine.errors import UnreadableFile
from peaker_host.machine.files import read_json, write_json
from peaker_host.machine.understanding import understood


@dataclass(frozen=True)
class TemporaryVariables:
    """The variables `names` may be changed, in this order; they are restored in the other."""

    path: str
    names: Tuple[str, ...]

    @property
    def noted(self) -> bool:
        return os.path.exists(self.path)

    def note(self, wanted: Mapping[str, Any], now: Mapping[str, Any]) -> List[str]:
        """Writes the note of the values `now`, and returns the statements that set the `wanted` ones."""
        changed = {name: wanted[name] for name in self.names if str(now[name]) != str(wanted[name])}
        if changed:
            write_json(self.path, {"set": changed, "was": {name: now[name] for name in changed}})
        return _assignments(changed)

    def restore(self, client: MysqlClient) -> bool:
        """Restores the noted values; says whether there were any. Raises DatabaseUnreachable, UnreadableFile."""
        note = read_json(self.path)
        if note is None:
            return False
        changed, was = self._read(note)
        now = client.json({name: f"@@GLOBAL.{name}" for name in changed})
        ours = {
            name: was[name]
            for name in reversed(self.names)
            if name in changed and str(now[name]) == str(changed[name])
        }
        if ours:
            client.execute(*_assignments(ours))
        os.unlink(self.path)
        return True

    def _read(self, note: Any) -> Tuple[Dict[str, Any], Dict[str, Any]]:
        """Reads the values that were set and those before, of `names` alone, which go into statements."""
        named = " and ".join(self.names)
        with understood(UnreadableFile, self.path, f"put {named} back yourself and delete it"):
            changed, was = note["set"], note["was"]
            if not set(changed) <= set(was) or not set(was) <= set(self.names):
                raise ValueError(f"it names other variables than {named}")
            if not all(type(value) in (int, str) for value in (*changed.values(), *was.values())):
                raise ValueError("a value in it is neither a number nor a text")
            return dict(changed), dict(was)


def _assignments(values: Mapping[str, Any]) -> List[str]:
    return [
        f"SET GLOBAL {name} = {value if isinstance(value, int) else sql_text(str(value))}"
        for name, value in values.items()
    ]
