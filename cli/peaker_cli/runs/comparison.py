"""The plan's table of methods and its checks, for a person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from peaker.domain.instants import from_iso
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from peaker_cli.durations import duration

_VERDICT_STYLES = {"pass": "green", "warn": "yellow", "refuse": "red", "unknown": "magenta"}


def render_methods(comparison: Mapping[str, Any], planned_at: str) -> RenderableType:
    """Each method: what it is to the run, when 9 of 10 are ready, dollars until it serves, what it does to others."""
    table = Table(box=None, pad_edge=False, header_style="bold", title="methods", title_justify="left")
    for column, side in (("method", "left"), ("", "left"), ("median", "right"), ("p90", "right"), ("ready by", "left"),
                         ("USD", "right"), ("why, on what", "left")):  # fmt: skip
        table.add_column(column, justify=side, overflow="fold", no_wrap=column in ("method", ""))  # type: ignore[arg-type]
    start = from_iso(planned_at)
    for one in comparison["methods"]:
        table.add_row(
            one["name"].replace("_", " "),
            _standing(one, comparison["chosen"]),
            _time(one["p50_seconds"]),
            _time(one["p90_seconds"]),
            _ready(start, one["p90_seconds"]),
            "" if one["usd"] is None else f"{one['usd']:.2f}",
            Text("; ".join(filter(None, (one["why_not"], one["basis"])))),
        )
    return table


def effect_lines(comparison: Mapping[str, Any]) -> list[str]:
    """What the methods do to the donor and the source; those that do the same together."""
    found: dict[str, list[str]] = {}
    for one in comparison["methods"]:
        told = ", ".join(
            f"{who}: {one[key]}" for who, key in (("donor", "on_donor"), ("source", "on_source")) if one[key]
        )
        if told:
            found.setdefault(told, []).append(one["name"].replace("_", " "))
    return [f"{', '.join(names)}: {told}" for told, names in found.items()]


def _standing(one: Mapping[str, Any], chosen: str | None) -> Text:
    if one["name"] == chosen:
        return Text("taken", style="bold green")
    if not one["carried_out"]:
        return Text("not built", style="dim")
    return Text("possible") if one["why_not"] is None else Text("not now", style="dim")


def _time(seconds: float | None) -> str:
    return "" if seconds is None else duration(seconds)


def _ready(start: datetime, seconds: float | None) -> str:
    """By when 9 of 10 are ready."""
    return "" if seconds is None else f"{start + timedelta(seconds=seconds):%d %b %H:%M}"


def choice_lines(comparison: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The deadline, why this method, and what can be ready where none makes it."""
    found = [("method", str(comparison["reason"]))]
    if comparison["ready_by"] is not None:
        makes = {True: "is met", False: "is NOT met", None: "cannot be judged"}[comparison["in_time"]]
        spare = f"with {comparison['margin_share']:.0%} to spare"
        found.insert(0, ("deadline", f"{comparison['ready_by']} {makes} {spare}"))
    if comparison["by_then"]:
        found.append(("instead", str(comparison["by_then"])))
    return found


def render_checks(checks: Sequence[Mapping[str, Any]]) -> RenderableType:
    """A line per check with its numbers, and its remedy below."""
    table = Table(box=None, pad_edge=False, show_header=False, title="checks", title_justify="left")
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for one in checks:
        told = one["detail"] + (f"\n-> {one['remedy']}" if one["remedy"] else "")
        table.add_row(Text(one["verdict"], style=_VERDICT_STYLES[one["verdict"]]), one["name"], Text(told))
    return table
