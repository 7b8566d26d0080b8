"""The commands while a run is at work, and after it: one scale-out whose prewarm takes its time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from lab.simulated_hosts import Pace
from tests.support.deployed_product import FAST, DeployedProduct, eventually

# 25 minutes of the cloud's clock.
PACE = Pace(prewarm_mib=3000, rate_mib_per_s=2.0, behind_seconds=60)
ALLOWED_ERROR = 0.30


@pytest.fixture
def at_work(product: DeployedProduct) -> str:
    """A scale-out whose prewarm has reported once; the clock is slow while it is looked at.

    From the moment on at which the engine starts: on a busy machine it would else be done before anybody looks.
    """

    def slow_from_the_prewarm_on(document: str, _: str) -> None:
        if document == "start_prewarm":
            product.cloud.clock.set(scale=1)

    product.hosts_take_their_time(PACE)
    product.answers.before_answering = slow_from_the_prewarm_on
    product.cloud.clock.set(scale=FAST)
    earlier = product.run_ids()
    execution = product.start("scale_out", reason="by hand")
    eventually(lambda: product.run_ids() != earlier and first_report(product))
    return execution


@pytest.fixture
def no_roll_back(product: DeployedProduct) -> Iterator[str]:
    """The event of a stop is lost: events are delivered best effort."""
    rule = "peaker-local-execution-stopped"
    product.cloud.client("events").disable_rule(Name=rule)
    yield rule
    product.cloud.client("events").enable_rule(Name=rule)


def first_report(product: DeployedProduct) -> bool:
    rows = product.rows(f"run#{product.run_ids()[-1]}", "step#ReportPrewarm")
    return bool(rows) and "finished_at" in rows[0]


def test_a_run_is_told_from_its_prewarm_to_its_receipt(product: DeployedProduct, at_work: str) -> None:
    run_id = product.run_ids()[-1]
    run = product.peaker("status", "orders", "--json").document["run"]
    prewarm: dict[str, Any] = run["progress"]["prewarm"]

    assert prewarm["blocks_total"]["value"] == 6000
    assert 0 <= prewarm["share"]["value"] < 1
    assert prewarm["rate_mib_per_s"]["value"] == 2.0
    assert prewarm["deadline"]

    shown = product.peaker("status", "orders").out
    assert f"scale_out {run_id}" in shown
    assert "by hand" in shown
    [line] = [one for one in product.peaker("runs", "orders", "--json").document if one["run_id"] == run_id]
    assert line["state"] == "running"
    assert line["usd"]["value"] >= 0
    told = product.peaker("receipt", run_id)
    assert (told.status, told.err) == (0, "")
    assert "has no receipt yet: running" in told.out
    refusals = product.peaker("plan", "orders", "--json").document["refusals"]
    assert "operation_running" in [refusal["code"] for refusal in refusals]

    reported_at = reported(product, run_id)
    said = (datetime.fromisoformat(prewarm["goes_on_at"]) - reported_at).total_seconds()
    product.cloud.clock.set(scale=FAST)
    product.finish(at_work)
    took = (reported(product, run_id) - reported_at).total_seconds()
    waited = sum(pauses(product))
    # A busy machine's looks take minutes of this clock: they are in what it took, and not in what was waited.
    about = f"said {said:.0f} s, waited {waited:.0f} s, took {took:.0f} s"
    assert waited * (1 - ALLOWED_ERROR) < said < took * (1 + ALLOWED_ERROR), about

    newest, *_ = product.peaker("runs", "orders", "--json").document
    assert (newest["run_id"], newest["state"]) == (run_id, "succeeded")
    assert newest["seconds"] > 1500
    assert newest["usd"]["value"] > 0
    assert product.peaker("receipt", run_id, "--json").document["outcome"] == "succeeded"
    assert "succeeded" in product.peaker("receipt", run_id).out
    roles = {one["role"] for one in product.peaker("status", "orders", "--json").document["replicas"]}
    assert roles == {"base", "peak"}


def test_a_run_whose_execution_was_stopped_does_not_show_as_running(
    product: DeployedProduct, at_work: str, no_roll_back: str
) -> None:
    run_id = product.run_ids()[-1]
    product.cloud.client("stepfunctions").stop_execution(executionArn=at_work, cause="stopped by hand")

    status = product.peaker("status", "orders")
    assert "its execution ended: ABORTED at " in status.out
    assert "roll_back has not begun" in status.out
    assert "goes on in" not in status.out
    newest, *_ = product.peaker("runs", "orders", "--json").document
    assert (newest["run_id"], newest["state"]) == (run_id, "left")
    assert "its execution ended: ABORTED" in newest["step"]
    assert "left since" in product.peaker("receipt", run_id).out

    product.cloud.clock.set(scale=FAST)
    product.cloud.client("events").enable_rule(Name=no_roll_back)
    product.finish(product.roll_back(at_work))
    # A first undo that takes long leaves the rest to the sweep, minutes later on the cloud's clock.
    eventually(lambda: state_of(product, run_id) == "rolled_back")
    assert "nothing at work" in product.peaker("status", "orders").out


def state_of(product: DeployedProduct, run_id: str) -> str:
    """Of this run; an hourly scale_in may have begun meanwhile."""
    [run] = [one for one in product.peaker("runs", "orders", "--json").document if one["run_id"] == run_id]
    return str(run["state"])


def reported(product: DeployedProduct, run_id: str) -> datetime:
    """When the newest look at the engine was over, on the cloud's clock; the last one found it done."""
    [row] = product.rows(f"run#{run_id}", "step#ReportPrewarm")
    return datetime.fromisoformat(row["finished_at"]["S"])


def pauses(product: DeployedProduct) -> list[float]:
    """The seconds that the newest prewarm was to wait from one look to the next."""
    stepfunctions = product.cloud.client("stepfunctions")
    machines = stepfunctions.list_state_machines()["stateMachines"]
    [arn] = [one["stateMachineArn"] for one in machines if one["name"] == "peaker-local-prewarm"]
    listed = stepfunctions.list_executions(stateMachineArn=arn)["executions"]
    newest = max(listed, key=lambda one: one["startDate"])
    pages = stepfunctions.get_paginator("get_execution_history").paginate(executionArn=newest["executionArn"])
    entered = [
        event["stateEnteredEventDetails"]
        for page in pages
        for event in page["events"]
        if event["type"] == "WaitStateEntered"
    ]
    return [float(json.loads(one["input"])["pause_seconds"]) for one in entered]
