"""The forecast's adapters against moto's CloudWatch and DynamoDB."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from moto import mock_aws
from peaker.adapters.cloudwatch.metrics import (
    CloudWatchLoadHistory,
    CloudWatchMetricPublisher,
    query_period_seconds,
)
from peaker.adapters.dynamodb.forecast_records import DynamoForecastRecords
from peaker.adapters.dynamodb.items import LedgerTable
from peaker.adapters.dynamodb.lease import DynamoDbLease
from peaker.adapters.dynamodb.ledger import DynamoDbLedger
from peaker.domain.document.plan import Method as ReturnOrBuild
from peaker.domain.document.plan import ScaleOutPlan, Way
from peaker.domain.forecasting.series import KEPT_HISTORY_DAYS
from peaker.domain.planning.plan_decision import plan_scale_out
from peaker.domain.runs.batch import Member
from peaker.domain.runs.execution_input import ExecutionInput
from peaker.domain.runs.ledger import Holder, RunPart, RunRow

from peaker_contract.load_settings import LoadMetricSettings
from peaker_contract.metrics import Metric
from peaker_contract.steps import Method
from tests.support.builders import BASE, fleet_with, orders, plan_facts, replica
from tests.support.kept_metrics import KeptMetrics

NOW = datetime(2026, 11, 21, 12, 10, tzinfo=UTC)
METRIC = LoadMetricSettings(
    namespace="Demand",
    name="Reads",
    statistic="Average",
    period_seconds=300,
    dimensions={"Cluster": "orders"},
)


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        yield


def put(client: Any, minutes_ago: float, value: float) -> None:
    client.put_metric_data(
        Namespace="Demand",
        MetricData=[
            {
                "MetricName": "Reads",
                "Dimensions": [{"Name": "Cluster", "Value": "orders"}],
                "Timestamp": NOW - timedelta(minutes=minutes_ago),
                "Value": value,
            }
        ],
    )


def test_the_history_comes_in_order_and_without_the_period_that_has_not_ended(aws: None) -> None:
    client = boto3.client("cloudwatch")
    for minutes_ago, value in ((25, 1.0), (15, 3.0), (20, 2.0), (-1, 9.0)):
        put(client, minutes_ago, value)
    points = CloudWatchLoadHistory(client).metric_points(METRIC, NOW - timedelta(days=1), NOW)
    assert list(points.values) == [1.0, 2.0, 3.0]
    assert list(points.times_seconds) == sorted(points.times_seconds)
    assert points.period_seconds == 300


def test_no_points_are_an_empty_answer(aws: None) -> None:
    points = CloudWatchLoadHistory(boto3.client("cloudwatch")).metric_points(
        METRIC, NOW - timedelta(days=1), NOW
    )
    assert list(points.values) == []


def test_a_sum_over_a_longer_period_is_brought_back_to_the_metrics_own(aws: None) -> None:
    client = boto3.client("cloudwatch")
    for minutes_ago in (20, 19, 18, 17, 16):
        put(client, minutes_ago, 10.0)
    per_minute = METRIC.model_copy(update={"statistic": "Sum", "period_seconds": 60})
    points = CloudWatchLoadHistory(client).metric_points(per_minute, NOW - timedelta(hours=1), NOW)
    assert sum(points.values) == pytest.approx(10.0)


def test_cloudwatch_answers_the_whole_history_that_a_forecast_asks_for() -> None:
    """A start of 63 days ago has no points of five minutes at all."""
    end = NOW.timestamp() // 300 * 300
    days_of_points = [(end - 300 * number, 1.0) for number in range(100 * 288, 0, -1)]
    client: Any = KeptMetrics(days_of_points, now=NOW + timedelta(seconds=5))
    points = CloudWatchLoadHistory(client).metric_points(METRIC, NOW - timedelta(days=KEPT_HISTORY_DAYS), NOW)
    assert len(points.values) == KEPT_HISTORY_DAYS * 288


@pytest.mark.parametrize(("own", "asked"), [(60, 300), (300, 300), (420, 600), (1800, 1800)])
def test_periods_are_asked_for_that_are_kept_for_weeks(own: int, asked: int) -> None:
    assert query_period_seconds(own) == asked


def test_figures_are_published_with_the_cluster_as_dimension(aws: None) -> None:
    client = boto3.client("cloudwatch")
    CloudWatchMetricPublisher(client, "local").publish(
        "orders", NOW, {Metric.REQUIRED_REPLICAS: 3.0, Metric.FORECAST_LOAD_P50: float("nan")}
    )
    found = client.list_metrics(Namespace="Peaker/local")["Metrics"]
    assert [(one["MetricName"], one["Dimensions"]) for one in found] == [
        ("RequiredReplicas", [{"Name": "Cluster", "Value": "orders"}])
    ]


@pytest.fixture
def records(aws: None) -> DynamoForecastRecords:
    client = boto3.client("dynamodb")
    client.create_table(
        TableName="ledger",
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
        AttributeDefinitions=[
            {"AttributeName": "pk", "AttributeType": "S"},
            {"AttributeName": "sk", "AttributeType": "S"},
        ],
    )
    table = LedgerTable(client, "ledger")
    return DynamoForecastRecords(table, DynamoDbLedger(table))


PROOF = [
    {"volume": "data", "verdict": "IOPS-limited", "iops_delivered": 2250.0, "iops_promised": 3000},
    {"volume": "log", "verdict": "bandwidth-limited", "iops_delivered": 500.0, "iops_promised": 3000},
    {"volume": "more", "verdict": "unknown", "reason": "no usable load test"},
]


READ = {"bytes_read": 5e8, "state": "done", "elapsed_seconds": 90.0, "hot_warm_seconds": 9.0}


def test_only_scale_outs_that_succeeded_teach_the_lead_time(records: DynamoForecastRecords) -> None:
    table = LedgerTable(boto3.client("dynamodb"), "ledger")
    lease, ledger = DynamoDbLease(table), DynamoDbLedger(table)
    built, unreadable, other = {}, {"plan": '{"method": 7}'}, {"member": '{"batch": 7}'}
    outcomes = [("scale_out", "succeeded", built), ("scale_out", "rolled_back", built)]
    outcomes += [("scale_in", "succeeded", built), ("scale_out", "succeeded", unreadable)]
    outcomes += [("scale_out", "succeeded", other)]
    for number, (operation, outcome, parts) in enumerate(outcomes):
        run_id, start = f"run-{number}", NOW + timedelta(hours=number)
        holder = lease.acquire("orders", run_id, operation, start, start + timedelta(hours=1))
        run = RunRow(run_id, "orders", operation, start, ExecutionInput(cluster="orders"), parts=parts)
        ledger.open_run(holder, run)
        ledger.start_step(holder, "ReportPrewarm", start, start + timedelta(hours=1))
        ledger.finish_step(holder, "ReportPrewarm", start + timedelta(seconds=90), READ)
        ledger.start_step(holder, "VerifyStorage", start, start + timedelta(hours=1))
        ledger.finish_step(holder, "VerifyStorage", start + timedelta(seconds=60), {"limits": PROOF})
        ledger.close_run(holder, outcome, start + timedelta(minutes=30))
        lease.release(holder, start)
    past = records.past_steps("orders")
    assert past.seconds == {"ReportPrewarm": [90.0], "VerifyStorage": [60.0]}
    assert list(past.knee_shares) == [0.75]
    assert (list(past.hydrated_bytes), list(past.hydrated_whole)) == ([5e8], [True])


def test_a_build_that_was_waited_for_teaches_how_fast_its_replica_replays(
    records: DynamoForecastRecords,
) -> None:
    table = LedgerTable(boto3.client("dynamodb"), "ledger")
    lease, ledger = DynamoDbLease(table), DynamoDbLedger(table)
    holder = lease.acquire("orders", "run-0", "scale_out", NOW, NOW + timedelta(hours=1))
    ledger.open_run(holder, RunRow("run-0", "orders", "scale_out", NOW, ExecutionInput(cluster="orders")))
    lag: dict[str, object] = {"samples": [{"lag_seconds": 900.0}, {"lag_seconds": 0}]}
    steps = (("CreateVolumes", 0, 1, {}), ("StartReplication", 29, 30, {}), ("WaitForCatchUp", 35, 45, lag))
    for name, began, ended, numbers in steps:
        ledger.start_step(holder, name, NOW + timedelta(minutes=began), NOW + timedelta(hours=1))
        ledger.finish_step(holder, name, NOW + timedelta(minutes=ended), numbers)
    ledger.close_run(holder, "succeeded", NOW + timedelta(minutes=50))
    assert list(records.past_steps("orders").apply_speeds) == [1 + 30 / 15]


def test_a_later_member_of_a_batch_is_behind_since_the_snapshots_of_its_batch(
    records: DynamoForecastRecords,
) -> None:
    table = LedgerTable(boto3.client("dynamodb"), "ledger")
    lease, ledger = DynamoDbLease(table), DynamoDbLedger(table)
    batch = lease.acquire("orders", "run-0", "scale_out", NOW, NOW + timedelta(hours=1))
    ledger.open_run(batch, RunRow("run-0", "orders", "scale_out", NOW, ExecutionInput(cluster="orders")))
    finish(ledger, batch, "CreateSnapshots", 0, 0)
    member = replace(batch, run_id="run-0-2", batch="run-0")
    part = Member(batch="run-0", number=2, method=Method.BUILD, state="in_service")
    parts = {part.ledger_name: part.model_dump_json()}
    row = RunRow("run-0-2", "orders", "scale_out", NOW, ExecutionInput(cluster="orders"), parts=parts)
    ledger.open_run(member, row)
    lag: dict[str, object] = {"samples": [{"lag_seconds": 900.0}]}
    finish(ledger, member, "CreateVolumes", 60, 61)
    finish(ledger, member, "StartReplication", 89, 90)
    finish(ledger, member, "WaitForCatchUp", 95, 120, lag)
    assert list(records.past_steps("orders").apply_speeds) == [1 + 90 / 30]


def test_a_return_teaches_returns_and_no_build(records: DynamoForecastRecords) -> None:
    table = LedgerTable(boto3.client("dynamodb"), "ledger")
    lease, ledger = DynamoDbLease(table), DynamoDbLedger(table)
    holder = lease.acquire("orders", "run-0", "scale_out", NOW, NOW + timedelta(hours=1))
    plan = returning_plan()
    parts = {plan.ledger_name: plan.model_dump_json()}
    row = RunRow("run-0", "orders", "scale_out", NOW, ExecutionInput(cluster="orders"), parts=parts)
    ledger.open_run(holder, row)
    finish(ledger, holder, "StartDatabase", 0, 1)
    finish(ledger, holder, "WaitForCatchUp", 2, 12, {"samples": [{"lag_seconds": 1800.0}]})
    ledger.close_run(holder, "succeeded", NOW + timedelta(minutes=50))
    past = records.past_steps("orders")
    assert past.returned == {"StartDatabase": [60.0], "WaitForCatchUp": [600.0]}
    assert list(past.return_speeds) == [1 + 1800 / 600]
    assert not past.seconds


@pytest.mark.parametrize("operation", ["scale_in", "scale_out"])
def test_builds_teach_also_behind_two_batches_of_forty_that_served_nobody(
    records: DynamoForecastRecords, operation: str
) -> None:
    ledger = DynamoDbLedger(LedgerTable(boto3.client("dynamodb"), "ledger"))
    member = Member(batch="run-0", number=1, method=Method.BUILD, state="in_service")
    for number in range(25):
        finish(ledger, kept(ledger, number, member), "CreateVolumes", 0, number + 1)
    batch = kept(ledger, 30, member.model_copy(update={"state": "gone"}))
    for number in range(2, 82):
        of_batch = replace(batch, run_id=f"run-30-{number}", batch="run-30")
        part = Member(batch="run-30", number=number, method=Method.BUILD, state="gone")
        parts = {part.ledger_name: part.model_dump_json()}
        at = NOW + timedelta(days=30)
        row = RunRow(of_batch.run_id, "orders", operation, at, ExecutionInput(cluster="orders"), parts=parts)
        ledger.open_run(of_batch, row)
    assert records.past_steps("orders").seconds == {"CreateVolumes": [60.0 * n for n in range(16, 26)]}


def test_a_build_teaches_also_behind_a_month_of_returns(records: DynamoForecastRecords) -> None:
    """Its storage proof is the measured capacity: without it the settings' figure held again overnight."""
    ledger = DynamoDbLedger(LedgerTable(boto3.client("dynamodb"), "ledger"))
    for number in range(31):
        holder = kept(ledger, number, *([returning_plan()] if number else []))
        step = ("StartDatabase", 0, number) if number else ("VerifyStorage", 0, 1, {"limits": PROOF})
        finish(ledger, holder, *step)
        ledger.close_run(holder, "succeeded", NOW + timedelta(days=number, minutes=50))
    past = records.past_steps("orders")
    assert list(past.knee_shares) == [0.75]
    assert past.returned == {"StartDatabase": [60.0 * n for n in range(21, 31)]}


def kept(records_of: DynamoDbLedger, number: int, *parts: RunPart) -> Holder:
    """A run of a day of its own."""
    start, run_id = NOW + timedelta(days=number), f"run-{number}"
    lease = DynamoDbLease(LedgerTable(boto3.client("dynamodb"), "ledger"))
    holder = lease.acquire("orders", run_id, "scale_out", start, start + timedelta(hours=1))
    given = {one.ledger_name: one.model_dump_json() for one in parts}
    run = RunRow(run_id, "orders", "scale_out", start, ExecutionInput(cluster="orders"), parts=given)
    records_of.open_run(holder, run)
    return holder


def finish(
    ledger: DynamoDbLedger,
    holder: Holder,
    step: str,
    began: float,
    ended: float,
    numbers: dict[str, object] | None = None,
) -> None:
    """Minutes from now."""
    ledger.start_step(holder, step, NOW + timedelta(minutes=began), NOW + timedelta(hours=1))
    ledger.finish_step(holder, step, NOW + timedelta(minutes=ended), numbers or {})


def returning_plan() -> ScaleOutPlan:
    fleet = fleet_with(replica(BASE))
    method = ReturnOrBuild(action="return", reason="", replica="i-00000000000000e01")
    return plan_scale_out(plan_facts(fleet, orders(), now=NOW), [Way(method=method)])


@pytest.mark.parametrize(
    ("numbers", "pages"),
    [
        ({"buffer_pool_pages": 75, "buffer_pool_held_pages": 100}, [100]),
        ({"buffer_pool_pages": 75}, [75]),
        ({"buffer_pool_pages": 0}, [0]),
        ({"buffer_pool_pages": True}, []),
        ({"buffer_pool_pages": "75"}, []),
    ],
    ids=["held", "of an older host package", "empty", "no amount", "text"],
)
def test_a_pool_is_as_large_as_what_the_donor_holds_not_as_its_list(
    records: DynamoForecastRecords, numbers: dict[str, object], pages: list[int]
) -> None:
    """A list has three quarters of a full pool: by it no pool would ever take 80 % of an instance's memory."""
    ledger = DynamoDbLedger(LedgerTable(boto3.client("dynamodb"), "ledger"))
    member = Member(batch="run-0", number=1, method=Method.RETURN, state="in_service")
    finish(ledger, kept(ledger, 0, member, returning_plan()), "PrepareDonor", 0, 1, numbers)
    assert list(records.past_steps("orders").pool_bytes) == [one * 16384 for one in pages]


def test_the_set_of_a_batch_teaches_once_also_where_its_first_member_returned(
    records: DynamoForecastRecords,
) -> None:
    ledger = DynamoDbLedger(LedgerTable(boto3.client("dynamodb"), "ledger"))
    back = Member(batch="run-0", number=1, method=Method.RETURN, state="in_service")
    holder = kept(ledger, 0, back, returning_plan())
    finish(ledger, holder, "PrepareDonor", 0, 1, {"buffer_pool_pages": 100})
    finish(ledger, holder, "CreateSnapshots", 1, 2)
    finish(ledger, holder, "StartDatabase", 0, 1)
    for number in (2, 3):
        member, run_id = replace(holder, run_id=f"run-0-{number}", batch="run-0"), f"run-0-{number}"
        part = Member(batch="run-0", number=number, method=Method.BUILD, state="in_service")
        parts = {part.ledger_name: part.model_dump_json()}
        row = RunRow(run_id, "orders", "scale_out", NOW, ExecutionInput(cluster="orders"), parts=parts)
        ledger.open_run(member, row)
        finish(ledger, member, "AwaitSnapshots", 2, 6, {"full_copy": False})
    past = records.past_steps("orders")
    assert (past.full_copies, past.increments) == ([], [300.0])
    assert list(past.pool_bytes) == [100 * 16384]
    assert (past.seconds["PrepareDonor"], "StartDatabase" in past.seconds) == ([60.0], False)
    assert past.returned["StartDatabase"] == [60.0]
