"""The plan's options and its checks, for a person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from peaker.domain.instants import from_iso
from rich.console import RenderableType
from rich.text import Text

from peaker_cli.durations import clock, duration
from peaker_cli.printing import table_of

_VERDICT_STYLES = {"pass": "green", "warn": "yellow", "refuse": "red", "unknown": "magenta"}


def render_options(choice: Mapping[str, Any], planned_at: str) -> RenderableType:
    """A line per option: its median and p90, by when 9 of 10 are ready, dollars until it serves."""
    rows = (
        (
            option_name(one),
            Text("taken", style="bold green") if index == choice["index"] else "",
            duration(one["p50_seconds"]),
            duration(one["p90_seconds"]),
            clock(from_iso(planned_at) + timedelta(seconds=one["p90_seconds"])),
            "unknown" if one["usd"] is None else f"{one['usd']:.2f}",
            Text(f"not now: {one['why_not']}" if one["why_not"] else "", style="dim"),
        )
        for index, one in enumerate(choice["options"])
    )
    columns = ("option", "", "median", "p90", "ready by", "USD", "")
    return table_of(columns, rows, right=("median", "p90", "USD"), title="options")


def option_name(option: Mapping[str, Any]) -> str:
    """The option in a few words."""
    if option["action"] == "return":
        return f"return {option['replica']}"
    rate = option["rate_mib_per_s"]
    return "build, default rate" if rate is None else f"build, {rate} MiB/s a volume"


def deadline_line(choice: Mapping[str, Any]) -> str:
    """Whether the deadline is met, and why by this option."""
    made = "is met" if choice["in_time"] else "is NOT met"
    return f"{clock(choice['ready_by'])} {made}: {choice['reason']}"


def render_checks(checks: Sequence[Mapping[str, Any]]) -> RenderableType:
    """A line per check with its numbers, and its remedy below."""
    rows = (
        (
            Text(one["verdict"], style=_VERDICT_STYLES[one["verdict"]]),
            one["name"],
            Text(one["detail"] + (f"\n-> {one['remedy']}" if one["remedy"] else "")),
        )
        for one in checks
    )
    return table_of(("", "", ""), rows, title="checks")
