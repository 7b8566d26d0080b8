"""Files and options that cannot be used: each is refused in one line with the place, the value and the remedy."""

# ruff: noqa: E501
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from peaker_backtest.errors import BadInput
from peaker_backtest.load_input import Choices, parse_load
from peaker_cli.app import app
from typer.testing import CliRunner

HEADER = "timestamp,value"
EPOCH = 1_767_225_600
GOOD = [HEADER, *(f"2026-01-01T00:{5 * minute:02}:00Z,{10 + minute}" for minute in range(12))]
BERLIN = Choices(time_zone="Europe/Berlin")
Case = tuple[str | bytes, Choices, str]


def changed(line: int, text: str, says: str, **choices: str) -> Case:
    """The good file with another line (1 is the header)."""
    lines = "\n".join(text if number == line else one for number, one in enumerate(GOOD, start=1))
    return lines, Choices(**choices), f"line {line}: {says}"


def whole(text: str | bytes, says: str, choices: Choices | None = None) -> Case:
    return text, choices or Choices(), says


def metric_data(**changes: Any) -> str:
    result = {"Id": "m1", "Label": "reads", "Timestamps": [f"2026-01-01T00:{5 * i:02}:00+00:00" for i in range(9)],
              "Values": [float(i) for i in range(9)], "StatusCode": "Complete"}  # fmt: skip
    return json.dumps({"MetricDataResults": [{**result, **changes}], "Messages": []})


def statistics(**point: Any) -> str:
    return json.dumps({"Datapoints": [{"Timestamp": f"2026-01-01T00:0{i}:00Z", **point} for i in range(5)]})


AUTUMN = "time,value\n" + "\n".join(
    f"2026-10-25 {hour}:{minute:02},{10 * n + minute}" for n, hour in enumerate(("01", "02", "02", "03"))
    for minute in range(0, 60, 15)
)  # fmt: skip
CASES: dict[str, Case] = {
    "a year 9025": changed(7, "9025-01-01T00:25:00Z,15", "9025-01-01T00:25:00Z is outside 1990 to 2099"),
    "ten years off": changed(7, "2036-01-01T00:25:00Z,15", "3,652 days without a point between 2026-01-01 00:55 (line 13)"),
    "a word as a time": changed(4, "yesterday,15", "'yesterday' is no time; write ISO 8601 (2026-11-21T01:40:00Z)"),
    "no time": changed(4, ",15", "'' is no time"),
    "a thirtieth of February": changed(4, "2026-02-30T00:10:00Z,15", "'2026-02-30T00:10:00Z' is no time"),
    "an offset of 99 hours": changed(4, "2026-01-01T00:10:00+99:00,15", "'2026-01-01T00:10:00+99:00' is no time"),
    "a spreadsheet's day number": changed(4, "46023.5,15", "'46023.5' is no time"),
    "an epoch number among dates": changed(4, f"{EPOCH},15", f"{EPOCH} among times with a zone"),
    "a time without a zone among others": changed(4, "2026-01-01T00:10:00,15", "2026-01-01T00:10:00 among times with a"),
    "the same time with another load": changed(4, "2026-01-01T00:05:00Z,99", "the time of line 3 again (2026-01-01 00:05)"),
    "an hour that the clock skips": whole(
        "time,value\n2026-03-29 01:55,1\n2026-03-29 02:30,2\n", "line 3: 2026-03-29 02:30 is not there in Europe/Berlin", BERLIN
    ),
    "a clock change without a zone": whole(AUTUMN, "line 10: the time of line 6 again (2026-10-25 02:00) with another load, "
                                           "20 and not 10: two series in one file: keep one; or a clock change: pass --time-zone"),
    "a zone that is a path": (*changed(1, HEADER, "", time_zone="../../etc/passwd")[:2], "--time-zone is ../../etc"),
    "an offset that is none": (*changed(1, HEADER, "", time_zone="+99:00")[:2], "--time-zone is +99:00"),
    "more gaps than points": whole("\n".join([HEADER, *(f"2026-01-{day:02}T00:{m:02}:00Z,5"
                                   for day in range(1, 12) for m in (0, 5, 10))]), "too many gaps to judge"),
    "one point a day": whole("\n".join([HEADER, *(f"2026-01-{day:02},5" for day in range(1, 29))]), "24.0 h"),
    "single requests": whole("\n".join([HEADER, *(f"{EPOCH + i / 20},5" for i in range(30))]), "single requests"),
    "one time only": whole("\n".join([HEADER, *(["2026-01-01T00:00:00Z,5"] * 5)]), "points with a load at 1 times"),
    "no load at all": whole("\n".join([HEADER, *(f"{EPOCH + 300 * i}," for i in range(9))]), "points with a load at 0"),
    "a word as a load": changed(5, "2026-01-01T00:15:00Z,many", "'many' is no number; write decimals with a point"),
    "a decimal comma": whole("time;value\n2026-01-01 00:00;12,5\n", "line 2: '12,5' is no number"),
    "a thousands separator": changed(5, '2026-01-01T00:15:00Z,"1,234"', "'1,234' is no number"),
    "a number of a program": changed(5, "2026-01-01T00:15:00Z,1_000", "'1_000' is no number"),
    "digits of another script": changed(5, "2026-01-01T00:15:00Z,١٢", "'١٢' is no number"),
    "not a number": changed(5, "2026-01-01T00:15:00Z,NaN", "'NaN' is no number; write decimals"),
    "negative": changed(5, "2026-01-01T00:15:00Z,-1", "a load cannot be -1; write a number from 0"),
    "beyond reason": changed(5, "2026-01-01T00:15:00Z,1e300", "a load cannot be 1e300"),
    "empty": whole("", "the file is empty"),
    "no header": whole("\n".join(GOOD[1:]), "line 1: '2026-01-01T00:00:00Z,10' is no header; write one such as `timestamp,value`"),
    "a line cut off": changed(5, "2026-01-01T00:15:00Z", "1 columns where the header has 2, separated by comma"),
    "a decimal comma in commas": changed(5, "2026-01-01T00:15:00Z,12,5", "3 columns where the header has 2"),
    "a quote that is never closed": changed(5, '"2026-01-01T00:15:00Z,12', "1 columns where"),
    "a cell of a megabyte": changed(5, f"2026-01-01T00:15:00Z,{'9' * 1_000_000}", "cannot be split into columns"),
    "two loads": whole(f"time,cpu,reads\n{EPOCH},1,2\n", "several columns may be the load; the columns are 1 `time`, 2 `cpu`, 3 "
                       "`reads`; pass --load-column"),
    "no such column": (*changed(1, HEADER, "", load_column="reads")[:2], "--load-column is reads, which is no column once"),
    "the time as the load": (*changed(1, HEADER, "", time_column="1", load_column="timestamp")[:2], "are one column"),
    "the load first": whole(f"value,time\n7,{EPOCH}\n", "line 2: '7' is no time; write ISO 8601 (2026-11-21T01:40:00Z) or epoch "
                            "seconds, or pass --time-column"),
    "a picture": whole(b"\x89PNG\r\n\x1a\n" + bytes(50), "line 1: no UTF-8 text; export the metric as CSV in UTF-8"),
    "another encoding": whole("timestamp,value\n2026-01-01,5\nfür,5\n".encode("latin-1"), "line 3: no UTF-8"),
    "JSON cut off": whole('{"MetricDataResults": [\n{"Id": "m1", "Timest', "the file may be cut off"),
    "JSON of something else": whole('{"Reservations": []}', "JSON of no kind that is read"),
    "nested without end": whole("[" * 100_000, "no JSON"),
    "no results": whole('{"MetricDataResults": []}', "no points in it"),
    "a value missing": whole(metric_data(Values=[1.0]), "MetricDataResults[0]: 9 Timestamps but 1 Values"),
    "values that are text": whole(metric_data(Values="many"), "MetricDataResults.0.Values: Input should be a valid list"),
    "a negative value": whole(metric_data(Values=[1.0, -1.0, *[2.0] * 7]), "MetricDataResults[0].Values[1]: a load cannot be -1"),
    "NaN in JSON": whole(metric_data(Values=[1.0, float("nan"), *[2.0] * 7]), "Values[1]: a load cannot be nan"),
    "a value of 400 digits": whole(metric_data(Values=[1.0, 10**400, *[2.0] * 7]), "Values"),
    "partial data": whole(metric_data(StatusCode="PartialData"), "the export is not complete"),
    "more pages": whole(metric_data()[:-1] + ', "NextToken": "x"}', "the export is not complete"),
    "two metrics": whole(json.dumps({"MetricDataResults": [
        {"Id": name, "Timestamps": ["2026-01-01T00:00Z"], "Values": [1]} for name in ("m1", "m2")]}), "2 series (m1, m2); export one"),
    "two statistics": whole(statistics(Average=1.0, Maximum=2.0), "each point has Average, Maximum; pass --load-column"),
    "a statistic that is not there": whole(statistics(Average=1.0), "pass --load-column", Choices(load_column="Sum")),
    "a datapoint that is text": whole(statistics(Average="high"), "Datapoints[0].Average: 'high' is no number"),
    "a latency in its label": whole(metric_data(Label="ReadLatency"), "`ReadLatency` is no load: a time"),
    "a column of percent": whole(f"time,cpu_percent\n{EPOCH},1\n", "`cpu_percent` is no load: a utilisation"),
    "a column that was chosen": whole(f"time,reads,replica_lag\n{EPOCH},1,1\n", "`replica_lag` is no load: a lag",
                                      Choices(load_column="3")),
    "a unit of time": whole(statistics(Average=1.0, Unit="Milliseconds"), "`Milliseconds` is no load: a time"),
    "no datapoints": whole('{"Label": "reads", "Datapoints": []}', "no points in it"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_wrong_file_is_refused_with_what_is_to_blame(name: str) -> None:
    text, choices, says = CASES[name]
    with pytest.raises(BadInput) as refused:
        parse_load("load.csv", text if isinstance(text, bytes) else text.encode(), choices)
    message = str(refused.value)
    assert says in message
    assert "\n" not in message
    assert len(message) < 500


def test_the_files_that_the_cases_change_are_good() -> None:
    assert len(parse_load("load.csv", "\n".join(GOOD).encode(), Choices()).values) == 12
    assert len(parse_load("load.json", metric_data().encode(), Choices()).values) == 9


def test_a_hostile_value_is_shown_escaped() -> None:
    with pytest.raises(BadInput) as refused:
        parse_load("load", f"time,value\n{EPOCH},1\n{EPOCH + 300},\x1b[31m\n".encode(), Choices())
    assert "\\x1b[31m" in str(refused.value).replace("\\\\", "\\")


OPTIONS = [
    ("--days", "0"), ("--days", "many"), ("--replica-hour-usd", "-0.5"), ("--replica-hour-usd", "nan"),
    ("--capacity", "0"), ("--capacity", "inf"), ("--capacity", "nan"), ("--capacity", "1e-12"),
    ("--lead-minutes", "0"), ("--lead-minutes", "nan"), ("--lead-minutes", "100000"), ("--quantile", "nan"),
    ("--quantile", "0.5"), ("--quantile", "95"), ("--min-replicas", "0"), ("--max-replicas", "0"),
    ("--max-replicas", "100000000"), ("--minimum-lifetime-minutes", "-1"), ("--minimum-lifetime-minutes", "nan"),
    ("--headroom", "0.6"), ("--headroom", "nan"),
    ("--fleet-of-today", "0"), ("--fleet-of-today", "10001"), ("--time-zone", "Nowhere/Land"),
    ("--load-column", "reads"), ("--json", "/nowhere/at/all.json"), ("--html", "/nowhere/at/all.html"), ("--html", "."),
    ("--json", "x\x00y"), ("--env", "prod"), ("--region", "eu-west-1"), ("--profile", "p"),
    ("--endpoint", "http://127.0.0.1:1"),
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
