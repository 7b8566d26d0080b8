"""The figures of a bench in build/bench/<bench>.json: `{figure: {value, must, holds}}`.

Every part gives a few of them: `{"matrix cells passed": exactly(4355, 4355)}`.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).resolve().parents[1] / "build" / "bench"

Figure = dict[str, Any]
Figures = dict[str, Figure]


def figure_of(value: float, must: object, holds: bool, **more: object) -> Figure:
    return {"value": round(value, 4), "must": must, "holds": bool(holds), **more}


def exactly(value: int, must: int) -> Figure:
    return figure_of(value, must, value == must)


def at_most(value: float, must: float, **more: object) -> Figure:
    return figure_of(value, f"<= {must:.4g}", value <= must, **more)


def at_least(value: float, must: float, **more: object) -> Figure:
    return figure_of(value, f">= {must:.4g}", value >= must, **more)


def stated(value: float) -> Figure:
    return figure_of(value, "stated", True)


def written(figures: Figures, result: Path, part: str | None = None) -> Figures:
    """Lay a part's figures over what the file has, in place of the part's earlier ones; returns all."""
    kept: Figures = json.loads(result.read_text(encoding="utf-8")) if result.is_file() else {}
    if part is not None:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        kept = {name: one for name, one in kept.items() if one.get("part", part) != part}
        figures = {name: {**one, "part": part, "measured": now} for name, one in figures.items()}
    after = {**kept, **figures}
    result.parent.mkdir(parents=True, exist_ok=True)
    result.write_text(json.dumps(after, indent=1) + "\n", encoding="utf-8")
    return after


def verdict(figures: Figures, console: Console | None = None) -> int:
    """Print the table; returns the exit status, 1 when a figure does not hold."""
    table = Table("figure", "value", "must", "holds")
    for name, figure in figures.items():
        table.add_row(name, str(figure["value"]), str(figure["must"]), "yes" if figure["holds"] else "NO")
    (console or Console(width=130, highlight=False)).print(table)
    return 0 if all(figure["holds"] for figure in figures.values()) else 1
