"""The lead time that was planned against what it became, for a person: a table for each replica that serves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.table import Table

from peaker_cli.durations import duration
from peaker_cli.printing import table_of

OUTCOME_COLUMNS = ("part", "planned", "in 9 of 10 cases", "took", "plan off by")


def outcome_tables(receipt: Mapping[str, Any]) -> Iterator[Table]:
    """Yields a table for each member, in their order; none for receipts of before plans were compared."""
    for named, rows in outcome_rows(receipt):
        title = f"lead time{' of ' * bool(named)}{named}: plan against outcome"
        yield table_of(OUTCOME_COLUMNS, rows, right=OUTCOME_COLUMNS[1:], title=title)


def outcome_rows(receipt: Mapping[str, Any]) -> Iterator[tuple[str, list[tuple[str, ...]]]]:
    """Yields the rows of each member that was compared, under its name where there are several."""
    members = receipt.get("members") or ()
    for member in members:
        if outcome := member.get("outcome"):
            parts = [(str(one["part"]).replace("_", " "), one) for one in outcome["parts"]]
            between = {"planned_seconds": None, "took_seconds": outcome["between_steps_seconds"]}
            rows = [*parts, ("between steps", between), ("plan to serving", outcome)]
            yield "" if len(members) == 1 else f"member {member['number']}", [_row(*row) for row in rows]


def _row(name: str, figures: dict[str, Any]) -> tuple[str, ...]:
    planned, took = figures["planned_seconds"], figures["took_seconds"]
    slow = figures.get("planned_p90_seconds")
    return name, duration(planned), duration(slow), duration(took), _off(planned, took)


def _off(planned: float | None, took: float | None) -> str:
    """Returns the error in percent of the real time; a dash where either is unknown or nothing passed."""
    if planned is None or not took:
        return "-"
    return f"{(planned - took) / took:+.0%}"
