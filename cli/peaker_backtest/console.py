"""The backtest on a terminal: the answer first, then what it rests on, then the tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from peaker_backtest.errors import shown
from peaker_backtest.report import BacktestReport
from peaker_backtest.verdict import advice_on_settings, assumptions, headline, notes, table_settings


def print_report(console: Console, report: BacktestReport) -> None:
    """Returns the whole report as text. What comes from the input is shown escaped, never obeyed."""
    for line in report.read:
        _say(console, line, "dim")
    _say(console, f"{shown(report.source)}: {headline(report)}", "bold")
    for warning in report.warnings:
        _say(console, warning, "yellow")
    for note in notes(report):
        _say(console, note)
    console.print()
    console.print(_policies(report))
    rows = table_settings(report)
    if rows:
        console.print(_table("Settings: cost against shortage", _NARROW_SETTINGS_COLUMNS, rows))
    for line in advice_on_settings(report):
        _say(console, line)
    _say(console, "Assumed or given:")
    for line in assumptions(report):
        _say(console, f"- {line}")


def _say(console: Console, text: str, style: str = "") -> None:
    console.print(Text(text, style=style), soft_wrap=True)


def table_policies(report: BacktestReport) -> list[list[str]]:
    """Rows of the table of policies; the reactive run shown is the best one."""
    rows = []
    for one in (*report.compared, report.oracle):
        figures = one.compared
        dollars = report.dollars(figures.replica_hours)
        rows.append(
            [
                one.name,
                f"{figures.replica_hours:,.0f}",
                f"{figures.short_minutes:,.0f}",
                f"{figures.short_share:.2%}",
                f"{figures.short_replica_hours:,.1f}",
                f"{report.weighted(one):,.0f}",
                "unknown" if dollars is None else f"{dollars:,.0f}",
                f"{figures.scale_outs}/{figures.scale_ins}",
            ]
        )
    return rows


POLICY_COLUMNS = (
    "policy", "replica-hours", "short (min)", "short (share of time)", "replica-hours short",
    "weighted (replica-hours)", "cost (USD)", "scale-outs / scale-ins",
)  # fmt: skip
_NARROW_POLICY_COLUMNS = (
    "policy", "replica-\nhours", "short\n(min)", "short\n(share)", "rep.-h\nshort", "weighted", "USD", "out/in"
)  # fmt: skip
_NARROW_SETTINGS_COLUMNS = (
    "", "rule", "quan-\ntile", "head-\nroom", "replica-\nhours", "USD", "short\n(min)", "weighted"
)  # fmt: skip


def _policies(report: BacktestReport) -> Table:
    return _table(title_of_policies(report), _NARROW_POLICY_COLUMNS, table_policies(report))


def title_of_policies(report: BacktestReport) -> str:
    return (
        "Policies on the compared days" if report.worth else "Policies on the replayed days (no comparison)"
    )


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


@contextmanager
def progress(console: Console, total: int) -> Iterator[Callable[[], None]]:
    """Shows a bar on a terminal while decisions are replayed; yields the function that counts one."""
    with Progress(
        *Progress.get_default_columns(), console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("decisions replayed", total=total)
        yield lambda: bar.advance(task)
