"""A column of loads as people write them: decimal points or commas, grouped thousands, empty for missing.

A column that can be read in two ways is refused, never guessed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from peaker_backtest.errors import shown
from peaker_backtest.points import CellError

_MISSING = {"", "null", "none", "\\n"}
_EXPONENT = r"(?:[eE][+-]?\d{1,4})?"
_STYLES = {
    "point": re.compile(rf"[+-]?(?:\d+|\d{{1,3}}(?:,\d{{3}})+|(?=\.\d))(?:\.\d*)?{_EXPONENT}", re.ASCII),
    "comma": re.compile(rf"[+-]?(?:\d+|\d{{1,3}}(?:\.\d{{3}})+|(?=,\d))(?:,\d*)?{_EXPONENT}", re.ASCII),
}
_THOUSAND_OR_NOT = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}", re.ASCII)
# Above this, sums over months lose their cents, and no load has it.
_HIGHEST = 1e15


@dataclass(frozen=True)
class ReadLoads:
    """Loads, None where missing, and how the column was read, in words (empty: as numbers usually are)."""

    values: list[float | None]
    how: str


def looks_like_number(cell: str) -> bool:
    """Whether the cell alone can be a load; a missing one cannot tell."""
    text = cell.strip()
    return any(style.fullmatch(text) for style in _STYLES.values())


def is_missing(cell: str | float | None) -> bool:
    return cell is None or (isinstance(cell, str) and cell.strip().lower() in _MISSING)


def read_loads(cells: Sequence[str | float | None], decimal: str | None, holds: str = "load") -> ReadLoads:
    """All cells of a column that holds loads, or what else is named. Raises CellError."""
    style = decimal or _style(cells)
    values: list[float | None] = []
    for index, cell in enumerate(cells):
        values.append(None if is_missing(cell) else _number(index, cell, style, holds))
    return ReadLoads(values, "decimal commas" if style == "comma" else "")


def _number(index: int, cell: str | float | None, style: str, holds: str) -> float:
    text = str(cell).strip()
    if isinstance(cell, str) and not _STYLES[style].fullmatch(text):
        if text.lower().lstrip("+-") in {"inf", "infinity", "nan"}:
            raise CellError(index, f"a {holds} cannot be {shown(text)}; leave it empty for a missing one")
        raise CellError(
            index, f"{shown(text)!r} is no number; write a decimal with a {style}, or leave it empty for a missing one"
        )  # fmt: skip
    try:
        number = float(_plain(text, style) if isinstance(cell, str) else cell or 0.0)
    except (OverflowError, ValueError):
        raise CellError(index, f"{shown(text)!r} is no number that a {holds} can be") from None
    if not math.isfinite(number):
        raise CellError(index, f"a {holds} cannot be {shown(text)}; leave it empty for a missing one")
    if number < 0:
        raise CellError(
            index, f"a {holds} cannot be {shown(text)}; write a number of 0 or more, or leave it empty"
        )
    if number > _HIGHEST:
        raise CellError(
            index, f"a {holds} of {shown(text)} is beyond reason (over {_HIGHEST:g}); check the column"
        )
    return number + 0.0


def _plain(text: str, style: str) -> str:
    if style == "comma":
        return text.replace(".", "").replace(",", ".")
    return text.replace(",", "")


def _style(cells: Sequence[str | float | None]) -> str:
    """point or comma, by the cells that can be only one of them. Raises CellError at one that contradicts."""
    seen: dict[str, int] = {}
    undecided = -1
    for index, cell in enumerate(cells):
        if not isinstance(cell, str) or ("," not in cell and "." not in cell):
            continue
        style = _style_of(cell.strip())
        if style == "either":
            undecided = index if undecided < 0 else undecided
        elif style:
            seen.setdefault(style, index)
    if len(seen) == 2:
        first, second = sorted(seen, key=lambda style: seen[style])
        raise CellError(
            seen[second],
            f"{shown(str(cells[seen[second]]))!r} has a decimal {second} where "
            f"{shown(str(cells[seen[first]]))!r} has a decimal {first}; write all alike",
        )
    if seen:
        return next(iter(seen))
    if undecided >= 0:
        text = shown(str(cells[undecided]).strip())
        raise CellError(
            undecided,
            f"{text!r} may be a decimal or a thousand; pass --decimal comma or --decimal point",
        )
    return "point"


def _style_of(text: str) -> str:
    """point, comma, either, or empty for what is no number in any style."""
    fits = [name for name, style in _STYLES.items() if style.fullmatch(text)]
    if len(fits) == 2 and not _THOUSAND_OR_NOT.fullmatch(text):
        fits = ["point" if "." in text else "comma"]
    if len(fits) == 2:
        # 1.234 is a decimal wherever nothing speaks for commas; 1,234 can be both.
        return "either" if "," in text else ""
    return fits[0] if fits else ""
