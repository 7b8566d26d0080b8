"""The command `peaker backtest`: files good and bad, the figures, and the page."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import boto3
import numpy as np
import pytest
import typer
from moto import mock_aws
from peaker_cli.backtest import backtest_command
from peaker_cli.backtest_input import BadInput, read_csv
from peaker_cli.deployment import takes_deployment
from typer.testing import CliRunner

from tests.support.builders import orders
from tests.unit.forecasting.loads import START, daily

app = typer.Typer()
app.command()(takes_deployment(backtest_command))
TRACES = Path(__file__).resolve().parents[2] / "data" / "traces"


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def load_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = [f"{START + 3600 * i:.0f},{value:.2f}" for i, value in enumerate(daily(24, 3600))]
    return write(tmp_path_factory.mktemp("load") / "reads.csv", "\n".join(["timestamp,value", *rows]))


@pytest.fixture(scope="module")
def replayed(load_file: Path) -> tuple[str, dict, str]:  # type: ignore[type-arg]
    page, document = load_file.with_suffix(".html"), load_file.with_suffix(".json")
    arguments = [str(load_file), "--capacity", "40", "--lead-minutes", "120", "--days", "7"]
    arguments += ["--replica-hour-usd", "0.5", "--json", str(document), "--html", str(page)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    return result.output, json.loads(document.read_text()), page.read_text()


def test_the_json_has_every_policy_with_shortage_hours_and_dollars(replayed: tuple[str, dict, str]) -> None:  # type: ignore[type-arg]
    document = replayed[1]
    names = [policy["name"] for policy in document["policies"]]
    assert names == ["Peaker", "reactive at 70%", "reactive at 100%", "static peak", "oracle"]
    for policy in document["policies"]:
        assert policy["dollars"] == pytest.approx(0.5 * policy["replica_hours"], abs=0.01)
    assert document["from"] < document["to"]
    assert document["lead_time_minutes"] == 120


def test_the_json_has_accuracy_by_horizon_with_coverage(replayed: tuple[str, dict, str]) -> None:  # type: ignore[type-arg]
    accuracy = replayed[1]["accuracy"]
    assert [one["horizon_minutes"] for one in accuracy] == [30, 60, 180, 360, 720, 1440]
    for one in accuracy:
        assert 0.8 <= one["p95_coverage"] <= 1.0
        assert one["p90_coverage"] <= one["p95_coverage"]


def test_every_decision_has_its_time_and_reason(replayed: tuple[str, dict, str]) -> None:  # type: ignore[type-arg]
    decisions = replayed[1]["decisions"]
    assert decisions
    assert all(one["reason"] and re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\dZ", one["at"]) for one in decisions)


def test_the_table_says_the_verdict(replayed: tuple[str, dict, str]) -> None:  # type: ignore[type-arg]
    text = " ".join(replayed[0].split())
    assert "Short of capacity for" in text
    assert "Accuracy by horizon" in text


def test_the_page_needs_nothing_from_outside_and_holds_the_course(replayed: tuple[str, dict, str]) -> None:  # type: ignore[type-arg]
    page = replayed[2]
    assert "{{" not in page
    assert not re.search(r"(src|href)\s*=|@import|url\(", page)
    assert set(re.findall(r"https?://[^\"' ]+", page)) <= {"http://www.w3.org/2000/svg"}
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    course = json.loads(found.group(1))
    assert len(course["load"]) == len(course["p95"]) == len(course["peaker"]) == 7 * 24
    assert all(p95 is None or p95 >= p50 for p50, p95 in zip(course["p50"], course["p95"], strict=True))


@pytest.mark.parametrize(
    ("text", "where", "remedy"),
    [
        ("", "the file is empty", "header `timestamp,value`"),
        ("time,load\n1,2\n", "line 1: no column timestamp and no column value", "name the columns"),
        ("timestamp,value\n2026-01-01T00:00:00Z,5\nyesterday,5\n", "line 3, column timestamp", "ISO 8601"),
        ("timestamp,value\n0,5\n300,many\n", "line 3, column value: 'many' is no number", "leave it empty"),
        ("timestamp,value\n0,5\n300,-1\n", "line 3, column value", "0 or more"),
        ("timestamp,value\n0,5\n300\n", "line 3: 1 columns where 2 are needed", "on every line"),
        ("timestamp,value\n0,5\n", "1 points", "at least two weeks"),
    ],
)
def test_a_bad_file_is_refused_with_the_place_and_the_remedy(
    tmp_path: Path, text: str, where: str, remedy: str
) -> None:
    with pytest.raises(BadInput) as refused:
        read_csv(write(tmp_path / "bad.csv", text))
    assert where in str(refused.value)
    assert remedy in str(refused.value)


def test_a_missing_file_and_one_that_is_no_text_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no such file"):
        read_csv(tmp_path / "absent.csv")
    (tmp_path / "picture.csv").write_bytes(b"\x89PNG\r\n\xff\xfe")
    with pytest.raises(BadInput, match="export the metric as CSV"):
        read_csv(tmp_path / "picture.csv")


@pytest.mark.parametrize(
    "stamp", ["2026-01-01T00:00:00Z", "2026-01-01 00:00:00", "1767225600", "1767225600000"]
)
def test_times_may_be_iso_or_epoch_seconds_or_milliseconds(tmp_path: Path, stamp: str) -> None:
    past = read_csv(write(tmp_path / "load.csv", f"timestamp,value\n{stamp},1\n1767225900,2\n"))
    assert past.times_seconds[0] == 1767225600.0


def test_an_empty_value_is_a_missing_point(tmp_path: Path) -> None:
    rows = ["timestamp,value", *(f"{300 * i},{'' if i == 2 else i}" for i in range(6))]
    grid = read_csv(write(tmp_path / "load.csv", "\n".join(rows))).series().values
    assert np.isnan(grid[2])
    assert grid[3] == 3.0


@pytest.mark.parametrize(
    ("option", "value"),
    [("--capacity", "-1"), ("--quantile", "1.5"), ("--lead-minutes", "0"), ("--max-replicas", "0")],
)
def test_a_bad_option_is_named(load_file: Path, option: str, value: str) -> None:
    result = CliRunner().invoke(app, [str(load_file), option, value])
    assert result.exit_code == 2
    assert option in result.output


def test_too_little_history_is_refused(tmp_path: Path) -> None:
    rows = ["timestamp,value", *(f"{300 * i},5" for i in range(100))]
    result = CliRunner().invoke(app, [str(write(tmp_path / "short.csv", "\n".join(rows)))])
    assert result.exit_code == 2
    assert "export more" in result.output


def test_a_deployed_clusters_load_comes_from_cloudwatch(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with mock_aws():
        settings = orders(load_metric={**orders().load_metric.model_dump(), "period_seconds": 3600})
        ssm = boto3.client("ssm", region_name="us-east-1")
        ssm.put_parameter(Name="/peaker/dev/clusters/orders", Value=settings.model_dump_json(), Type="String")
        values = daily(10, 3600)
        end = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
        data = [
            {
                "MetricName": settings.load_metric.name,
                "Dimensions": [{"Name": "Cluster", "Value": "orders"}],
                "Timestamp": end - timedelta(hours=len(values) - i),
                "Value": float(value),
            }
            for i, value in enumerate(values)
        ]
        boto3.client("cloudwatch", region_name="us-east-1").put_metric_data(
            Namespace=settings.load_metric.namespace, MetricData=data
        )
        deployed = ["--env", "dev", "--region", "us-east-1"]
        found = CliRunner().invoke(app, ["--cluster", "orders", "--days", "2", *deployed])
        absent = CliRunner().invoke(app, ["--cluster", "payments", *deployed])
    assert found.exit_code == 0, found.output
    assert "orders" in found.output
    assert absent.exit_code == 2
    assert "/peaker/dev/clusters/payments" in absent.output


def test_neither_file_nor_cluster_is_refused() -> None:
    result = CliRunner().invoke(app, [])
    assert result.exit_code == 2
    assert "--cluster" in result.output


def test_every_shipped_trace_is_readable_and_listed_with_its_licence() -> None:
    listed = (TRACES / "manifest.csv").read_text(encoding="utf-8")
    for path in sorted(TRACES.glob("*.csv")):
        if path.stem != "manifest":
            assert f"{path.stem}," in listed
            assert len(read_csv(path).values) > 4000
    assert "ea702d75" in (TRACES / "LICENSE.md").read_text(encoding="utf-8")
