"""`peaker month`: a month's base load and peak load in hours and dollars."""

from __future__ import annotations

import importlib.util
import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from peaker_cli.control_plane import ControlPlane
from peaker_cli.deployment import DeploymentOptions
from peaker_cli.failures import ControlPlaneError
from peaker_cli.month.bill import Month, bill
from peaker_cli.month.gather import read_month
from peaker_cli.month.rows import PEAK_HEAD, headline, peak_rows, summary_rows, unknown_rows
from peaker_cli.printing import AsJson, OneOrAll, console, echo_json, table_of
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
    html_path: Annotated[Path | None, typer.Option("--html", help="Write a page with pictures here.")] = None,
) -> None:
    """Show what CLUSTER cost in a month: base, peak, parked and idle, beside what always-on would have cost.

    Without CLUSTER all of them, the dearest first.
    """
    if cluster is None and html_path is not None:
        raise typer.BadParameter("a page is of one cluster: give CLUSTER", param_hint="--html")
    start, end = _span(month, datetime.now(UTC)) if month else (None, None)
    _check_page(html_path)
    control = ControlPlane.of(deployment)
    if start is None or end is None:
        start, end = _span(f"{control.clock.now():%Y-%m}", control.clock.now())
    with console(stderr=True).status("reading ...") as status:
        months = [
            read_month(control, name, start, end, lambda what: status.update(f"reading {what} ..."))
            for name in StatusReader(control).deployed(cluster)
        ]
    documents = sorted(map(bill, months), key=lambda one: -(one["total_usd"] or 0.0))
    if html_path is not None:
        _write(months[0], documents[0], html_path)
    if as_json:
        echo_json(documents if cluster is None else documents[0])
        return
    for document in documents:
        console().print(render(document))


def render(document: dict[str, Any]) -> RenderableType:
    """Returns the month for a person."""
    sums = table_of(("", "replica-hours", "USD"), summary_rows(document), right=("replica-hours", "USD"))
    peaks = table_of(PEAK_HEAD, peak_rows(document), right=PEAK_HEAD[3:6], whole=PEAK_HEAD[:1])
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


def _check_page(path: Path | None) -> None:
    if path is None:
        return
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        raise typer.BadParameter(f"no file can be written at {path}", param_hint="--html")
    if importlib.util.find_spec("matplotlib") is None:
        raise ControlPlaneError("--html needs matplotlib, which is not installed: pip install 'peaker[plot]'")


def _write(month: Month, document: dict[str, Any], path: Path) -> None:
    from peaker_cli.month.page import render_page  # matplotlib comes with the extra `plot` alone

    try:
        path.write_text(render_page(month, document), encoding="utf-8")
    except OSError as error:
        raise ControlPlaneError(f"{path}: {error.strerror}") from error
