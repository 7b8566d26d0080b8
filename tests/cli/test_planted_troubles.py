"""The first line of `peaker status` names a trouble that was planted in the deployed cluster, and what to type."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from typing import Any

import pytest
from peaker.adapters.dynamodb.items import LedgerTable
from peaker.adapters.dynamodb.lease import DynamoDbLease

from cloud_rig.clocks import at_scale
from lab.simulated_hosts import Pace
from peaker_contract.names import CLUSTER_TAG, ENVIRONMENT_TAG, LOAD_TAG, OWNER_TAG, ROLE_TAG, RUN_TAG
from tests.support.deployed_product import FAST, DeployedProduct, Said, eventually

# A day and a half of the cloud's clock.
SLOW = Pace(prewarm_mib=3_000_000.0)
DEAD_LETTER = "peaker-local-orders-scheduled-check-event-not-delivered"
FOREIGN_RUN = "scale-out-orders-20261121T014000-9f3a"


@pytest.fixture(scope="module")
def by_hand(deployed: DeployedProduct) -> Iterator[None]:
    """Nothing begins by itself between these tests: a trouble calls runs."""
    deployed.starts_nothing_by_itself()
    yield
    deployed.starts_by_itself_again()


@pytest.fixture
def quiet(by_hand: None, product: DeployedProduct) -> Iterator[DeployedProduct]:
    """Nothing is at work or begins by itself, the last check is of now, and the clock is slow.

    A peak replica that the test built, or a run that its trouble called, goes afterwards.
    """
    with fast(product):
        eventually(lambda: nothing_runs(product))
    check(product)
    yield product
    product.starts_nothing_by_itself()
    product.answers.healthy()
    product.answers.hosts = None
    product.cloud.faults.clear()
    with fast(product):
        eventually(lambda: nothing_runs(product))
    with at_scale(product.cloud.clock, FAST):
        eventually(lambda: without_peaks(product))


def nothing_runs(product: DeployedProduct) -> bool:
    stepfunctions = product.cloud.client("stepfunctions")
    running = (
        stepfunctions.list_executions(stateMachineArn=one["stateMachineArn"], statusFilter="RUNNING")[
            "executions"
        ]
        for one in stepfunctions.list_state_machines()["stateMachines"]
    )
    return not any(running) and product.lease_is_free()


def without_peaks(product: DeployedProduct) -> bool:
    """Whether no peak replica runs; one that does is removed, which is refused where the last check is of long ago."""
    peaks = running_peaks(product)
    if peaks:
        check(product)
        product.finish(product.start("scale_in", replica=peaks[0]))
    return not peaks


def running_peaks(product: DeployedProduct) -> list[str]:
    filters = [
        {"Name": f"tag:{LOAD_TAG}", "Values": ["peak"]},
        {"Name": "instance-state-name", "Values": ["running"]},
    ]
    found = product.cloud.client("ec2").describe_instances(Filters=filters)["Reservations"]
    return [one["InstanceId"] for group in found for one in group["Instances"]]


def fast(product: DeployedProduct) -> AbstractContextManager[None]:
    """No schedule is on: nothing but a run is at work."""
    return at_scale(product.cloud.clock, 10 * FAST)


def check(product: DeployedProduct) -> None:
    """The load is measured, and the check that decides is made."""
    for function in ("check_replicas", "forecast_load"):
        product.cloud.client("lambda").invoke(
            FunctionName=f"peaker-local-{function}", Payload=json.dumps({"cluster": "orders"}).encode()
        )


def still(product: DeployedProduct) -> None:
    """No alarm is on."""
    cloudwatch = product.cloud.client("cloudwatch")
    for alarm in cloudwatch.describe_alarms(StateValue="ALARM")["MetricAlarms"]:
        cloudwatch.set_alarm_state(AlarmName=alarm["AlarmName"], StateValue="OK", StateReason="looked at")


def turn_on(product: DeployedProduct, alarm: str) -> None:
    product.cloud.client("cloudwatch").set_alarm_state(
        AlarmName=alarm, StateValue="ALARM", StateReason="planted"
    )


def told(
    product: DeployedProduct,
    said: str,
    line: str,
    status: int,
    alarm: str | None = None,
    rules_on: bool = True,
) -> None:
    """The first line has the words, ends with the line to type, and the exit status is a monitoring plugin's.

    No alarm is on but that one: those of schedules that do not run come again. EC2 shows some things late.
    """
    if rules_on:
        product.starts_by_itself_again()
    for _ in range(10):
        still(product)
        if alarm is not None:
            turn_on(product, alarm)
        seen = product.peaker("status", "orders")
        if re.search(said, first_line(seen)):
            break
    assert re.search(said, first_line(seen)), seen
    where = " --env local" if line.startswith("peaker") else ""
    assert first_line(seen).endswith(f"type: {line}{where}"), seen.out
    assert seen.status == status


def first_line(said: Said) -> str:
    """The verdict's first trouble, whose lines end before the next one or an empty line."""
    lines = said.out.splitlines()
    ends = (n for n, text in enumerate(lines) if n and (not text.strip() or re.match(r"[A-Z]+: ", text)))
    return " ".join(text.strip() for text in lines[: next(ends, len(lines))])


@contextmanager
def changed(product: DeployedProduct, **changes: Any) -> Iterator[None]:
    """Other settings, which the functions read at once."""
    with product.other_settings(**changes):
        product.functions_start_cold()
        yield
    product.functions_start_cold()
    check(product)


@contextmanager
def a_foreign_lease(product: DeployedProduct) -> Iterator[None]:
    lease = DynamoDbLease(LedgerTable(product.cloud.client("dynamodb"), "peaker-local-ledger"))
    # A lease that was given back just now settles for a minute.
    now = product.cloud.clock.now() + timedelta(minutes=2)
    holder = lease.acquire("orders", FOREIGN_RUN, "scale_out", now, now + timedelta(hours=2))
    try:
        yield
    finally:
        lease.release(holder, now)


@contextmanager
def a_stranger(product: DeployedProduct) -> Iterator[str]:
    """An instance with the tags of a peak replica that no run made."""
    ec2 = product.cloud.client("ec2")
    tags = {OWNER_TAG: "local", RUN_TAG: FOREIGN_RUN, CLUSTER_TAG: "orders", ENVIRONMENT_TAG: "local", LOAD_TAG: "peak",
            ROLE_TAG: "replica"}  # fmt: skip
    made: Any = ec2.run_instances(
        ImageId="ami-0a770000000000097", InstanceType="r6i.large", MinCount=1, MaxCount=1,
        SubnetId="subnet-0a77000000000001a",
        TagSpecifications=[
            {"ResourceType": "instance", "Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}
        ],
    )  # fmt: skip
    instance_id = str(made["Instances"][0]["InstanceId"])
    try:
        yield instance_id
    finally:
        ec2.terminate_instances(InstanceIds=[instance_id])


def test_paused(quiet: DeployedProduct) -> None:
    quiet.starts_by_itself_again()
    assert quiet.peaker("pause", "orders", "--yes").status == 0
    said = r"^PAUSED: disabled by hand: .*scheduled-check"
    told(quiet, said, "peaker resume orders", 1, rules_on=False)


def test_a_load_above_the_capacity(quiet: DeployedProduct) -> None:
    with changed(quiet, capacity_per_replica=20.0):
        check(quiet)
        told(quiet, r"^SHORT: the load \d+ is \d+ above the capacity of \d+", "peaker scale-out orders", 2)


def test_a_shortage_that_the_budget_forbids_to_mend(quiet: DeployedProduct) -> None:
    with changed(quiet, capacity_per_replica=20.0, limits={"max_hourly_cost_usd": 0.01}):
        with fast(quiet):
            quiet.finish(quiet.start("scale_out"))
        check(quiet)
        line = "peaker scale-out orders --above-limits --reason TEXT"
        told(quiet, r"^SHORT: the load .* was refused: .*budget", line, 2)


def test_a_dead_letter(quiet: DeployedProduct) -> None:
    queue = DEAD_LETTER.removesuffix("-event-not-delivered") + "-undelivered"
    read = (
        "aws sqs receive-message --region us-east-1 --message-attribute-names All --queue-url "
        f'"$(aws sqs get-queue-url --region us-east-1 --queue-name {queue} --query QueueUrl --output text)"'
    )
    told(quiet, f"^FAILED: alarm {DEAD_LETTER} .*a message lies in {queue}", read, 2, DEAD_LETTER)


def test_throttled(quiet: DeployedProduct) -> None:
    quiet.cloud.faults.add("elbv2:DescribeTargetHealth", "Throttling", times=-1)
    told(quiet, r"^UNKNOWN: who serves unknown: .*Throttling", "peaker watch orders", 3)


def test_a_lease_that_no_execution_holds(quiet: DeployedProduct) -> None:
    with a_foreign_lease(quiet):
        told(quiet, f"^WAITING: {FOREIGN_RUN} holds the lease until", "peaker watch orders", 1)


def test_a_host_that_no_run_made(quiet: DeployedProduct) -> None:
    with a_stranger(quiet) as instance_id:
        told(quiet, f"^FAILED: {instance_id} has the tags of a peak replica", "peaker doctor orders", 2)


def test_no_forecast(quiet: DeployedProduct) -> None:
    quiet.cloud.clock.set(now=quiet.cloud.clock.now() + timedelta(hours=3))
    said = r"^FAILED: no forecast for 3 h .*its rule is disabled"
    told(quiet, said, "peaker resume orders", 2, rules_on=False)


def test_a_load_that_nobody_publishes(quiet: DeployedProduct) -> None:
    nobodys = {
        "namespace": "Shop",
        "name": "Reads",
        "statistic": "Sum",
        "period_seconds": 300,
        "dimensions": {"Cluster": "orders"},
    }
    with changed(quiet, load_metric=nobodys):
        told(quiet, r"^FAILED: the load is unknown: ", "peaker doctor orders", 2)


def test_a_base_replica_that_somebody_stopped(quiet: DeployedProduct) -> None:
    """Beside a peak replica that serves, so that the cluster is not short."""
    with fast(quiet):
        quiet.finish(quiet.start("scale_out"))
    ec2, base = quiet.cloud.client("ec2"), quiet.cluster.base_replica_id
    ec2.stop_instances(InstanceIds=[base])
    try:
        with fast(quiet):
            eventually(lambda: f"{base} does not serve" in quiet.peaker("status", "orders").out)
        check(quiet)
        told(quiet, f"^FAILED: {base} does not serve", "peaker doctor orders", 2)
    finally:
        ec2.start_instances(InstanceIds=[base])
        quiet.starts_nothing_by_itself()
        with fast(quiet):
            eventually(lambda: f"{base} does not serve" not in quiet.peaker("status", "orders").out)


def test_a_run_that_was_stopped_and_is_undone(quiet: DeployedProduct) -> None:
    """A failed run is heard of for a day: these are the last ones."""
    quiet.hosts_take_their_time(SLOW)
    before = quiet.run_ids()
    stepfunctions = quiet.cloud.client("stepfunctions")
    with at_scale(quiet.cloud.clock, FAST):
        arn = quiet.start("scale_out")
        eventually(lambda: quiet.run_ids() != before)
        run_id = quiet.run_ids()[-1]
        stepfunctions.stop_execution(executionArn=arn)
        [undo] = [
            one["stateMachineArn"]
            for one in stepfunctions.list_state_machines()["stateMachines"]
            if one["name"].endswith("-roll_back")
        ]
        eventually(
            lambda: stepfunctions.list_executions(stateMachineArn=undo, statusFilter="RUNNING")["executions"]
        )
    check(quiet)
    told(quiet, f"^WAITING: {run_id}: .*; roll_back undoes it", "peaker watch orders", 1)
    with fast(quiet):
        eventually(quiet.lease_is_free)


def test_a_run_that_failed(quiet: DeployedProduct) -> None:
    quiet.answers.fail("prepare_donor", "BufferPoolTimeout")
    with fast(quiet):
        quiet.finish(quiet.start("scale_out"), expected="FAILED")
    run_id = quiet.run_ids()[-1]
    check(quiet)
    told(quiet, f"^FAILED: {run_id} failed and was undone .*BufferPoolTimeout", f"peaker receipt {run_id}", 2)
