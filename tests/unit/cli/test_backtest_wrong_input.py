"""Files and options that cannot be used: each is refused with what is to blame: line and column, place, or option.

A case is a good file of twelve points with some lines replaced (1 is the header), or a whole text, or bytes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from peaker_backtest.errors import BadInput
from peaker_backtest.load_input import Choices, parse_load
from peaker_cli.app import app
from typer.testing import CliRunner

HEADER = "timestamp,value"
GOOD = [HEADER, *(f"2026-01-01T00:{5 * minute:02}:00Z,{10 + minute}" for minute in range(12))]
EPOCH = 1_767_225_600


@dataclass(frozen=True)
class Wrong:
    """What is in the file, what is passed with it, and what must be blamed in which words."""

    story: str
    lines: dict[int, str] = field(default_factory=dict)
    whole: str | bytes | None = None
    choices: Choices = field(default_factory=Choices)
    line: int | None = None
    blamed: str | None = None
    says: str = ""

    def content(self) -> bytes:
        if isinstance(self.whole, bytes):
            return self.whole
        if self.whole is not None:
            return self.whole.encode()
        return "\n".join(self.lines.get(number, line) for number, line in enumerate(GOOD, start=1)).encode()


def at_line(line: int, cell: str, blamed: str, story: str, says: str = "", **choices: str) -> Wrong:
    return Wrong(story, {line: cell}, line=line, blamed=blamed, says=says, choices=Choices(**choices))


TIMES = [
    at_line(7, "9025-01-01T00:25:00Z,15", "timestamp", "a year 9025", "9025"),
    at_line(7, "2125-01-01T00:25:00Z,15", "timestamp", "a year after the last", "2099"),
    at_line(7, "1970-01-01T00:25:00Z,15", "timestamp", "1970 among today's dates", "1970"),
    at_line(7, "1989-12-31T23:59:59Z,15", "timestamp", "a year before the first", "1989"),
    at_line(7, "2036-01-01T00:25:00Z,15", "timestamp", "ten years off", "from every other point"),
    at_line(2, "2016-01-01T00:00:00Z,15", "timestamp", "the first point ten years off", "from every other point"),
    at_line(13, "2026-03-01T00:55:00Z,15", "timestamp", "the last point two months off", "from every other"),
    at_line(4, "yesterday,15", "timestamp", "a word", "is no time"),
    at_line(4, ",15", "timestamp", "no time", "is no time"),
    at_line(4, "2026-13-01T00:10:00Z,15", "timestamp", "a thirteenth month", "is no time"),
    at_line(4, "2026-02-30T00:10:00Z,15", "timestamp", "a thirtieth of February", "is no time"),
    at_line(4, "2026-01-01T25:10:00Z,15", "timestamp", "a twenty-fifth hour", "is no time"),
    at_line(4, "2026-01-01T00:61:00Z,15", "timestamp", "a sixty-first minute", "is no time"),
    at_line(4, "2026-01-01T00:10:00+99:00,15", "timestamp", "an offset of 99 hours", "is no time"),
    at_line(4, "0000-01-01T00:10:00Z,15", "timestamp", "a year 0", "is no time"),
    at_line(4, "26-01-01 00:10,15", "timestamp", "a year of two digits", "is no time"),
    at_line(4, "2026-01-01T00:10:00,15", "timestamp", "a time without a zone among others", "with a zone"),
    at_line(4, f"{EPOCH + 600},15", "timestamp", "an epoch number among dates", "times with a zone"),
    at_line(4, "nan,15", "timestamp", "not-a-number as a time", "is no time"),
    at_line(4, "inf,15", "timestamp", "infinity as a time", "is no time"),
    at_line(4, "46023.5,15", "timestamp", "a spreadsheet's day number", "is no time"),
    at_line(4, "-1767225600,15", "timestamp", "a negative epoch", "is no time"),
    at_line(4, "1" * 40 + ",15", "timestamp", "a number of forty digits", "is no time"),
    at_line(4, "2026-01-01T00:05:00Z,99", "timestamp", "the same time with another load", "line 3 again"),
    Wrong("all in 1970", whole="timestamp,value\n" + "\n".join(f"{300 * i},5" for i in range(9)), line=2,
          blamed="timestamp", says="is no time"),
    Wrong("seconds, then milliseconds", whole=f"timestamp,value\n{EPOCH},1\n{EPOCH}300000,2\n{EPOCH + 600},2\n"
          .replace(f"{EPOCH}300000", str((EPOCH + 300) * 1000)), line=3, blamed="timestamp", says="epoch numbers in s"),
    Wrong("day or month first", whole="date,value\n01/02/2026 00:00,1\n01/02/2026 00:05,2\n", line=2, blamed="date",
          says="--date-order"),
    Wrong("day first, with a month of 13", whole="date,value\n13/02/2026 00:00,1\n02/14/2026 00:05,2\n", line=3,
          blamed="date", says="is no time"),
    Wrong("the wrong order asked for", whole="date,value\n13/02/2026 00:00,1\n13/02/2026 00:05,2\n", line=2,
          blamed="date", says="is no time", choices=Choices(date_order="mdy")),
    Wrong("an hour that the clock skips", whole="time,value\n2026-03-29 01:55,1\n2026-03-29 02:30,2\n", line=3,
          blamed="time", says="skip", choices=Choices(time_zone="Europe/Berlin")),
    Wrong("a clock change without a zone", whole="time,value\n" + "\n".join(
        f"2026-10-25 {hour}:{minute:02},{10 * n + minute}" for n, hour in enumerate(("01", "02", "02", "03"))
        for minute in range(0, 60, 15)), line=10, blamed="time", says="--time-zone"),
    Wrong("an unknown zone", choices=Choices(time_zone="Mars/Olympus"), blamed="--time-zone", says="Europe/Berlin"),
    Wrong("a zone that is a path", choices=Choices(time_zone="../../etc/passwd"), blamed="--time-zone"),
    Wrong("an offset that is none", choices=Choices(time_zone="+99:00"), blamed="--time-zone"),
    Wrong("shuffled", whole="\n".join([HEADER, *(GOOD[1 + (5 * i) % 12] for i in range(12))]), line=5,
          blamed="timestamp", says="back and forth"),
    Wrong("a month missing", whole="\n".join([*GOOD, *(line.replace("-01T", "-28T").replace("2026-01", "2026-02")
          for line in GOOD[1:])]), line=14, blamed="timestamp", says="without a point before it"),
    Wrong("more gaps than points", whole="\n".join([HEADER, *(f"2026-01-{day:02}T00:{m:02}:00Z,5"
          for day in range(1, 12) for m in (0, 5, 10))]), blamed="timestamp", says="too many gaps"),
    Wrong("one point a day", whole="\n".join([HEADER, *(f"2026-01-{day:02},5" for day in range(1, 29))]),
          blamed="timestamp", says="24.0 h"),
    Wrong("single requests", whole="\n".join([HEADER, *(f"{EPOCH + i / 20},5" for i in range(30))]),
          blamed="timestamp", says="single requests"),
    Wrong("one time only", whole="\n".join([HEADER, *(["2026-01-01T00:00:00Z,5"] * 5)]), blamed="timestamp",
          says="one and the same time"),
]  # fmt: skip

LOADS = [
    at_line(5, "2026-01-01T00:15:00Z,many", "value", "a word", "is no number"),
    at_line(5, "2026-01-01T00:15:00Z,-1", "value", "negative", "0 or more"),
    at_line(5, "2026-01-01T00:15:00Z,inf", "value", "infinite", "cannot be inf"),
    at_line(5, "2026-01-01T00:15:00Z,-Infinity", "value", "minus infinity", "cannot be -Infinity"),
    at_line(5, "2026-01-01T00:15:00Z,NaN", "value", "not a number", "leave it empty"),
    at_line(5, "2026-01-01T00:15:00Z,1e999", "value", "larger than a float", "cannot be 1e999"),
    at_line(5, "2026-01-01T00:15:00Z,1e300", "value", "beyond reason", "beyond reason"),
    at_line(5, "2026-01-01T00:15:00Z,12 req/s", "value", "with a unit", "is no number"),
    at_line(5, "2026-01-01T00:15:00Z,12%", "value", "a percentage", "is no number"),
    at_line(5, "2026-01-01T00:15:00Z,0x1f", "value", "hexadecimal", "is no number"),
    at_line(5, "2026-01-01T00:15:00Z,1_000", "value", "a number of a program", "is no number"),
    at_line(5, "2026-01-01T00:15:00Z,N/A", "value", "not available", "is no number"),
    at_line(5, "2026-01-01T00:15:00Z,=1+1", "value", "a formula", "is no number"),
    at_line(5, "2026-01-01T00:15:00Z,١٢", "value", "digits of another script", "is no number"),
    at_line(5, '2026-01-01T00:15:00Z,"12,5"', "value", "a comma among points", "", decimal="point"),
    Wrong("commas and points mixed", whole='t ime;value\n2026-01-01 00:00;"12,5"\n2026-01-01 00:05;12.5\n', line=3,
          blamed="value", says="decimal"),
    Wrong("a thousand or a decimal", whole="time;value\n2026-01-01 00:00;1,234\n2026-01-01 00:05;2,345\n", line=2,
          blamed="value", says="--decimal"),
    Wrong("points where commas are asked for", whole="time;value\n2026-01-01 00:00;12.5\n2026-01-01 00:05;1,5\n",
          line=2, blamed="value", says="comma", choices=Choices(decimal="comma")),
    Wrong("no value at all", whole="\n".join([HEADER, *(f"{EPOCH + 300 * i}," for i in range(9))]), blamed="value",
          says="0 points with a value"),
    Wrong("one point", whole=f"{HEADER}\n{EPOCH},5\n", blamed="value", says="at least two weeks"),
]  # fmt: skip

TABLES = [
    Wrong("empty", whole="", line=1, says="the file is empty"),
    Wrong("blank lines only", whole="\n\n  \n", line=1, says="the file is empty"),
    Wrong("comments only", whole="# timestamp,value\n# 1,2\n", line=1, says="the file is empty"),
    at_line(5, "2026-01-01T00:15:00Z", None, "a line cut off", "1 columns where 2 are needed"),  # type: ignore[arg-type]
    at_line(5, "2026-01-01T00:15:00Z,1,2", None, "a column too many", "3 columns where 2"),  # type: ignore[arg-type]
    at_line(5, "2026-01-01T00:15:00Z,12,5", None, "a decimal comma in commas", "decimal comma"),  # type: ignore[arg-type]
    at_line(5, "<b>Service unavailable</b>", None, "an error page in the middle", "1 columns"),  # type: ignore[arg-type]
    at_line(5, '"2026-01-01T00:15:00Z,12', None, "a quote that is never closed", "1 columns"),  # type: ignore[arg-type]
    Wrong("one column", whole="value\n1\n2\n3\n", line=1, says="is one column"),
    Wrong("prose", whole="All quiet on the replicas\nnothing to report\n", line=1, says="is one column"),
    Wrong("a web page", whole="<html><body>\nSign in\n</body></html>\n", line=1, says="is one column"),
    Wrong("Prometheus' text", whole="12 @[1767225600]\n13 @[1767225900]\n", line=1, says="is one column"),
    Wrong("two loads", whole=f"time,cpu,reads\n{EPOCH},1,2\n{EPOCH + 300},1,2\n", line=2, blamed="--load-column",
          says="`cpu` and `reads`"),
    Wrong("value and load", whole=f"time,value,load\n{EPOCH},1,2\n{EPOCH + 300},1,2\n", line=2,
          blamed="--load-column", says="`value` and `load`"),
    Wrong("value twice", whole=f"time,value,value\n{EPOCH},1,2\n{EPOCH + 300},1,2\n", line=2, blamed="--load-column",
          says="a number"),
    Wrong("two times", whole="start,end,value\n" + "2026-01-01T00:00Z,2026-01-01T00:05Z,1\n" * 2, line=1,
          blamed="--time-column", says="`start` and `end`"),
    Wrong("two times without a header", whole=f"{EPOCH},{EPOCH + 300},5\n{EPOCH + 300},{EPOCH + 600},5\n", line=1,
          blamed="--time-column", says="column 1"),
    Wrong("no time", whole="name,value\na,1\nb,2\n", line=1, blamed="--time-column", says="no column timestamp"),
    Wrong("no load", whole="timestamp,state\n2026-01-01T00:00Z,up\n2026-01-01T00:05Z,up\n", line=2, blamed="state",
          says="is no number"),
    Wrong("no load among several", whole="timestamp,state,zone\n2026-01-01T00:00Z,up,a\n2026-01-01T00:05Z,up,b\n",
          line=2, blamed="--load-column", says="no other that holds numbers"),
    Wrong("a time column that is not there", choices=Choices(time_column="when"), blamed="--time-column",
          says="no such column"),
    Wrong("a load column that is not there", choices=Choices(load_column="reads"), blamed="--load-column",
          says="2 `value`"),
    Wrong("column number 0", choices=Choices(load_column="0"), blamed="--load-column", says="no such column"),
    Wrong("column number 3 of 2", choices=Choices(load_column="3"), blamed="--load-column", says="no such column"),
    Wrong("the time as the load", choices=Choices(load_column="timestamp"), blamed="--load-column",
          says="which is the time"),
    Wrong("the load as the time", choices=Choices(time_column="value", load_column="timestamp"), line=2,
          blamed="value", says="is no time"),
    Wrong("two instances", whole="\n".join(["timestamp,instance,value", *(f"{EPOCH + 300 * i},{name},{i}"
          for i in range(6) for name in ("a", "b"))]), line=3, blamed="instance", says="two series"),
    Wrong("two instances, one after the other", whole="\n".join(["timestamp,host,value", *(
          f"{EPOCH + 300 * i},{name},{i}" for name in ("a", "b") for i in range(6))]), line=8, blamed="host",
          says="two series"),
    Wrong("two series without a name", whole="\n".join([HEADER, *(f"{EPOCH + 300 * i},{i + more}" for i in range(6)
          for more in (0, 50))]), line=3, blamed="timestamp", says="two series"),
    Wrong("a separator that is not there", choices=Choices(separator="semicolon"), line=1, blamed="--time-column"),
    Wrong("Excel's line with a letter", whole="sep=x\ntimestampxvalue\n", line=1, blamed="--separator"),
    Wrong("a series of a table", choices=Choices(series="m1"), blamed="--series", says="--load-column"),
    Wrong("a line of a megabyte", whole=f"{HEADER}\n{EPOCH},{'9' * 1_000_000}\n", line=2, says=""),
]  # fmt: skip

BINARY = [
    Wrong("a picture", whole=b"\x89PNG\r\n\x1a\n" + bytes(50), says="export the metric as CSV"),
    Wrong("a spreadsheet", whole=b"PK\x03\x04" + bytes(50), says="export the sheet as CSV"),
    Wrong("compressed", whole=b"\x1f\x8b\x08" + bytes(50), says="unpack it"),
    Wrong(
        "another encoding",
        whole="timestamp,value\n2026-01-01,5\nfür,5\n".encode("latin-1"),
        line=3,
        says="UTF-8",
    ),
    Wrong("NUL bytes", whole=b"timestamp,value\n2026-01-01T00:00Z,5\n\x00\x00,5\n", line=3, says="NUL"),
    Wrong("half of UTF-16", whole=b"\xff\xfet\x00i\x00m", line=1, says="UTF-16"),
]


def metric_data(**changes: Any) -> str:
    result = {"Id": "m1", "Label": "reads", "Timestamps": [f"2026-01-01T00:{5 * i:02}:00+00:00" for i in range(9)],
              "Values": [float(i) for i in range(9)], "StatusCode": "Complete"}  # fmt: skip
    return json.dumps({"MetricDataResults": [{**result, **changes}], "Messages": []})


def matrix(*results: Any, **changes: Any) -> str:
    return json.dumps(
        {"status": "success", "data": {"resultType": "matrix", "result": list(results), **changes}}
    )


VALUES = [[EPOCH + 300 * i, str(i)] for i in range(9)]
JSON = [
    Wrong("JSON cut off", whole='{"MetricDataResults": [\n{"Id": "m1", "Timest', line=2, says="cut off"),
    Wrong("JSON of something else", whole='{"Reservations": []}', says="no kind that is known"),
    Wrong("an empty list", whole="[]", says="no kind that is known"),
    Wrong("nested without end", whole="[" * 100_000, says="no JSON"),
    Wrong("no results", whole='{"MetricDataResults": []}', says="no series"),
    Wrong("no points", whole=metric_data(Timestamps=[], Values=[]), blamed="Values", says="has no points"),
    Wrong("a value missing", whole=metric_data(Values=[1.0]), blamed="MetricDataResults[0]", says="9 Timestamps"),
    Wrong("values that are text", whole=metric_data(Values="many"), blamed="MetricDataResults[0].Values",
          says="a list"),
    Wrong("a negative value", whole=metric_data(Values=[1.0, -1.0, *[2.0] * 7]), blamed="MetricDataResults[0][1]",
          says="0 or more"),
    Wrong("NaN in JSON", whole=metric_data(Values=[1.0, float("nan"), *[2.0] * 7]), blamed="MetricDataResults[0][1]",
          says="cannot be nan"),
    Wrong("a value that is a list", whole=metric_data(Values=[1.0, [], *[2.0] * 7]), blamed="MetricDataResults[0][1]",
          says="neither"),
    Wrong("a value of 400 digits", whole=metric_data(Values=[1.0, 10**400, *[2.0] * 7]),
          blamed="MetricDataResults[0][1]", says="beyond reason"),
    Wrong("partial data", whole=metric_data(StatusCode="PartialData"), blamed="StatusCode", says="not complete"),
    Wrong("more pages", whole=metric_data()[:-1] + ', "NextToken": "x"}', blamed="NextToken", says="cut off"),
    Wrong("two metrics", whole=json.dumps({"MetricDataResults": [
        {"Id": name, "Timestamps": ["2026-01-01T00:00Z"], "Values": [1]} for name in ("m1", "m2")]}),
        blamed="--series", says="1 `m1`, 2 `m2`"),
    Wrong("a series that is not there", whole=metric_data(), choices=Choices(series="m7"), blamed="--series"),
    Wrong("two statistics", whole=json.dumps({"Label": "x", "Datapoints": [
        {"Timestamp": f"2026-01-01T00:0{i}:00Z", "Average": 1.0, "Maximum": 2.0} for i in range(5)]}),
        blamed="--load-column", says="Average and Maximum"),
    Wrong("a statistic that is not there", whole=json.dumps({"Datapoints": [
        {"Timestamp": f"2026-01-01T00:0{i}:00Z", "Average": 1.0} for i in range(5)]}),
        choices=Choices(load_column="Sum"), blamed="--load-column", says="Average"),
    Wrong("a datapoint without a time", whole=json.dumps({"Datapoints": [{"Average": 1.0}]}), blamed="Datapoints[0]",
          says="no Timestamp"),
    Wrong("no datapoints", whole='{"Label": "reads", "Datapoints": []}', blamed="Average", says="no points"),
    Wrong("an instant query", whole=json.dumps({"status": "success", "data": {"resultType": "vector", "result": []}}),
          blamed="data.resultType", says="query_range"),
    Wrong("a query refused", whole='{"status": "error", "error": "bad_data"}', blamed="status", says="bad_data"),
    Wrong("two series of Prometheus", whole=matrix({"metric": {"i": "a"}, "values": VALUES},
          {"metric": {"i": "b"}, "values": VALUES}), blamed="--series", says="1 `i=a`, 2 `i=b`"),
    Wrong("NaN of Prometheus", whole=matrix({"metric": {}, "values": [*VALUES[:3], [EPOCH + 900, "NaN"]]}),
          blamed="data.result[0].values[3]", says="cannot be NaN"),
    Wrong("a histogram", whole=matrix({"metric": {}, "histograms": []}), blamed="data.result[0].values",
          says="a list is expected"),
    Wrong("half a pair", whole=matrix({"metric": {}, "values": [[EPOCH]]}), blamed="data.result[0].values[0]",
          says="a pair"),
    Wrong("no data", whole='{"status": "success", "data": []}', blamed="data", says="an object"),
]  # fmt: skip

FILES = [*TIMES, *LOADS, *TABLES, *BINARY, *JSON]


@pytest.mark.parametrize("wrong", FILES, ids=lambda wrong: wrong.story)
def test_a_wrong_file_is_refused_with_what_is_to_blame(wrong: Wrong) -> None:
    with pytest.raises(BadInput) as refused:
        parse_load("load.csv", wrong.content(), wrong.choices)
    message = str(refused.value)
    assert wrong.says in message
    assert refused.value.line == wrong.line, message
    if wrong.blamed is not None:
        assert refused.value.field == wrong.blamed, message
        assert wrong.blamed in message
    if wrong.line is not None and wrong.line > 1:
        assert f"line {wrong.line}" in message
    assert len(message) < 700


def test_the_file_that_the_cases_change_is_good() -> None:
    assert len(parse_load("load.csv", "\n".join(GOOD).encode(), Choices()).values) == 12
    assert len(parse_load("load.json", metric_data().encode(), Choices()).values) == 9
    assert (
        len(parse_load("load.json", matrix({"metric": {}, "values": VALUES}).encode(), Choices()).values) == 9
    )


def test_at_least_eighty_wrong_inputs_are_kept() -> None:
    assert len(FILES) + len(OPTIONS) >= 110


OPTIONS = [
    ("--days", "0"), ("--days", "-5"), ("--days", "99999999999999999999"), ("--days", "many"),
    ("--replica-hour-usd", "-0.5"), ("--replica-hour-usd", "inf"), ("--replica-hour-usd", "nan"),
    ("--capacity", "0"), ("--capacity", "-1"), ("--capacity", "inf"), ("--capacity", "nan"), ("--capacity", "1e-12"),
    ("--lead-minutes", "0"), ("--lead-minutes", "-70"), ("--lead-minutes", "inf"), ("--lead-minutes", "nan"),
    ("--lead-minutes", "100000"), ("--quantile", "nan"), ("--quantile", "1.5"), ("--quantile", "0.5"),
    ("--quantile", "95"), ("--min-replicas", "0"), ("--min-replicas", "-1"), ("--max-replicas", "0"),
    ("--max-replicas", "100000000"), ("--builds-at-once", "-1"), ("--minimum-lifetime-minutes", "-1"),
    ("--headroom", "0.6"), ("--headroom", "-0.1"), ("--headroom", "nan"), ("--keep-lead-times", "0.9"),
    ("--keep-lead-times", "5"), ("--accept-short-minutes", "-1"), ("--accept-short-minutes", "10081"),
    ("--minimum-lifetime-minutes", "inf"), ("--minimum-lifetime-minutes", "nan"), ("--time-zone", "Nowhere/Land"),
    ("--separator", "dot"), ("--decimal", "hash"), ("--date-order", "ymd"), ("--load-column", "reads"),
    ("--json", "/nowhere/at/all.json"), ("--html", "/nowhere/at/all.html"), ("--html", "."), ("--json", "x\x00y"),
]  # fmt: skip


@pytest.fixture(scope="module")
def good_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("load") / "load.csv"
    rows = [f"{EPOCH + 3600 * hour},{50 + hour % 24}" for hour in range(24 * 6)]
    path.write_text("\n".join([HEADER, *rows]), encoding="utf-8")
    return path


@pytest.mark.parametrize(("option", "value"), OPTIONS)
def test_a_wrong_option_is_refused_by_its_name(good_file: Path, option: str, value: str) -> None:
    result = CliRunner().invoke(app, ["backtest", str(good_file), option, value], terminal_width=200)
    assert result.exit_code == 2, result.output
    assert option in result.output
    assert isinstance(result.exception, SystemExit)


def test_the_output_is_refused_before_the_input_is_read(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        app, ["backtest", str(tmp_path / "absent.csv"), "--html", "/nowhere/page.html"]
    )
    assert result.exit_code == 2
    assert "--html" in result.output
    assert "absent" not in result.output


def test_the_output_is_never_the_input(good_file: Path) -> None:
    before = good_file.read_bytes()
    result = CliRunner().invoke(app, ["backtest", str(good_file), "--json", str(good_file)])
    assert result.exit_code == 2
    assert "which is the input" in result.output
    assert good_file.read_bytes() == before


@pytest.mark.parametrize("path", ["absent.csv", ".", "/dev/zero"])
def test_what_is_no_file_is_refused(path: str, tmp_path: Path) -> None:
    source = path if path.startswith("/") else str(tmp_path / path)
    result = CliRunner().invoke(app, ["backtest", source])
    assert result.exit_code == 2
    assert Path(source).name in result.output


def test_a_load_of_zeros_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "zeros.csv"
    path.write_text(
        "\n".join([HEADER, *(f"{EPOCH + 3600 * hour},0" for hour in range(24 * 6))]), encoding="utf-8"
    )
    result = CliRunner().invoke(app, ["backtest", str(path)])
    assert result.exit_code == 2
    assert "nothing to scale" in result.output
