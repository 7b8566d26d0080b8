"""Loads as people have them: each form is read to the same points, and the output says how it was read."""

from __future__ import annotations

import itertools
import json
import time
from pathlib import Path

import pytest
from peaker_backtest.load_input import Choices, parse_load
from peaker_cli.app import app
from typer.testing import CliRunner

START = 1_767_225_600  # 2026-01-01T00:00:00Z
COUNT = 12
SECONDS = [float(START + 300 * i) for i in range(COUNT)]
LOADS = [1000.5 + i for i in range(COUNT)]
ISO = [f"2026-01-01T00:{5 * i:02}:00" for i in range(COUNT)]
LINES = [f"{at},{load}" for at, load in zip(ISO, LOADS, strict=True)]
BERLIN = Choices(time_zone="Europe/Berlin")


def table(header: str, separator: str = ",", times: list[str] | None = None) -> str:
    rows = (f"{at}{separator}{load}" for at, load in zip(times or ISO, LOADS, strict=True))
    return "\n".join([header, *rows])


FORMS: dict[str, tuple[str | bytes, Choices]] = {
    "as documented": (table("timestamp,value"), Choices()),
    "other names": (table("Zeit,Leseanfragen pro s"), Choices()),
    "semicolons": (table("time;reads", ";"), Choices()),
    "tabs": (table("time\treads", "\t"), Choices()),
    "pipes": (table("time|reads", "|"), Choices()),
    "blank lines and empty rows": ("time,reads\n\n,\n" + "\n\n".join(LINES) + "\n\n", Choices()),
    "byte order mark": (b"\xef\xbb\xbf" + table("timestamp,value").encode(), Choices()),
    "line ends of Windows": (table("timestamp,value").replace("\n", "\r\n"), Choices()),
    "epoch seconds": (table("t,reads", times=[f"{at:.0f}" for at in SECONDS]), Choices()),
    "epoch milliseconds": (table("t,reads", times=[f"{1e3 * at:.0f}" for at in SECONDS]), Choices()),
    "zone Z": (table("time,reads", times=[f"{at}Z" for at in ISO]), Choices()),
    "an offset": (table("time,reads", times=[at.replace("01T00", "01T02") + "+02:00" for at in ISO]), Choices()),
    "a zone that is passed": (table("time,reads", times=[at.replace("01T00", "01T01") for at in ISO]), BERLIN),
    "an offset that is passed": (
        table("time,reads", times=[at.replace("01T00", "01T02") for at in ISO]), Choices(time_zone="+02:00")
    ),
    "newest first": ("\n".join(["time,reads", *LINES[::-1]]), Choices()),
    "one line astray": ("\n".join(["time,reads", *LINES[1:], LINES[0]]), Choices()),
    "lines twice": ("\n".join(["time,reads", *LINES, *LINES[:3]]), Choices()),
    "more columns, one called value": (
        "\n".join(["time,cpu,value", *(f"{at},7,{load}" for at, load in zip(ISO, LOADS, strict=True))]), Choices()
    ),
    "more columns, one chosen": (
        "\n".join(["time,cpu,reads", *(f"{at},7,{load}" for at, load in zip(ISO, LOADS, strict=True))]),
        Choices(load_column="READS"),
    ),
    "columns by number": (
        "\n".join(["a,b,c", *(f"7,{load},{at}" for at, load in zip(ISO, LOADS, strict=True))]),
        Choices(time_column="3", load_column="2"),
    ),
    "a missing load": ("\n".join(["time,reads", *LINES, "2026-01-01T01:00:00,"]), Choices()),
    "get-metric-data, newest first, in two pages": (
        json.dumps({"MetricDataResults": [
            {"Id": "m1", "Label": "reads", "Timestamps": [f"{at}+00:00" for at in ISO[:5:-1]], "Values": LOADS[:5:-1],
             "StatusCode": "PartialData"},
            {"Id": "m1", "Label": "reads", "Timestamps": [f"{at}+00:00" for at in ISO[5::-1]], "Values": LOADS[5::-1],
             "StatusCode": "Complete"}], "Messages": []}),
        Choices(),
    ),
    "get-metric-statistics, in no order": (
        json.dumps({"Label": "reads", "Datapoints": [
            {"Timestamp": f"{ISO[(5 * i) % 12]}Z", "Sum": LOADS[(5 * i) % 12], "Unit": "Count"} for i in range(12)]}),
        Choices(),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_every_form_is_read_to_the_same_points(name: str) -> None:
    form, choices = FORMS[name]
    load = parse_load("load", form if isinstance(form, bytes) else form.encode(), choices)
    assert load.times_seconds == SECONDS
    assert load.values == LOADS
    assert load.period_seconds == 300


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("semicolons", "read 12 points, every 5 min, from 2026-01-01 00:00 to 2026-01-01 00:55 UTC, column `time`"),
        ("semicolons", "as time (times without a zone taken as UTC; --time-zone sets another), column `reads` as"),
        ("epoch milliseconds", "epoch milliseconds"),
        ("a zone that is passed", "taken as Europe/Berlin"),
        ("lines twice", "3 said twice: taken once"),
        ("a missing load", "1 without a load: missing, not 0"),
    ],
)  # fmt: skip
def test_how_it_was_read_is_said(name: str, words: str) -> None:
    form, choices = FORMS[name]
    assert words in "; ".join(
        parse_load("load", form if isinstance(form, bytes) else form.encode(), choices).read
    )


def test_minutes_are_averaged_over_steps_and_it_is_said() -> None:
    text = "time,value\n" + "\n".join(f"{START + 60 * i},{i}" for i in range(60))
    assert "every 1 min, averaged over steps of 5 min" in parse_load("load", text.encode(), Choices()).read[0]


def wall_clock(lines: list[tuple[str, str]]) -> list[tuple[float, float]]:
    """The points of these local times of Berlin."""
    text = "time,value\n" + "\n".join(",".join(line) for line in lines)
    load = parse_load("load", text.encode(), BERLIN)
    return list(zip(load.times_seconds, load.values, strict=True))


@pytest.mark.parametrize("newest_first", [False, True])
def test_the_hour_that_an_autumn_clock_repeats_is_two_hours(newest_first: bool) -> None:
    walls = [f"2026-10-25 {hour}:{minute:02}" for hour in ("01", "02", "02", "03") for minute in (0, 30)]
    lines = [(wall, str(i)) for i, wall in enumerate(walls)]
    points = wall_clock(lines[::-1] if newest_first else lines)
    assert [value for _, value in points] == list(range(8))
    assert {b - a for (a, _), (b, _) in itertools.pairwise(points)} == {1800.0}


def test_an_empty_row_in_the_hour_that_a_spring_clock_skips_is_left_out() -> None:
    lines = [
        ("2026-03-29 01:30", "1"),
        ("2026-03-29 02:00", ""),
        ("2026-03-29 02:30", ""),
        ("2026-03-29 03:00", "2"),
    ]
    (first, _), (second, value) = wall_clock(lines)
    assert (second - first, value) == (1800.0, 2.0)


def test_two_months_of_minutes_are_read_in_seconds() -> None:
    """By a reading in squares it would take minutes."""
    text = "time,value\n" + "\n".join(f"{START + 60 * i},{i % 999}" for i in range(86_400))
    begun = time.process_time()
    assert len(parse_load("load", text.encode(), Choices()).values) == 86_400
    assert time.process_time() - begun < 20


HOSTILE = "<script>alert(1)</script>\x1b[31m[red]{{DATA}}\u202e"


def test_nothing_from_the_input_reaches_page_or_terminal_unescaped(tmp_path: Path) -> None:
    source = tmp_path / "[bold]{{DATA}}<img src=x>.csv"
    rows = "\n".join(f"{START + 3600 * hour},{50 + hour % 24}" for hour in range(24 * 6))
    source.write_text(f"time,{HOSTILE}\n{rows}", encoding="utf-8")
    page = tmp_path / "page.html"
    result = CliRunner().invoke(app, ["backtest", str(source), "--html", str(page)])
    assert result.exit_code == 0, result.output
    html = page.read_text(encoding="utf-8")
    assert "<script>alert" not in html
    assert "<img" not in html
    assert html.count("{{DATA}}") == html.count("[bold]{{DATA}}") + html.count("[red]{{DATA}}") > 0
    for shown in (result.output, html):
        assert "\x1b[31m" not in shown
        assert "\u202e" not in shown
    assert "[bold]{{DATA}}" in result.output
