"""The one line of JSON that a command ends with, short enough to arrive whole.

Systems Manager gives the first 24,000 characters of a command's output (GetCommandInvocation,
StandardOutputContent): a longer line would lose its end and be no result at all.
"""

from __future__ import annotations

import json
from typing import Any, Dict

MAX_CHARACTERS = 23_000
_TEXT_KEPT = 500
_NEVER_SHORTENED = frozenset({"version", "command", "ok", "error"})


def result_line(result: Dict[str, Any], limit: int = MAX_CHARACTERS) -> str:
    """The result as one line of at most `limit` characters. The longest values are shortened first, and `shortened`
    names them: of a list the first and the last entries stay, of a text its beginning, an object is left out."""
    line = _line(result)
    kept, shortened = dict(result), []
    while len(line) > limit:
        names = [name for name in kept if name not in _NEVER_SHORTENED and name != "shortened"]
        name = max(names, key=lambda one: len(_line(kept[one])))
        value = _shorter(kept[name])
        if len(_line(value)) >= len(_line(kept[name])):
            value = None
        kept[name] = value
        if name not in shortened:
            shortened.append(name)
        kept["shortened"] = sorted(shortened)
        line = _line(kept)
    return line


def _shorter(value: Any) -> Any:
    if isinstance(value, list) and len(value) > 1:
        kept = len(value) // 2
        return value[: kept - kept // 2] + value[len(value) - kept // 2 :]
    if isinstance(value, str) and len(value) > _TEXT_KEPT + 40:
        return f"{value[:_TEXT_KEPT]}... ({len(value)} characters)"
    return None


def _line(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
