"""Loads as people have them: each form is read to the same points, and the output says how it was read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from peaker_backtest.errors import BadInput
from peaker_backtest.load_input import Choices, parse_load
from peaker_cli.app import app
from typer.testing import CliRunner

START = 1_767_225_600  # 2026-01-01T00:00:00Z
COUNT = 12
SECONDS = [float(START + 300 * i) for i in range(COUNT)]
LOADS = [1000.5 + i for i in range(COUNT)]
ISO = [f"2026-01-01T00:{5 * i:02}:00" for i in range(COUNT)]
LINES = [f"{at},{load}" for at, load in zip(ISO, LOADS, strict=True)]


def table(
    header: str, separator: str = ",", times: list[str] | None = None, loads: list[str] | None = None
) -> str:
    cells = zip(times or ISO, loads or [str(load) for load in LOADS], strict=True)
    return "\n".join([*([header] if header else []), *(separator.join(pair) for pair in cells)])


COMMAS = [str(load).replace(".", ",") for load in LOADS]
FORMS: dict[str, tuple[str | bytes, Choices]] = {
    "as documented": (table("timestamp,value"), Choices()),
    "other names": (table("Zeit,Leseanfragen pro s"), Choices()),
    "upper case and blanks": (table(" Time Stamp , Value "), Choices()),
    "semicolons and decimal commas": (table("time;reads", ";", loads=COMMAS), Choices()),
    "thousands with points": (table("time;reads", ";", loads=[f"1.{c[1:]}" for c in COMMAS]), Choices()),
    "thousands with commas": (table("time;reads", ";", loads=[f"{load:,}" for load in LOADS]), Choices()),
    "quoted decimal commas": (table("time,reads", loads=[f'"{comma}"' for comma in COMMAS]), Choices()),
    "tabs": (table("time\treads", "\t"), Choices()),
    "pipes": (table("time|reads", "|"), Choices()),
    "no header": (table(""), Choices()),
    "no header, epoch seconds": (table("", times=[f"{at:.0f}" for at in SECONDS]), Choices()),
    "load first": ("\n".join(["reads,time", *(",".join(line.split(",")[::-1]) for line in LINES)]), Choices()),
    "comments and blank lines": ("# export\n\ntime,reads\n# begin\n" + "\n\n".join(LINES) + "\n# end\n", Choices()),
    "byte order mark": (b"\xef\xbb\xbf" + table("timestamp,value").encode(), Choices()),
    "UTF-16 of a spreadsheet": (table("timestamp\tvalue", "\t").encode("utf-16"), Choices()),
    "line ends of Windows": (table("timestamp,value").replace("\n", "\r\n"), Choices()),
    "Excel's separator line": ("sep=;\n" + table("time;reads", ";"), Choices()),
    "a console's lines before the header": (
        "Full label,Reads\nRegion,us-east-1\n,\n" + table("Timestamp,Reads"), Choices()
    ),
    "epoch seconds": (table("t,reads", times=[f"{at:.0f}" for at in SECONDS]), Choices()),
    "epoch seconds with a fraction": (table("t,reads", times=[f"{at:.3f}" for at in SECONDS]), Choices()),
    "epoch milliseconds": (table("t,reads", times=[f"{1e3 * at:.0f}" for at in SECONDS]), Choices()),
    "epoch microseconds": (table("t,reads", times=[f"{1e6 * at:.0f}" for at in SECONDS]), Choices()),
    "epoch nanoseconds": (table("t,reads", times=[f"{at:.0f}000000000" for at in SECONDS]), Choices()),
    "zone Z": (table("time,reads", times=[f"{at}Z" for at in ISO]), Choices()),
    "zone in words": (table("time,reads", times=[f"{at.replace('T', ' ')} UTC" for at in ISO]), Choices()),
    "an offset": (table("time,reads", times=[at.replace("01T00", "01T02") + "+02:00" for at in ISO]), Choices()),
    "a zone that is passed": (
        table("time,reads", times=[at.replace("01T00", "01T01") for at in ISO]),
        Choices(time_zone="Europe/Berlin"),
    ),
    "an offset that is passed": (
        table("time,reads", times=[at.replace("01T00", "01T02") for at in ISO]),
        Choices(time_zone="+02:00"),
    ),
    "slashes, year first": (
        table("time,reads", times=[at.replace("-", "/").replace("T", " ") for at in ISO]), Choices()
    ),
    "German dates": (table("Datum;Last", ";", [f"01.01.2026 00:{5 * i:02}" for i in range(COUNT)], COMMAS), Choices()),
    "month first, said": (
        table("date,reads", times=[f"1/1/2026 12:{5 * i:02} AM" for i in range(COUNT)]),
        Choices(date_order="mdy"),
    ),
    "compact": (table("time,reads", times=[f"20260101T00{5 * i:02}00Z" for i in range(COUNT)]), Choices()),
    "newest first": ("\n".join(["time,reads", *LINES[::-1]]), Choices()),
    "one line astray": ("\n".join(["time,reads", *LINES[1:], LINES[0]]), Choices()),
    "a header twice": ("\n".join(["time,reads", *LINES[:6], "time,reads", *LINES[6:]]), Choices()),
    "lines twice": ("\n".join(["time,reads", *LINES, *LINES[:3]]), Choices()),
    "more columns, one called value": (
        "\n".join(["time,cpu,value,state", *(f"{at},7,{load},up" for at, load in zip(ISO, LOADS, strict=True))]),
        Choices(),
    ),
    "more columns, one chosen": (
        "\n".join(["time,cpu,reads", *(f"{at},7,{load}" for at, load in zip(ISO, LOADS, strict=True))]),
        Choices(load_column="READS"),
    ),
    "columns by number": (
        "\n".join(["a,b,c", *(f"7,{load},{at}" for at, load in zip(ISO, LOADS, strict=True))]),
        Choices(time_column="3", load_column="2"),
    ),
    "one instance named": (
        "\n".join(["time,instance,reads", *(f"{at},db-1,{load}" for at, load in zip(ISO, LOADS, strict=True))]),
        Choices(),
    ),
    "a missing value": ("\n".join(["time,reads", *LINES, "2026-01-01T01:00:00,"]), Choices()),
    "get-metric-data, newest first, in two pages": (
        json.dumps({"MetricDataResults": [
            {"Id": "m1", "Label": "reads", "Timestamps": [f"{at}+00:00" for at in ISO[:5:-1]], "Values": LOADS[:5:-1],
             "StatusCode": "PartialData"},
            {"Id": "m1", "Label": "reads", "Timestamps": [f"{at}+00:00" for at in ISO[5::-1]], "Values": LOADS[5::-1],
             "StatusCode": "Complete"}], "Messages": []}),
        Choices(),
    ),
    "get-metric-data, one of two": (
        json.dumps({"MetricDataResults": [
            {"Id": "m1", "Label": "a", "Timestamps": ISO, "Values": [1.0] * COUNT, "StatusCode": "Complete"},
            {"Id": "m2", "Label": "b", "Timestamps": ISO, "Values": LOADS, "StatusCode": "Complete"}]}),
        Choices(series="m2"),
    ),
    "get-metric-statistics, in no order": (
        json.dumps({"Label": "reads", "Datapoints": [
            {"Timestamp": f"{ISO[(5 * i) % 12]}Z", "Sum": LOADS[(5 * i) % 12], "Unit": "Count"} for i in range(12)]}),
        Choices(),
    ),
    "query_range": (
        json.dumps({"status": "success", "data": {"resultType": "matrix", "result": [
            {"metric": {"job": "db"}, "values": [[at, str(load)] for at, load in zip(SECONDS, LOADS, strict=True)]}]}}),
        Choices(),
    ),
    "promtool": (
        json.dumps([{"metric": {}, "values": [[at, str(load)] for at, load in zip(SECONDS, LOADS, strict=True)]}]),
        Choices(),
    ),
}  # fmt: skip


def content(form: str | bytes) -> bytes:
    return form if isinstance(form, bytes) else form.encode()


@pytest.mark.parametrize("name", FORMS)
def test_every_form_is_read_to_the_same_points(name: str) -> None:
    form, choices = FORMS[name]
    load = parse_load("load", content(form), choices)
    assert load.times_seconds == pytest.approx(SECONDS)
    assert load.values == pytest.approx(LOADS)
    assert load.period_seconds == 300


def read(text: str, **choices: Any) -> str:
    return "; ".join(parse_load("load", text.encode(), Choices(**choices)).read)


def test_what_was_found_out_is_said() -> None:
    said = read(FORMS["semicolons and decimal commas"][0])  # type: ignore[arg-type]
    assert "read 12 points, every 5 min, from 2026-01-01 00:00 to 2026-01-01 00:55 UTC" in said
    assert "column `time` as time (times without a zone taken as UTC" in said
    assert "column `reads` as load (decimal commas)" in said
    assert "semicolons separate the columns" in said


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no header", "no header"),
        ("epoch milliseconds", "epoch numbers in ms"),
        ("newest first", "newest first: put in order"),
        ("one line astray", "1 line out of order"),
        ("lines twice", "3 lines said twice, the same: taken once"),
        ("a missing value", "1 point without a value: missing, not 0"),
        ("a zone that is passed", "taken as Europe/Berlin"),
        ("get-metric-data, one of two", "series `m2`"),
    ],
)
def test_what_was_mended_is_said(name: str, words: str) -> None:
    form, choices = FORMS[name]
    assert words in "; ".join(parse_load("load", content(form), choices).read)


def test_minutes_are_averaged_over_steps_and_it_is_said() -> None:
    said = read("time,value\n" + "\n".join(f"{START + 60 * i},{i}" for i in range(60)))
    assert "every 1 min, averaged over steps of 5 min" in said


def test_an_hour_that_the_clock_repeats_is_two_hours() -> None:
    walls = [f"2026-10-25 {hour}:{minute:02}" for hour in ("01", "02", "02", "03") for minute in (0, 30)]
    text = "time,value\n" + "\n".join(f"{wall},{i}" for i, wall in enumerate(walls))
    load = parse_load("load", text.encode(), Choices(time_zone="Europe/Berlin"))
    gaps = {b - a for a, b in zip(load.times_seconds, load.times_seconds[1:], strict=False)}
    assert gaps == {1800.0}


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


def test_a_hostile_value_is_shown_escaped() -> None:
    with pytest.raises(BadInput) as refused:
        parse_load("load", f"time,value\n{START},1\n{START + 300},{HOSTILE}\n".encode(), Choices())
    assert "\x1b" not in str(refused.value)
    assert "\\x1b" in str(refused.value).replace("\\\\", "\\")


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_are_read_or_refused(noise: bytes) -> None:
    refused_or_read(noise, Choices())


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    name=st.sampled_from(sorted(FORMS)),
    changes=st.lists(
        st.tuples(st.integers(0, 2000), st.integers(0, 3), st.binary(max_size=12)), min_size=1, max_size=4
    ),
)
def test_a_good_file_with_some_bytes_changed_is_read_or_refused(
    name: str, changes: list[tuple[int, int, bytes]]
) -> None:
    form, choices = FORMS[name]
    mutated = content(form)
    for at, kind, noise in changes:
        place = at % (len(mutated) + 1)
        if kind == 0:
            mutated = mutated[:place] + noise + mutated[place:]
        elif kind == 1:
            mutated = mutated[:place] + noise + mutated[place + len(noise) :]
        elif kind == 2:
            mutated = mutated[:place] + mutated[place + 9 :]
        else:
            mutated = mutated[:place]
    refused_or_read(mutated, choices)


def refused_or_read(noise: bytes, choices: Choices) -> None:
    load, refusal = None, ""
    try:
        load = parse_load("load", noise, choices)
        steps = len(load.series().values)
    except BadInput as error:
        refusal = str(error)
    assert refusal.isprintable()
    if load is not None and not refusal:
        assert steps < 1_200_000
        assert load.times_seconds == sorted(load.times_seconds)
        assert all(0 <= value <= 1e15 for value in load.values)
