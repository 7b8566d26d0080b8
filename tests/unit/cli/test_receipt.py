"""A receipt as a person sees it."""

from __future__ import annotations

from typing import Any

import pytest
from peaker_cli.durations import duration
from peaker_cli.runs.receipt import render_receipt
from rich.console import Console


def receipt(**changes: Any) -> dict[str, Any]:
    document: dict[str, Any] = {
        "run_id": "scale-out-orders-20261124T142512-6ec3",
        "operation": "scale_out",
        "cluster": "orders",
        "outcome": "succeeded",
        "reason": "threshold crossed",
        "trigger": {"kind": "alarm", "alarm": "peaker-prod-orders-replica-shortage"},
        "started_at": "2026-11-24T14:25:12+00:00",
        "finished_at": "2026-11-24T18:25:12+00:00",
        "seconds": 14400.0,
        "steps": [
            {
                "step": "WaitForCatchUp",
                "started_at": "2026-11-24T17:00:00+00:00",
                "seconds": 600.0,
                "numbers": {"samples": [{"lag_seconds": 5}, {"lag_seconds": None}], "pid": 31},
            }
        ],
        "resources": [{"kind": "volume", "name": "data", "id": "vol-1", "state": "kept", "made_at": None}],
        "cost": {
            "replica_hours": 4.0, "hourly": 0.1267, "once": 0.0, "so_far": 0.5068,
            "per_month_if_kept": 92.46, "source": "table",
        },
        "forecast_lead": {
            "alarm": "a", "alarm_at": "2026-11-24T14:25:00+00:00", "serving_at": "2026-11-24T18:10:00+00:00",
            "seconds_alarm_to_serving": 13500.0, "load_crossed_at": None, "seconds_alarm_to_crossing": None,
        },
        "failure": None,
        "notes": [],
        "plan": {},
    }  # fmt: skip
    return document | changes


def shown(document: dict[str, Any], real: float | None = None, width: int = 160) -> str:
    console = Console(width=width, record=True, file=None, force_terminal=False)
    with console.capture() as capture:
        console.print(render_receipt(document, real))
    return capture.get()


def test_on_eighty_columns_every_id_is_whole() -> None:
    ids = {"members": "scale-out-orders-20261129T182954-cwva2epdzt", "donor": "i-578a8ea2a47304249",
           "gtid_set": "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-77"}  # fmt: skip
    step = {
        "step": "AwaitInstanceOnline",
        "started_at": "2026-11-24T17:00:00Z",
        "seconds": 9.0,
        "numbers": ids,
    }
    lines = shown(receipt(steps=[step]), width=80).splitlines()
    assert max(map(len, lines)) <= 80
    assert all(any(one in line for line in lines) for one in ids.values())


def test_of_an_undone_run_nothing_goes_on_costing() -> None:
    failure = {"failed_step": "Execution", "error": "ExecutionAborted", "cause": "wrong cluster (by ann)"}
    cost = {**receipt()["cost"], "snapshots_gib": 8.0, "snapshots_hourly": 0.0005}
    text = shown(receipt(outcome="rolled_back", failure=failure, cost=cost))
    assert "scale_out of orders: rolled back" in text
    assert "why: stopped by hand: wrong cluster (by ann)" in text
    assert "$0.5068 for 4.00 replica-hours" in text
    assert "kept snapshots" not in text
    assert "a month" not in text
    assert "failed at" not in text
    assert "a month" in shown(receipt(outcome="undo_incomplete", failure=failure, cost=cost))


def test_what_only_the_machinery_needs_is_left_out() -> None:
    assert "pid" not in shown(receipt())


def test_a_scaled_clock_shows_real_seconds_beside_the_clouds() -> None:
    assert "10 min 00 s (4.0 s)" in shown(receipt(), real=1 / 150)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (7.25, "7.2 s"),
        (65, "1 min 05 s"),
        (3600 * 3 + 720, "3 h 12 min"),
        (3599.7, "1 h 00 min"),
    ],
)
def test_durations_read_well(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


KNEE = {
    "steps": [[1, 900.0, 1.1], [8, 2990.0, 2.7], [61, 3000.0, 20.3]],
    "crossings": [
        {"await_limit_ms": 20.0, "concurrency": 60.1, "requests_per_s": 3000.0, "between": [48, 61]},
        {"await_limit_ms": 50.0, "concurrency": None, "requests_per_s": None, "between": None},
    ],
    "full_rate": {"concurrency": 8, "requests_per_s": 2990.0},
    "ended": "time limit",
    "warnings": ["the search ended early: time limit"],
    "seconds": 20.0,
}


def proof(**changes: Any) -> dict[str, Any]:
    volume = {
        "name": "data", "await_cold_ms": 31.4, "await_first_ms": 0.81, "await_second_ms": 0.8,
        "blocks_sampled": 256, "knee": KNEE,
    }  # fmt: skip
    numbers: dict[str, Any] = {
        "verdict": "warm", "reason": "data: at most 0.9% of the blocks are cold", "volumes": [volume],
        "limits": [{"volume": "data", "verdict": "IOPS-limited", "reason": "2990 of 3000", "advice": "More IOPS."}],
        "against_plan": [
            {"quantity": "IOPS", "delivered": 3590.0, "promised": 3600.0, "promised_by": "instance baseline",
             "verdict": "delivered"},
            {"quantity": "MiB/s", "delivered": 56.1, "promised": None, "promised_by": "", "verdict": "unknown"},
        ],
    }  # fmt: skip
    step = {
        "step": "VerifyStorage",
        "started_at": "2026-11-24T16:00:00+00:00",
        "seconds": 30.0,
        "numbers": {**numbers, **changes},
    }
    return receipt(steps=[step])


def test_the_storage_proof_says_how_slow_it_was_and_how_fast_it_is() -> None:
    text = shown(proof())
    assert "storage proof: warm, data: at most 0.9% of the blocks are cold" in text
    assert (
        "data: await 31.4 ms cold, 0.81 ms after the prewarm (0.8 ms at the second read), 256 blocks" in text
    )
    assert "data: IOPS-limited: 2990 of 3000" in text
    assert "More IOPS." in text
    assert "3,590 of 3,600 IOPS promised by the instance baseline: delivered" in text
    assert "56 MiB/s, no promise is known" in text


def test_every_look_of_the_storage_proof_is_shown_where_one_did_not_do() -> None:
    looks = [
        {"verdict": "not_warm", "reason": "between 1% and 4% are cold", "remedy": "none"},
        {"verdict": "warm", "reason": "at most 0.9% are cold", "remedy": "cold"},
    ]
    text = shown(proof(looks=looks))
    assert "look 1: not_warm, between 1% and 4% are cold" in text
    assert "look 2, after the cold neighbourhoods were read again: warm, at most 0.9% are cold" in text
    assert "look 1" not in shown(proof(looks=looks[1:]))


def test_the_knee_is_drawn_with_its_crossings() -> None:
    text = shown(proof())
    assert "knee: 20 ms at 60.1 at once, 50 ms not reached; no more than 2,990/s from 8 at once" in text
    rows = [line for line in text.splitlines() if "█" in line]
    assert [row.count("█") for row in rows] == [7, 24, 24]
    assert "20.3 ms" in rows[-1]
    assert "the search ended early" in text


def test_without_a_verdict_there_is_no_proof_to_show() -> None:
    assert "storage proof" not in shown(proof(verdict=None))


def member(number: int, took: float | None) -> dict[str, Any]:
    seconds = {"planned_seconds": 300.0, "planned_p90_seconds": 450.0, "took_seconds": 240.0}
    outcome = {
        "planned_seconds": 600.0, "planned_p90_seconds": 800.0, "took_seconds": took,
        "between_steps_seconds": 12.0, "parts": [{"part": "hydration", **seconds}],
    }  # fmt: skip
    return {
        "run_id": f"run-{number}", "number": number, "method": "build", "state": "in_service", "instance_id": "i-1",
        "serving_at": None, "failure": None, "outcome": None if took is None else outcome,
    }  # fmt: skip


def test_the_plan_stands_beside_what_came_of_it() -> None:
    text = shown(receipt(members=[member(1, 500.0)]))
    assert "lead time: plan against outcome" in text
    [hydration] = [line for line in text.splitlines() if "hydration" in line]
    assert " ".join(hydration.split()) == "hydration 5 min 00 s 7 min 30 s 4 min 00 s +25%"
    assert "+20%" in next(line for line in text.splitlines() if "plan to serving" in line)


def test_the_cost_of_a_batch_is_said_to_be_of_the_one_member_that_the_receipt_prices() -> None:
    others = [{**member(2, 500.0), "run_id": "run-2"}]
    text = shown(receipt(run_id="run-1", members=[member(1, 500.0), *others]))
    assert "cost of member 1: $0.5068 for 4.00 replica-hours" in text
    assert "of member 2: peaker receipt run-2" in text
    assert "\ncost: " not in text
    assert "cost: $0.5068" in shown(receipt(run_id="run-1", members=[member(1, 500.0)]))


def test_each_member_that_served_has_its_own_comparison() -> None:
    text = shown(receipt(members=[member(1, 500.0), member(2, None), member(3, 500.0)]))
    assert "lead time of member 1: plan against outcome" in text
    assert "member 2: plan" not in text
    assert "lead time of member 3: plan against outcome" in text


FAILURE = {"failed_step": "VerifyStorage", "error": "StorageNotWarm", "cause": "3 % cold"}
UNPRICED = receipt()["cost"] | {"hourly": None, "so_far": None, "per_month_if_kept": None}
STEP = receipt()["steps"][0] | {"numbers": {"where": "[/var/lib/mysql]"}}
PARKED = receipt(
    operation="scale_in",
    replica={
        "instance_id": "i-1", "state": "parked", "built_by": "scale-out-orders-1",
        "parked_until": "2026-11-25T06:00:00+00:00", "until_reason": "8.0 h: a limit",
    },
    parking={
        "action": "park", "reason": "back in 10 min", "parked_hourly_usd": 0.25, "serving_hourly_usd": 1.11,
        "rebuild_usd": 5.0, "return_seconds": 600.0, "build_seconds": 5400.0,
    },
)  # fmt: skip
RETURNED = {"action": "return", "reason": "i-1 is back in 10 min", "replica": "i-1", "rejected": {}}
NO_KNEE = {"name": "log", "knee": {"missing": "DeviceInUse: it serves others"}}
SAID: dict[str, tuple[dict[str, Any], list[str]]] = {
    "minutes and cents": (
        receipt(),
        [
            "started by the alarm peaker-prod-orders-replica-shortage",
            "WaitForCatchUp",
            "10 min 00 s",
            "$0.5068 for 4.00 replica-hours",
            "keeping the replica on costs $92.46 a month",
            "alarm at 24 Nov 14:25 UTC, serving at 24 Nov 18:10 UTC (3 h 45 min later)",
        ],
    ),
    "a lag that is unknown": (receipt(), ["lag 5, ? s"]),
    "the step that failed, and why": (
        receipt(outcome="rolled_back", failure=FAILURE),
        ["failed at VerifyStorage: StorageNotWarm", "3 % cold"],
    ),
    "a price that is unknown": (
        receipt(cost=UNPRICED),
        ["cost: unknown for 4.00 replica-hours at unknown price"],
    ),
    "markup as text": (receipt(steps=[STEP]), ["where=[/var/lib/mysql]"]),
    "a parked replica": (
        PARKED,
        [
            "park: parked $0.2500/h, in service $1.1100/h; back in 10 min",
            "replica i-1: parked, built by scale-out-orders-1, until 25 Nov 06:00 UTC (8.0 h: a limit)",
        ],
    ),
    "why it was no build": (receipt(plan={"method": RETURNED}), ["way: return, i-1 is back in 10 min"]),
    "a knee that was not found": (
        proof(volumes=[NO_KNEE], instance_baseline_unknown="AwsCallRejected: no"),
        [
            "log: no knee: DeviceInUse: it serves others",
            "log: cold not measured, unknown after the prewarm",
            "baseline is not known: AwsCallRejected: no",
        ],
    ),
}


@pytest.mark.parametrize("what", SAID)
def test_a_receipt_says(what: str) -> None:
    document, words = SAID[what]
    text = shown(document)
    assert [one for one in words if one not in text] == []
