"""The figures of `make faults` in build/bench/faults.json: `{figure: {value, must, holds}}`.

Every part gives a few of them: `{"matrix cells passed": exactly(4355, 4355)}`. A part that is measured again replaces
its own and leaves those of others.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from rich.table import Table

RESULT = Path(__file__).resolve().parents[2] / "build" / "bench" / "faults.json"

Figure = dict[str, object]
Figures = Mapping[str, Figure]
GivenT = TypeVar("GivenT")
ResultT = TypeVar("ResultT")


def each(work: Callable[[GivenT], ResultT], chosen: Sequence[GivenT], noun: str) -> Iterator[ResultT]:
    """The results in the order in which they come, from a process for each processor; prints how far it is."""
    began = told = time.monotonic()
    with multiprocessing.get_context("fork").Pool(os.cpu_count()) as pool:
        for done, result in enumerate(pool.imap_unordered(work, chosen, chunksize=8), start=1):
            yield result
            if time.monotonic() - told > 2:
                told = time.monotonic()
                print(f"\r{done} of {len(chosen)} {noun}, {told - began:.0f} s", end="", flush=True)
    print(f"\r{len(chosen)} {noun} in {time.monotonic() - began:.0f} s")


def exactly(value: int, must: int) -> Figure:
    return {"value": value, "must": must, "holds": value == must}


def at_most(value: float, must: float) -> Figure:
    return {"value": round(value, 1), "must": f"<= {must:g}", "holds": value <= must}


def at_least(value: float, must: float) -> Figure:
    return {"value": value, "must": f">= {must:g}", "holds": value >= must}


def written(figures: Figures, result: Path = RESULT) -> dict[str, Figure]:
    """Lay them over what the file has; returns all."""
    before = json.loads(result.read_text(encoding="utf-8")) if result.is_file() else {}
    after: dict[str, Figure] = {**before, **figures}
    result.parent.mkdir(parents=True, exist_ok=True)
    result.write_text(json.dumps(after, indent=1) + "\n", encoding="utf-8")
    return after


def shown(figures: Figures) -> None:
    """As a table."""
    table = Table("figure", "value", "must", "holds")
    for name, figure in figures.items():
        table.add_row(name, str(figure["value"]), str(figure["must"]), "yes" if figure["holds"] else "NO")
    Console(width=130, highlight=False).print(table)
