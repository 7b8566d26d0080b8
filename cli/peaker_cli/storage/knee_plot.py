"""The picture of a knee: await and rate over concurrency, with the limits and where they are crossed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

_AWAIT_COLOUR = "#b33a3a"
_RATE_COLOUR = "#2f6f9f"


def plot_knee(result: dict[str, Any], path: Path) -> None:
    """Write a PNG or an SVG, by the file's ending. Raises ValueError for another ending, OSError if unwritable."""
    steps = result["steps"]
    concurrency = [step["concurrency"] for step in steps]
    figure = Figure(figsize=(7.0, 4.2), dpi=120, layout="constrained")
    waits = figure.add_subplot()
    waits.set_title(f"{result['device']}: 16 KiB reads", loc="left")
    waits.set_xlabel("concurrency (requests outstanding)")
    waits.set_ylabel("await (ms)", color=_AWAIT_COLOUR)
    waits.plot(concurrency, [step["await_ms"] for step in steps], "o-", color=_AWAIT_COLOUR, markersize=4)
    for crossing in result["crossings"]:
        _mark_limit(waits, crossing)
    waits.set_ylim(bottom=0)
    waits.set_xlim(0, max(concurrency) * 1.18)
    rates = waits.twinx()
    rates.set_ylabel("requests per s", color=_RATE_COLOUR)
    rates.plot(
        concurrency, [step["requests_per_s"] for step in steps], "s--", color=_RATE_COLOUR, markersize=3
    )
    rates.set_ylim(0, max(step["requests_per_s"] for step in steps) * 1.15)
    figure.savefig(path)


def _mark_limit(waits: Any, crossing: dict[str, Any]) -> None:
    limit, at = crossing["await_limit_ms"], crossing["concurrency"]
    waits.axhline(limit, color=_AWAIT_COLOUR, linewidth=0.6, linestyle=":")
    if at is not None:
        waits.annotate(
            f"{limit:g} ms at {at:g}", (at, limit), textcoords="offset points", xytext=(6, -12), fontsize=8
        )
