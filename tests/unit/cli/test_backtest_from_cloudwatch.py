"""A past load from CloudWatch: what is asked for, what an answer is taken for, and what is said where there is none."""

from __future__ import annotations

import io
import math
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from peaker_backtest.errors import BadInput
from peaker_backtest.load_input import PastLoad
from peaker_cli.app import app
from peaker_cli.backtest.live_load import MetricOptions, read_live_load
from peaker_cli.control_plane import ControlPlane
from rich.console import Console
from typer.testing import CliRunner

from peaker_contract.load_settings import LoadMetricSettings
from tests.support.builders import orders
from tests.support.kept_metrics import KeptMetrics

DAY = 86_400
NOW = KeptMetrics().now
READS = MetricOptions("Shop", "Reads", ("Cluster=orders",))
TYPED = ["backtest", "--from-cloudwatch", "--namespace", "Shop", "--metric", "Reads", "--region", "eu-west-1"]


def every(seconds: int, days: float, until_days_ago: float = 0.0) -> list[tuple[float, float]]:
    """A daily course, a point every so many seconds."""
    end = NOW.timestamp() - until_days_ago * DAY
    times = [end - seconds * number for number in range(int(days * DAY / seconds), 0, -1)]
    return [(at, 100 + 50 * math.sin(2 * math.pi * at / DAY)) for at in times]


def read(cloudwatch: KeptMetrics, days: int = 62, metric: LoadMetricSettings | None = None) -> PastLoad:
    control: Any = SimpleNamespace(
        client=lambda _: cloudwatch, region="eu-west-1", clock=SimpleNamespace(now=lambda: NOW)
    )
    return read_live_load(control, metric or READS.over(None), days, Console(file=io.StringIO()))


def refusal(cloudwatch: KeptMetrics) -> str:
    with pytest.raises(BadInput) as refused:
        read(cloudwatch)
    return str(refused.value)


def test_five_minute_points_are_read_as_far_back_as_they_are_kept() -> None:
    load = read(KeptMetrics(every(300, 80)))
    assert load.period_seconds == 300
    assert (NOW.timestamp() - load.times_seconds[0]) / DAY == pytest.approx(62)
    assert load.read == (
        "read 17,856 points, every 5 min, from 2026-09-20 12:00 to 2026-11-21 11:55 UTC, Average of Shop Reads with "
        "Cluster=orders in CloudWatch as load",
    )


def test_further_back_it_is_read_in_hours_and_said_what_they_hide() -> None:
    load = read(KeptMetrics(every(300, 100)), days=100)
    assert load.period_seconds == 3600
    assert len(load.times_seconds) == 100 * 24
    assert "beyond 62 days CloudWatch keeps hours: peaks within one" in load.read[-1]


def test_the_highest_load_of_an_hour_hides_nothing() -> None:
    metric = MetricOptions("Shop", "Reads", statistic="Maximum").over(None)
    assert len(read(KeptMetrics(every(300, 100)), 100, metric).read) == 1


def test_a_sum_by_the_minute_stays_one_by_the_minute() -> None:
    metric = MetricOptions("Shop", "Reads", statistic="Sum", period_seconds=60).over(None)
    of_five_minutes = [(at, 500.0) for at, _ in every(300, 20)]
    assert set(read(KeptMetrics(of_five_minutes), metric=metric).values) == {100.0}


def test_what_lies_before_a_gap_of_weeks_is_left_out() -> None:
    load = read(KeptMetrics([*every(300, 5, until_days_ago=50), *every(300, 30)]))
    assert load.times_seconds[0] == NOW.timestamp() - 30 * DAY
    assert load.read[1] == "1,440 points before 20 days without any are left out"


def test_a_short_gap_stays_one() -> None:
    kept = [(at, load) for at, load in every(300, 30) if not 5 < (NOW.timestamp() - at) / DAY < 7]
    assert int((~(read(KeptMetrics(kept)).series().values >= 0)).sum()) == 2 * 288 - 1


def test_points_that_come_less_often_than_the_period_are_taken_as_they_come() -> None:
    load = read(KeptMetrics(every(900, 30)))
    assert load.period_seconds == 900
    assert "load_metric.period_seconds should be 900" in load.read[-1]


def test_a_load_below_zero_is_refused_with_its_time() -> None:
    at, _ = every(300, 20)[7]
    told = refusal(KeptMetrics([*every(300, 20)[:7], (at, -3.0), *every(300, 20)[8:]]))
    assert "the point of 2026-11-01 12:35: a load cannot be -3.0" in told


def test_a_metric_in_a_unit_of_no_load_is_refused() -> None:
    assert "`Percent` is no load: a utilisation" in refusal(KeptMetrics(every(300, 20), unit="Percent"))


def test_a_metric_that_is_not_there_is_told_with_where_it_was_looked_for() -> None:
    told = refusal(KeptMetrics())
    assert "CloudWatch has no point of Average of Shop Reads with Cluster=orders in eu-west-1" in told
    assert "check --namespace, --metric, --region and --profile" in told


def test_other_dimensions_of_that_metric_are_named() -> None:
    told = refusal(KeptMetrics(written=[{"Cluster": name} for name in "abcde"]))
    assert "that name is there with Cluster=a; Cluster=b; Cluster=c and 2 more: give one of these" in told


def test_a_metric_without_a_history_is_told_from_one_that_is_not_there() -> None:
    assert "though the metric is there" in refusal(KeptMetrics(written=[{"Cluster": "orders"}]))


@pytest.mark.parametrize("dimension", [("Cluster=orders",), ()])
def test_a_metric_is_found_behind_the_first_five_hundred_of_its_name(dimension: tuple[str, ...]) -> None:
    wanted = {"Cluster": "orders"} if dimension else {}
    others = [{"Cluster": "orders", "Shard": str(number)} for number in range(500)]
    cloudwatch = KeptMetrics(written=[*others, wanted])
    with pytest.raises(BadInput, match="though the metric is there: check --statistic"):
        read(cloudwatch, metric=MetricOptions("Shop", "Reads", dimension).over(None))


def test_what_is_given_wins_over_the_cluster_s_settings() -> None:
    configured = orders().load_metric
    metric = MetricOptions(metric="Writes", dimension=("Shard=7",), statistic="Maximum").over(configured)
    assert (metric.namespace, metric.name, metric.statistic, dict(metric.dimensions)) == (
        configured.namespace, "Writes", "Maximum", {"Shard": "7"},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("", "give a file, --cluster, or --from-cloudwatch with a metric"),
        ("--from-cloudwatch", "--from-cloudwatch needs --namespace, or --cluster"),
        ("--from-cloudwatch --namespace Shop", "--from-cloudwatch needs --metric, or --cluster"),
        ("load.csv --from-cloudwatch", "--from-cloudwatch is for CloudWatch: leave it out, or the file"),
        ("load.csv --cluster orders", "--cluster is for CloudWatch"),
        ("load.csv --metric Reads", "--metric is for CloudWatch"),
        ("--cluster orders --load-column 2", "--load-column is for a file: leave it out"),
        ("--cluster orders --history-days 455", "--history-days is 455; give a value from 5 to 454"),
        ("--cluster orders --history-days 0", "--history-days is 0; give a value from 5 to 454"),
        ("--namespace Shop --metric Reads --dimension orders", "give it as NAME=VALUE"),
        ("--namespace Shop --metric R --dimension a=1 --dimension a=2", "is given twice"),
        ("--namespace AWS/EC2 --metric CPUUtilization", "--metric: `CPUUtilization` is no load: a util"),
        ("--namespace :Shop --metric R", "namespace: String should match"),
        ("--namespace Shop --metric R --statistic p99", "statistic: Input should be 'Average'"),
        ("--namespace Shop --metric R --period-seconds 90", "period_seconds: Input should be"),
    ],
)
def test_an_option_that_cannot_be_used_is_named_before_aws_is_asked(options: str, says: str) -> None:
    done = CliRunner().invoke(app, ["backtest", *options.split()])
    assert done.exit_code == 2
    assert says in " ".join(done.output.split())


def test_half_an_answer_of_cloudwatch_makes_no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    partial = KeptMetrics(every(300, 30), ends_with="PartialData")
    monkeypatch.setattr(ControlPlane, "client", lambda *_: partial)
    done = CliRunner().invoke(app, TYPED)
    assert (
        "the load of Reads could not be read: cloudwatch:GetMetricData: the answer ends with PartialData"
        in str(done.exception)
    )


def test_a_metric_of_no_cluster_needs_no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.chdir(tmp_path)
    seen: list[ControlPlane] = []

    def client(control: ControlPlane, _: str) -> KeptMetrics:
        seen.append(control)
        return KeptMetrics(every(1800, 6, until_days_ago=(NOW - control.clock.now()) / timedelta(days=1)))

    monkeypatch.setattr(ControlPlane, "client", client)
    done = CliRunner().invoke(app, [*TYPED, "--days", "1"])
    assert {(one.environment, one.region) for one in seen} == {("", "eu-west-1")}
    assert done.exit_code == 0, done.output
    assert "Average of Shop Reads with no dimension in CloudWatch as load" in " ".join(done.output.split())
