"""The refusal of a backtest, and text of others made safe to show."""

from __future__ import annotations

import unicodedata

_LONGEST_SHOWN = 80
# Control, format (bidirectional overrides), surrogate and private characters, separators; the plain blank is shown.
_UNSHOWN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"}


class BadInput(Exception):
    """The input or an option cannot be used; the message names the line or the option, the value and the remedy."""


def shown(text: str) -> str:
    """Returns foreign text, safe on a terminal: nothing that moves a cursor or changes a colour."""
    cut = text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…"
    return "".join(
        _escaped(each) if each != " " and unicodedata.category(each) in _UNSHOWN else each for each in cut
    )


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
