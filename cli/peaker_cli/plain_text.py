"""Text of others, safe on a terminal: nothing in it moves a cursor, or changes a colour or the order of letters."""

from __future__ import annotations

import unicodedata

# Control, format (bidirectional overrides), surrogate and private characters, line and paragraph separators.
_UNSHOWN = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
_LAYOUT = frozenset("\n\t")


def plain(text: str) -> str:
    """The text with what a terminal would obey written out (`\\x1b`); line breaks and tabs stay."""
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(map(_shown, text))


def _shown(character: str) -> str:
    if character in _LAYOUT or unicodedata.category(character) not in _UNSHOWN:
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
