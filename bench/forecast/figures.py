"""A figure of a bench: what was measured, what it must be, and whether it holds."""

from __future__ import annotations

Figure = dict[str, object]


def figure(value: float, must: str, holds: bool) -> Figure:
    """As it is written to build/bench/forecast.json."""
    return {"value": round(value, 4), "must": must, "holds": bool(holds)}


def stated(value: float, aim: str) -> Figure:
    """A figure that is told, with an aim that nothing depends on."""
    return {"value": round(value, 4), "must": f"stated (aim {aim})", "holds": True}
