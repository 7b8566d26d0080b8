"""`peaker backtest --latency-limit-ms`: which options and files are taken, and what is read beside the load."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from peaker.domain.reading import Unknown
from peaker_backtest.capacity.measure_input import parse_measure, parse_serving
from peaker_backtest.capacity.proposal import CapacityProposal, Standing
from peaker_backtest.errors import BadInput
from peaker_backtest.load_input import Choices
from peaker_cli.app import app
from peaker_cli.backtest.service_metric import MeasureMetric, read_measure, read_serving
from peaker_cli.backtest.service_observations import Loaded, LoadFile, find_capacity
from peaker_cli.backtest.service_options import ServiceOptions
from typer.testing import CliRunner

from tests.support.kept_metrics import KeptMetrics
from tests.support.queueing import Service, watched

DAY = 86_400
NOW = KeptMetrics().now
HOURLY = Service(step_seconds=3600, days=20)
SEEN = watched(HOURLY)


def table(header: str, *columns: Any) -> str:
    rows = [
        ",".join(f"{cell:g}" if at else f"{cell:.0f}" for at, cell in enumerate(row))
        for row in zip(*columns, strict=True)
    ]
    return "\n".join([header, *rows]) + "\n"


def refused(*words: str) -> str:
    result = CliRunner().invoke(app, ["backtest", *words])
    assert result.exit_code == 2, result.output
    return " ".join(result.output.split())


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--measure", "p95.csv"], "--measure is for the capacity of a replica: give --latency-limit-ms"),
        (["--serving", "4"], "--serving is for the capacity of a replica"),
        (["--latency-limit-ms", "20"], "--latency-limit-ms needs the latency that was: give --measure"),
        (["--latency-limit-ms", "0", "--measure-column", "p95"], "--latency-limit-ms is 0.0; give a value above 0"),
        (["--latency-limit-ms", "nan", "--measure-column", "p95"], "--latency-limit-ms is nan"),
        (["--cpu-limit-percent", "100", "--measure-column", "cpu"], "--cpu-limit-percent is 100.0; give"),
        (["--cpu-limit-percent", "60", "--latency-limit-ms", "20"], "give one of them"),
        (["--latency-limit-ms", "20", "--measure-column", "a", "--serving", "0"], "--serving is 0; give 1 to 10,000"),
        (["--latency-limit-ms", "20", "--measure-dimension", "a=b"], "are for a metric: give --measure-metric"),
        (["--latency-limit-ms", "20", "--measure-metric", "P95"], "give --measure-namespace"),
        (
            ["--latency-limit-ms", "20", "--measure-metric", "P95", "--measure-namespace", "Shop"],
            "is read beside a load from CloudWatch",
        ),
        (
            ["--latency-limit-ms", "20", "--measure-column", "a", "--serving", "4", "--serving-column", "b"],
            "--serving-column is of a file, and --serving is a number",
        ),
    ],
)  # fmt: skip
def test_options_that_do_not_go_together_are_refused_before_anything_is_read(
    options: list[str], says: str
) -> None:
    assert says in refused("no-such-file.csv", *options)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--measure-column", "p95"], "--measure-column is of a file: give --measure with one"),
        (["--measure-namespace", "S", "--measure-metric", "m", "--measure-statistic", "tm99"], "such as p95"),
        (
            ["--measure-namespace", "S", "--measure-metric", "m", "--measure-dimension", "x"],
            "--measure-dimension x is none; give it as NAME=VALUE",
        ),
        (["--measure-namespace", ":S", "--measure-metric", "m"], "the measure cannot be asked for: namespace"),
    ],
)  # fmt: skip
def test_a_metric_that_cannot_be_asked_for_is_refused(options: list[str], says: str) -> None:
    assert says in refused("--from-cloudwatch", "--cluster", "orders", "--latency-limit-ms", "20", *options)


# --- files


def test_load_measure_and_replicas_may_be_columns_of_one_file(tmp_path: Path) -> None:
    path = tmp_path / "all.csv"
    path.write_text(table("time,reads,p95_ms,replicas", SEEN.times, SEEN.load, SEEN.latency_ms, SEEN.serving))
    service = ServiceOptions(latency_limit_ms=20.0, measure_column="p95_ms", serving_column="replicas")
    choices = Choices(load_column="reads")
    assert capacity_of(path, service, choices).evidence is not None


def test_measure_and_replicas_may_be_files_of_their_own_in_other_forms(tmp_path: Path) -> None:
    load, measure, replicas = tmp_path / "load.csv", tmp_path / "p95.json", tmp_path / "replicas.json"
    load.write_text(table("when,reads", SEEN.times, SEEN.load))
    values = [[at, str(ms)] for at, ms in zip(SEEN.times, SEEN.latency_ms, strict=True)]
    other = {"metric": {"job": "other"}, "values": values[:5]}
    series = [{"metric": {"job": "db"}, "values": values}, other]
    measure.write_text(json.dumps({"status": "success", "data": {"resultType": "matrix", "result": series}}))
    counted = {"Id": "n", "Label": "n", "Timestamps": SEEN.times.tolist(), "Values": SEEN.serving.tolist()}
    replicas.write_text(json.dumps({"MetricDataResults": [counted]}))
    service = ServiceOptions(20.0, measure=measure, measure_column="job=db", serving=str(replicas))
    # The name of the load's time column is not that of the others.
    found = capacity_of(load, service, Choices(time_column="when"))
    assert found.evidence is not None
    assert found.evidence.replicas == (4, 4)


def test_without_replicas_the_report_says_unknown(tmp_path: Path) -> None:
    path = tmp_path / "all.csv"
    path.write_text(table("time,reads,p95_ms", SEEN.times, SEEN.load, SEEN.latency_ms))
    found = capacity_of(path, ServiceOptions(20.0, measure_column="p95_ms"), Choices(load_column="reads"))
    assert found.standing is Standing.UNKNOWN
    assert "give --serving with a number or a file" in found.reason


def capacity_of(path: Path, service: ServiceOptions, choices: Choices) -> CapacityProposal:
    file, limit = LoadFile.at(path), service.limit()
    assert limit is not None
    proposal, _ = find_capacity(service, limit, Loaded(file.name, file.load(choices), file), choices, None)
    return proposal


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ("time,p95\n1,2\n", "p95.csv, line 2, column time"),
        (f"time,p95\n{DAY * 20000},-1\n{DAY * 20000 + 300},2\n", "a measure cannot be -1"),
        (f"time,a,b\n{DAY * 20000},1,2\n{DAY * 20000 + 300},2,3\n", "may all be the measure; pass --measure-column"),
        (json.dumps({"MetricDataResults": [{"Id": one, "Timestamps": [], "Values": []} for one in "ab"]}),
         "2 series; pass --measure-column"),
    ],
)  # fmt: skip
def test_a_measure_that_cannot_be_read_is_told_by_its_own_option(rows: str, says: str) -> None:
    with pytest.raises(BadInput) as told:
        parse_measure("p95.csv", rows.encode(), Choices(), None)
    assert says in str(told.value)
    assert "--load-column" not in str(told.value)


def test_a_load_taken_for_a_number_of_replicas_is_refused() -> None:
    rows = f"time,n\n{DAY * 20000},123456\n{DAY * 20000 + 300},123456\n"
    with pytest.raises(BadInput, match="up to 10,000 are expected: check --serving-column"):
        parse_serving("n.csv", rows.encode(), Choices(), None)


def test_a_cpu_of_all_processors_together_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "all.csv"
    path.write_text(table("time,reads,cpu", SEEN.times, SEEN.load, 300 + SEEN.latency_ms))
    service = ServiceOptions(cpu_limit_percent=60.0, measure_column="cpu", serving="4")
    with pytest.raises(BadInput, match="a sum over processors"):
        capacity_of(path, service, Choices(load_column="reads"))


# --- CloudWatch


def control_of(cloudwatch: KeptMetrics) -> Any:
    return SimpleNamespace(
        client=lambda _: cloudwatch, region="eu-west-1", environment="prod", clock=SimpleNamespace(now=lambda: NOW)
    )  # fmt: skip


def five_minutes(days: float, value: float) -> list[tuple[float, float]]:
    end = NOW.timestamp()
    return [(end - 300 * number, value + math.sin(number)) for number in range(int(days * 288), 0, -1)]


def test_the_cpu_of_a_base_replica_is_asked_for_by_its_instance() -> None:
    cloudwatch = KeptMetrics(five_minutes(20, 40.0))
    metric = MeasureMetric.named("AWS/EC2", "CPUUtilization", ("InstanceId=i-1",), None)
    found = read_measure(control_of(cloudwatch), metric, 62)
    assert found.period_seconds == 300
    asked = cloudwatch.asked[0]["MetricDataQueries"][0]["MetricStat"]
    assert asked["Metric"]["Dimensions"] == [{"Name": "InstanceId", "Value": "i-1"}]
    assert asked["Stat"] == "Average"
    assert found.read[0].endswith(
        "Average of AWS/EC2 CPUUtilization with InstanceId=i-1 in CloudWatch as measure"
    )


def test_how_many_served_is_the_cluster_s_own_metric() -> None:
    cloudwatch = KeptMetrics(five_minutes(20, 4.0))
    found = read_serving(control_of(cloudwatch), "orders", 62)
    assert not isinstance(found, Unknown)
    metric = cloudwatch.asked[0]["MetricDataQueries"][0]["MetricStat"]["Metric"]
    assert (metric["Namespace"], metric["MetricName"]) == ("Peaker/prod", "ServingReplicas")


def test_a_cluster_that_never_counted_its_replicas_is_unknown() -> None:
    found = read_serving(control_of(KeptMetrics()), "orders", 62)
    assert isinstance(found, Unknown)
    assert "give --serving" in found.why


def test_a_measure_that_cloudwatch_does_not_have_is_refused_by_its_name() -> None:
    metric = MeasureMetric.named("Shop", "P95", (), "p95")
    with pytest.raises(BadInput, match="no points of p95 of Shop P95 with no dimension in eu-west-1"):
        read_measure(control_of(KeptMetrics()), metric, 62)


def test_help_has_an_example_and_the_options_in_a_panel_of_their_own() -> None:
    shown = CliRunner().invoke(app, ["backtest", "--help"], env={"COLUMNS": "200"}).output
    assert "Capacity of a replica" in shown
    assert "--latency-limit-ms 20 --measure p95.csv --serving replicas.csv" in shown
