"""Why Peaker did or did not act: true sentences with the figures of the check that decided."""

from __future__ import annotations

import json
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from peaker.domain.instants import to_iso
from peaker.domain.runs.execution_input import ExecutionInput
from peaker.domain.runs.ledger import RunRow
from peaker_cli.status.why import logged_report, sentences

from tests.support.builders import orders
from tests.support.fakes import NOON

CHECK: dict[str, Any] = {
    "cluster": "orders",
    "at": to_iso(NOON - timedelta(minutes=4)),
    "action": "none",
    "outcome": "hold",
    "reason": "1 replica serves and 1 is being built, as needed by the load of 720.9 now",
    "load_now": 720.9,
    "serving": 1,
    "building": 1,
    "required": 2,
    "capacity_per_replica": 500.0,
    "capacity_basis": "from the settings",
    "lead_time_p90_seconds": 4200.0,
    "quantile": 0.95,
    "standing": "normal",
    "observing": False,
    "observation": "observed for 20.0 days",
    "few_reads": [],
    "read_shares": {},
    "numbers": {"forecast_upper": 800.0},
}
ORDER = ExecutionInput(cluster="orders", reason="the load will need 2")
RUN = RunRow("scale-out-orders-7", "orders", "scale_out", NOON - timedelta(minutes=3), ORDER)


def told(*runs: RunRow, **changes: Any) -> str:
    return "\n".join(sentences({**CHECK, **changes}, runs, NOON, orders()))


def test_it_says_what_was_decided_by_which_load_capacity_and_forecast() -> None:
    first, *facts = told().splitlines()
    assert first == (
        "orders: the check of 21 Nov 11:56 UTC, 4 min 00 s before, left the fleet as it is: "
        "1 replica serves and 1 is being built, as needed by the load of 720.9 now."
    )
    assert facts == [
        "The load was 720.9; 1 replica served at 500 each (from the settings), 500 in all, 1 was being built.",
        "A replica begun then would have served in 1 h 10 min; the forecast for then was 800 (p95). "
        "The forecast is normal.",
        "So 2 replicas were needed, of at least 1 and at most 3 by the settings of now.",
    ]


def test_an_unknown_is_no_number() -> None:
    text = told(load_now=None, serving=None, numbers={})
    assert "The load was not known; how many replicas served was not known." in text
    assert "no forecast reached so far" in text


def test_a_run_that_followed_is_named_and_so_is_that_none_did() -> None:
    asked = {"action": "scale_out", "outcome": "act", "reason": "2 are missing"}
    assert "asked for more replicas: 2 are missing." in told(**asked)
    assert "No run began before the next check" in told(**asked)
    assert "scale-out-orders-7 began at 21 Nov 11:57 UTC (the load will need 2): running." in told(
        RUN, **asked
    )
    observed = told(**asked, observing=True, observation="the cluster is in mode observe")
    assert "Nothing was started, as Peaker only observes: the cluster is in mode observe." in observed
    assert "No run began" not in observed


def test_a_check_that_is_long_ago_is_said_to_be_the_last() -> None:
    assert "1 h 00 min before, and none has come since" in told(at=to_iso(NOON - timedelta(hours=1)))


def test_a_replica_that_gets_few_reads_counted_as_less() -> None:
    text = told(few_reads=["i-1"], read_shares={"i-1": 0.34})
    assert "i-1 counted as 34% of a replica" in text


@pytest.mark.parametrize(("minutes", "found"), [(0, "newest"), (6, "older"), (30, None)])
def test_of_an_earlier_time_the_log_has_the_check(minutes: int, found: str | None) -> None:
    def line(cluster: str, minutes_ago: int, reason: str) -> str:
        report = {"cluster": cluster, "at": to_iso(NOON - timedelta(minutes=minutes_ago)), "reason": reason}
        return f"INFO {json.dumps({'message': reason, 'report': report})}\n"

    lines = [
        line("orders", 8, "older"),
        line("orders", 4, "newest"),
        line("carts", 1, "another's"),
        "no json {",
    ]
    pages = SimpleNamespace(paginate=lambda **_: [{"events": [{"message": one} for one in lines]}])
    client = SimpleNamespace(get_paginator=lambda _: pages)
    control: Any = SimpleNamespace(environment="prod", client=lambda _: client)
    report = logged_report(control, orders(), NOON - timedelta(minutes=minutes))
    assert (report or {}).get("reason") == found
