"""The lead time that was planned against what it became, for a person: a table for each replica that serves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.table import Table

from peaker_cli.durations import duration
from peaker_cli.printing import table_of


def outcome_tables(receipt: dict[str, Any]) -> Iterator[Table]:
    """Yields a table for each member, in their order; none for receipts of before plans were compared."""
    members = receipt.get("members") or ()
    for member in members:
        if member.get("outcome"):
            named = "" if len(members) == 1 else f" of member {member['number']}"
            yield _table(f"lead time{named}: plan against outcome", member["outcome"])


def _table(title: str, outcome: dict[str, Any]) -> Table:
    parts = [(str(one["part"]).replace("_", " "), one) for one in outcome["parts"]]
    between = {"planned_seconds": None, "took_seconds": outcome["between_steps_seconds"]}
    rows = [*parts, ("between steps", between), ("plan to serving", outcome)]
    columns = ("part", "planned", "in 9 of 10 cases", "took", "plan off by")
    return table_of(columns, (_row(*row) for row in rows), right=columns[1:], title=title)


def _row(name: str, figures: dict[str, Any]) -> tuple[str, ...]:
    planned, took = figures["planned_seconds"], figures["took_seconds"]
    slow = figures.get("planned_p90_seconds")
    return name, duration(planned), duration(slow), duration(took), _off(planned, took)


def _off(planned: float | None, took: float | None) -> str:
    """Returns the error in percent of the real time; a dash where either is unknown or nothing passed."""
    if planned is None or not took:
        return "-"
    return f"{(planned - took) / took:+.0%}"
