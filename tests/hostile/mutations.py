"""Makes bad input out of good input. The same random generator makes the same case again.

A document is what JSON gives: objects, lists, texts, numbers. Objects may get a key twice only as text.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from random import Random
from typing import Any

from tests.hostile.payloads import NUMBERS, STRINGS

DEEP = 3000
_LONGEST_TEXT = 200_000


def hostile_value(random: Random) -> Any:
    """Anything that may stand where something else was expected."""
    kind = random.randrange(10)
    if kind < 4:
        return random.choice(STRINGS)
    if kind < 7:
        return random.choice(NUMBERS)
    if kind == 7:
        return random.choice((None, True, False, [], {}, [None], {"": None}, [[]], [{}]))
    if kind == 8:
        return {random.choice(STRINGS)[:50]: random.choice(STRINGS) for _ in range(random.randrange(4))}
    return [hostile_value(random) for _ in range(random.randrange(5))]


def hostile_document(example: Any, random: Random) -> Any:
    """The example with one to four things changed, or something else altogether."""
    if random.random() < 0.03:
        return hostile_value(random)
    changed = copy.deepcopy(example)
    for _ in range(random.choice((1, 1, 1, 2, 3, 4))):
        changed = _changed(changed, random)
    return changed


def _changed(document: Any, random: Random) -> Any:
    places = list(_places(document))
    if not places:
        return hostile_value(random)
    holder, key = random.choice(places)
    value = holder[key]
    match random.randrange(12):
        case 0 | 1 | 2 | 3:
            holder[key] = hostile_value(random)
        case 4:
            del holder[key]
        case 5 if isinstance(value, str):
            holder[key] = hostile_text(value, random)
        case 5 | 6 if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e30:
            holder[key] = random.choice((f"{value}", -value, value * 10, [value], {"N": value}, not value))
        case 6 if isinstance(value, list):
            holder[key] = value * random.choice((0, 2, 50)) + [hostile_value(random)]
        case 7 if isinstance(holder, dict):
            holder[random.choice(STRINGS)[:200]] = hostile_value(random)
        case 8 if isinstance(holder, dict):
            holder[random.choice((key.upper(), key + " ", key[:-1], random.choice(STRINGS)[:80]))] = (
                holder.pop(key)
            )
        case 9:
            holder[key] = [value]
        case 10:
            holder[key] = {"value": value}
        case _:
            holder[key] = None
    return document


def _places(document: Any) -> Any:
    """(holder, key) of everything in the document, at most some thousand."""
    waiting, found = [document], 0
    while waiting and found < 4000:
        here = waiting.pop()
        keys = list(here) if isinstance(here, dict) else range(len(here)) if isinstance(here, list) else ()
        for key in keys:
            found += 1
            yield here, key
            waiting.append(here[key])


def hostile_json(example: Any, random: Random) -> str:
    """The example as JSON text, changed as a document, as text, or both."""
    kind = random.randrange(20)
    if kind == 0:
        return _deep(random)
    document = hostile_document(example, random) if kind < 15 else copy.deepcopy(example)
    text = dumped(document, random.random() < 0.5)
    if kind == 19:
        return _with_a_key_twice(text, random)
    return hostile_text(text, random) if kind >= 13 else text


def dumped(document: Any, ascii_only: bool = True) -> str:
    """As Python writes JSON, NaN and all; what is too long for that as text."""
    try:
        return json.dumps(document, ensure_ascii=ascii_only)
    except ValueError:
        return str(document)[:_LONGEST_TEXT]


def _deep(random: Random) -> str:
    depth = random.choice((20, 500, DEEP, 100_000))
    opening, closing = random.choice((("[", "]"), ('{"a":', "}"), ('{"volumes":{"data":', "}}")))
    return opening * depth + random.choice(("1", "", "null")) + closing * random.choice((0, depth))


def _with_a_key_twice(text: str, random: Random) -> str:
    if not text.startswith('{"'):
        return text
    key = text[1 : text.index('"', 2) + 1]
    return "{" + f"{key}: {dumped(hostile_value(random))}, " + text[1:]


def hostile_text(example: str, random: Random) -> str:
    """The text with one to four edits: cut, doubled, with something put in or left out."""
    text = example
    for _ in range(random.choice((1, 1, 2, 4))):
        text = random.choice(_EDITS)(text, random)[:_LONGEST_TEXT]
    return text


def _cut(text: str, random: Random) -> str:
    return text[: random.randrange(len(text) + 1)]


def _put_in(text: str, random: Random) -> str:
    at = random.randrange(len(text) + 1)
    return text[:at] + random.choice(STRINGS) + text[at:]


def _left_out(text: str, random: Random) -> str:
    at = random.randrange(len(text) + 1)
    return text[:at] + text[at + random.randrange(1, 20) :]


def _doubled(text: str, random: Random) -> str:
    at = random.randrange(len(text) + 1)
    piece = text[at : at + random.randrange(1, 60)]
    return text[:at] + piece * random.choice((2, 3, 200)) + text[at:]


def _one_changed(text: str, random: Random) -> str:
    if not text:
        return text
    at = random.randrange(len(text))
    return (
        text[:at]
        + random.choice("\x00\x1b\n\r\t ,;:\"'\\/{}[]<>$%-+.0129eE²\u2028\x85\u202e")
        + text[at + 1 :]
    )


def _lines_changed(text: str, random: Random) -> str:
    lines = text.split("\n")
    at = random.randrange(len(lines))
    match random.randrange(4):
        case 0:
            lines.insert(at, random.choice(lines))
        case 1:
            lines.pop(at)
        case 2:
            random.shuffle(lines)
        case _:
            lines[at] = random.choice(STRINGS)
    return random.choice(("\n", "\n", "\r\n", "\r")).join(lines)


def _numbers_changed(text: str, random: Random) -> str:
    digits = [at for at, character in enumerate(text) if character.isdigit()]
    if not digits:
        return text
    at = random.choice(digits)
    new = random.choice(("-1", "0", "nan", "inf", "1e999", "9" * 30, "9" * 5000, "1.5", "²", "", "-", "0x1f"))
    return text[:at] + new + text[at + 1 :]


def _other_form(text: str, random: Random) -> str:
    return random.choice((text.upper, text.swapcase, text.title, text.strip, lambda: text[::-1]))()


_EDITS: tuple[Callable[[str, Random], str], ...] = (
    _cut, _put_in, _put_in, _left_out, _doubled, _one_changed, _one_changed, _lines_changed, _numbers_changed,
    _numbers_changed, _other_form,
)  # fmt: skip


def hostile_bytes(example: bytes, random: Random) -> bytes:
    """The bytes changed one by one, cut, doubled; or as text."""
    if random.random() < 0.2:
        text = hostile_text(example.decode("utf-8", "surrogateescape"), random)
        return text.encode(random.choice(("utf-8", "utf-8", "utf-16", "latin-1")), "replace")
    data = bytearray(example)
    for _ in range(random.choice((1, 1, 2, 8, 40))):
        at = random.randrange(len(data) + 1)
        match random.randrange(5):
            case 0:
                del data[at : at + random.choice((1, 4, 100, 10**6))]
            case 1:
                data[at:at] = random.randbytes(random.choice((1, 4, 64)))
            case 2:
                data[at : at + 4] = random.choice((b"\xff" * 4, b"\0" * 4, b"\x7f\xff\xff\xff", b"\xff\xfe"))
            case _ if at < len(data):
                data[at] = random.randrange(256)
            case _:
                pass
    return bytes(data)


def hostile_rows(example: list[dict[str, str | None]], random: Random) -> list[dict[str, str | None]]:
    """Rows of a table whose cells are text or nothing; columns may be missing, renamed or new."""
    rows = [dict(row) for row in example] * random.choice((1, 1, 1, 0, 3))
    for _ in range(random.choice((1, 1, 2, 4))):
        if not rows:
            break
        row = random.choice(rows)
        name = random.choice(list(row) or ["x"])
        match random.randrange(5):
            case 0:
                row.pop(name, None)
            case 1:
                row[name] = None
            case 2:
                row[random.choice(STRINGS)[:60]] = random.choice(STRINGS)
            case 3:
                row[name] = hostile_text(row.get(name) or "", random)
            case _:
                row[name] = random.choice(STRINGS)
    return rows


def hostile_words(example: list[str], random: Random) -> list[str]:
    """The arguments of a command: changed, doubled, in another order. A process takes none with a NUL."""
    words = list(example)
    for _ in range(random.choice((1, 1, 2, 3))):
        at = random.randrange(len(words) + 1)
        match random.randrange(5):
            case 0:
                words.insert(at, random.choice(STRINGS))
            case 1 if at < len(words):
                words.pop(at)
            case 2 if at < len(words):
                words.insert(at, words[at])
            case _ if at < len(words):
                words[at] = random.choice((random.choice(STRINGS), hostile_text(words[at], random)))
            case _:
                random.shuffle(words)
    return [word.replace("\x00", "").encode("utf-8", "replace").decode() for word in words]
