"""`peaker month`: a month's base load and peak load in hours and dollars."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from peaker_cli.control_plane import ControlPlane
from peaker_cli.deployment import DeploymentOptions
from peaker_cli.files import HtmlFile, write_page
from peaker_cli.month.bill import bill
from peaker_cli.month.gather import read_month
from peaker_cli.month.page import render_page
from peaker_cli.month.rows import PEAK_HEAD, SUMMARY_HEAD, headline, peak_rows, summary_rows, unknown_rows
from peaker_cli.printing import AsJson, OneOrAll, console, echo_json, table_of, telling
from peaker_cli.status.gather import StatusReader

EPILOG = (
    "Examples: peaker month --env prod; peaker month orders --month 2026-11 --html november.html; "
    "peaker month orders --json | jq .total_usd"
)
_MONTH = re.compile(r"^(20[0-9]{2})-(0[1-9]|1[0-2])$")


def month_command(
    deployment: DeploymentOptions,
    cluster: OneOrAll = None,
    month: Annotated[
        str | None,
        typer.Option(help="Which month, in UTC; without it the one that lasts.", metavar="YYYY-MM"),
    ] = None,
    as_json: AsJson = False,
    html_path: HtmlFile = None,
) -> None:
    """Show what CLUSTER cost in a month: base, peak, parked and idle, beside what always-on would have cost.

    Without CLUSTER all of them, the dearest first.
    """
    if cluster is None and html_path is not None:
        raise typer.BadParameter("a page is of one cluster: give CLUSTER", param_hint="--html")
    start, end = _span(month, datetime.now(UTC)) if month else (None, None)
    control = ControlPlane.of(deployment)
    if start is None or end is None:
        start, end = _span(f"{control.clock.now():%Y-%m}", control.clock.now())
    with telling("reading") as tell:
        months = [
            read_month(control, name, start, end, lambda what: tell(f"reading {what}"))
            for name in StatusReader(control).deployed(cluster)
        ]
    documents = sorted(map(bill, months), key=lambda one: -(one["total_usd"] or 0.0))
    if html_path is not None:
        write_page(html_path, render_page(months[0], documents[0]))
    if as_json:
        echo_json(documents if cluster is None else documents[0])
        return
    for document in documents:
        console().print(render(document))


def render(document: dict[str, Any]) -> RenderableType:
    sums = table_of(SUMMARY_HEAD, summary_rows(document), right=SUMMARY_HEAD[1:])
    rows = peak_rows(document)
    peaks = (
        table_of(PEAK_HEAD, rows, right=PEAK_HEAD[3:6], whole=PEAK_HEAD[:1])
        if rows
        else Text("no peak replica")
    )
    cheaper = [
        Text(f"cheaper: {one['setting']}: ${one['usd']:.2f}; {one['why']}") for one in document["cheaper"]
    ]
    unknown = [Text(one) for one in unknown_rows(document)]
    return Group(Text(headline(document), style="bold"), sums, *unknown, Text(), peaks, *cheaper)


def _span(text: str, now: datetime) -> tuple[datetime, datetime]:
    """Returns the month's first instant and the next one's."""
    found = _MONTH.match(text)
    if found is None:
        raise typer.BadParameter(f"{text[:40]!r} is not a month such as {now:%Y-%m}", param_hint="--month")
    year, number = int(found[1]), int(found[2])
    following = datetime(year + number // 12, number % 12 + 1, 1, tzinfo=UTC)
    return datetime(year, number, 1, tzinfo=UTC), following
