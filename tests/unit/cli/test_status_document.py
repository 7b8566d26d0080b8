"""The status document from what was gathered: figures, roles, and what is unknown."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from peaker.domain.instants import to_iso
from peaker.domain.limits.admission import Admission
from peaker.domain.planning.checks.verdict import Check
from peaker.domain.planning.prices import US_EAST_1
from peaker.domain.reading import Known, Unknown
from peaker.domain.replay.kept_proposal import KeptProposal, SettingsCost, in_force, unknown_proposal
from peaker.domain.replay.settings_proposal import Advice
from peaker.domain.replicas.fleet import ReplicaState
from peaker.domain.replicas.inventory import TargetHealth, TargetState
from peaker.domain.reserved_capacity.places import ReservedPlace, ReservedPlaces
from peaker.domain.runs.execution_input import ExecutionInput
from peaker.domain.runs.ledger import LeaseRow, RunRow, StepRow
from peaker.domain.runs.run_execution import RunExecution
from peaker.domain.storage.snapshot_sets import SnapshotSet
from peaker_cli.status.document import Alarm, Facts, as_document, cluster_status
from peaker_cli.status.rendering import render_overview, render_status, status_line
from peaker_cli.status.run_at_work import RunAtWork, RunStatus
from rich.console import Console

from tests.support.approval_fakes import WAITING
from tests.support.builders import BASE, RUN_ID, fleet_with, orders, replica
from tests.support.fakes import NOON

PEAK = "i-000000000000c0001"
AT_WORK = RunExecution("manual-1", "RUNNING", None)
REPORT: dict[str, Any] = {
    "at": to_iso(NOON - timedelta(minutes=4)),
    "action": "scale_out",
    "outcome": "act",
    "reason": "2 replicas are needed by p95 of the load in 70 min, 180",
    "required": 2,
    "capacity_per_replica": 80.0,
    "capacity_basis": "the volumes reached 80% of their IOPS at the knee",
    "observing": False,
    "observation": "accepted",
    "standing": "normal",
    "score": "412 forecasts scored",
    "numbers": {"forecast_upper": 180.0, "lead_time_p90_seconds": 4200.0},
}


def gathered(**changes: Any) -> Facts:
    fleet = fleet_with(replica(BASE), replica(PEAK, peak_of=RUN_ID, row_state=ReplicaState.BUILDING,
                                            health=TargetHealth(TargetState.ABSENT)))  # fmt: skip
    facts: dict[str, Any] = {
        "environment": "local",
        "settings": orders(),
        "now": NOON,
        "fleet": fleet,
        "read_shares": {BASE: 1.0},
        "lags": {BASE: Known(0.5, NOON), PEAK: Unknown("no check has heard of it")},
        "at_work": None,
        "report": REPORT,
        "load": Known(95.0, NOON),
        "alarms": (),
    }
    return Facts(**{**facts, **changes})


def shown(facts: Facts) -> str:
    console = Console(width=200, force_terminal=False)
    with console.capture() as capture:
        console.print(render_status(cluster_status(facts)))
        console.print(render_overview([cluster_status(facts)]))
    return capture.get() + status_line(cluster_status(facts))


def test_replicas_have_role_state_lag_and_share() -> None:
    base, peak = as_document(cluster_status(gathered()))["replicas"]
    assert (base["role"], base["state"], base["serves"]) == ("base", "running", True)
    assert (base["lag_seconds"]["value"], base["share_of_reads"]["value"]) == (0.5, 1.0)
    assert (peak["role"], peak["state"], peak["endpoint"]) == ("peak", "building", "absent")
    assert peak["lag_seconds"] == {"unknown": "no check has heard of it"}
    assert peak["share_of_reads"]["value"] == 0.0


def test_the_forecast_stands_against_the_capacity_that_the_check_found() -> None:
    capacity = cluster_status(gathered()).capacity
    assert capacity.capacity == Known(80.0, NOON)
    assert (capacity.forecast, capacity.required) == (
        Known(180.0, NOON - timedelta(minutes=4)),
        Known(2.0, NOON - timedelta(minutes=4)),
    )


def test_nothing_that_is_unknown_becomes_a_number() -> None:
    why = Unknown("ec2:DescribeInstances: AccessDenied")
    facts = gathered(fleet=why, read_shares=why, lags={}, at_work=why, report=None, load=why, alarms=why)
    status = cluster_status(facts)
    assert {status.replicas, status.run, status.alarms, status.capacity.capacity, status.capacity.load} == {
        why
    }
    assert isinstance(status.decision, Unknown)
    assert isinstance(status.capacity.required, Unknown)
    assert "AccessDenied" in shown(facts)
    assert "forecast_load has not run yet" in shown(facts)


def test_the_kept_snapshots_are_shown_with_what_they_cost() -> None:
    kept = SnapshotSet("orders", RUN_ID, BASE, NOON - timedelta(hours=3), {"data": "snap-1", "log": "snap-2"}, {},
                       {"data": 70 * 2**30, "log": 3 * 2**30})  # fmt: skip
    told = shown(gathered(snapshot_sets=(kept,), prices=US_EAST_1))
    assert f"2 of {BASE} kept since" in told
    assert "73 GiB, $0.0050/h" in told
    unpriced = shown(gathered(snapshot_sets=(kept,), prices=Unknown("ssm:GetParameter: AccessDenied")))
    assert "73 GiB, unknown (ssm:GetParameter: AccessDenied)" in unpriced
    assert "unknown (throttled)" in shown(gathered(snapshot_sets=Unknown("throttled")))


def place(name: str, zone: str = "us-east-1a", **changes: Any) -> ReservedPlace:
    return ReservedPlace(
        name=name, zone=zone, instance_type="r6i.large", platform="Linux/UNIX", event="winter sale",
        asked_at=NOON - timedelta(hours=1), ends_at=NOON + timedelta(hours=46), **{"hourly_usd": 0.126, **changes},
    )  # fmt: skip


class TestReservedRoom:
    def test_it_is_shown_with_its_event_its_end_and_its_price(self) -> None:
        gone = place("place-3", given_back_at=NOON)
        kept = ReservedPlaces(places=(place("place-1"), place("place-2", "us-east-1b"), gone))
        facts = gathered(places=kept)
        assert (
            "1 x r6i.large in us-east-1a, 1 x r6i.large in us-east-1b for winter sale until 23 Nov 10:00, "
            "$0.252 an hour while nothing runs there"
        ) in " ".join(shown(facts).split())
        [room] = as_document(cluster_status(facts))["reserved_room"]["reserved"]
        assert (room["event"], room["usd_per_hour"]["value"], len(room["places"])) == (
            "winter sale",
            0.252,
            2,
        )

    def test_one_without_a_price_costs_an_unknown_amount(self) -> None:
        kept = ReservedPlaces(places=(place("place-1"), place("place-2", hourly_usd=None)))
        assert "at an unknown price (not every place had a price)" in shown(gathered(places=kept))

    def test_what_is_due_and_not_reserved_is_said_with_the_remedy(self) -> None:
        late = Check(
            name="room for events", verdict="warn", detail="0 reserved now", remedy="docs/runbooks/x.md"
        )
        assert "0 reserved now; docs/runbooks/x.md" in shown(gathered(room_ahead=late))
        in_time = late.model_copy(update={"verdict": "pass"})
        assert "no room" in shown(gathered(room_ahead=in_time))
        assert "0 reserved now" not in shown(gathered(room_ahead=in_time))

    def test_a_cluster_that_keeps_none_has_no_line(self) -> None:
        assert cluster_status(gathered()).reserved_room is None
        assert "reserved" not in shown(gathered())

    def test_a_record_that_cannot_be_read_is_unknown(self) -> None:
        assert "unknown (throttled)" in shown(gathered(places=Unknown("throttled")))
        assert "unknown (throttled)" in shown(gathered(room_ahead=Unknown("throttled")))


NOW_COST = SettingsCost(
    quantile=0.99, headroom=0.1, keep_lead_times=2.0, usd=60.5, replica_hours=121.0, short_minutes=5.0
)
LESS_COST = SettingsCost(
    quantile=0.9, headroom=0.0, keep_lead_times=1.0, usd=48.0, replica_hours=96.0, short_minutes=3.0
)


def proposal(**changes: Any) -> KeptProposal:
    given: dict[str, Any] = {
        "version": 1, "week_ends_at": NOON - timedelta(days=5, hours=12), "made_at": NOON, "advice": Advice.CHANGE,
        "in_force": in_force(orders()), "reason": "the cheapest of 20 settings", "weeks": 4, "now": NOW_COST,
        "proposed": LESS_COST, "saved_usd_per_week": 12.5, "capacity_per_replica": 80.0, "lead_seconds": 4200.0,
    }  # fmt: skip
    return KeptProposal(**{**given, **changes})


class TestProposedSettings:
    def test_they_are_shown_with_their_dollars_and_the_command_that_looks_closer(self) -> None:
        facts = gathered(proposal=proposal())
        assert (
            "quantile 0.9, headroom 0, keep_lead_times 1 would have cost $12.50 less a week than quantile 0.99, "
            "headroom 0.1, keep_lead_times 2 (4 weeks until 16 Nov), 3 min short a week instead of 5"
        ) in words(facts)
        assert "peaker backtest --cluster orders --env local --capacity 80 --lead-minutes 70" in words(facts)
        found = as_document(cluster_status(facts))["proposed_settings"]
        assert (found["advice"], found["saved_usd_per_week"]["value"]) == ("change", 12.5)
        assert found["proposed"]["quantile"] == 0.9

    def test_less_shortage_may_cost_more(self) -> None:
        assert "would have cost $4.00 more a week than" in words(
            gathered(proposal=proposal(saved_usd_per_week=-4.0))
        )

    def test_those_of_now_may_stay(self) -> None:
        stay = proposal(
            advice=Advice.STAY, proposed=None, saved_usd_per_week=0.0, reason="none was cheaper by 2%"
        )
        assert (
            "quantile 0.99, headroom 0.1, keep_lead_times 2 stay (4 weeks until 16 Nov): none was cheaper by 2%"
        ) in words(gathered(proposal=stay))

    def test_what_is_not_known_is_said_with_the_reason(self) -> None:
        early = unknown_proposal(KeptProposal(), orders(), "20 days of load, and 28 are needed", NOON)
        facts = gathered(proposal=early)
        assert "settings nothing is proposed: 20 days of load, and 28 are needed" in words(facts)
        found = as_document(cluster_status(facts))["proposed_settings"]
        assert found["saved_usd_per_week"] == {"unknown": "20 days of load, and 28 are needed"}

    def test_of_settings_that_were_changed_since_it_says_so(self) -> None:
        changed = orders(forecast={"schedule_minutes": 15, "quantile": 0.9})
        facts = gathered(proposal=proposal(), settings=changed)
        assert "the settings were changed since, the next look says it anew" in words(facts)
        assert as_document(cluster_status(facts))["proposed_settings"]["outdated"] is True

    def test_before_the_first_look_and_without_proposals_there_is_no_line(self) -> None:
        assert cluster_status(gathered()).proposed_settings is None
        unwanted = orders(proposals={"weekly": False})
        assert cluster_status(gathered(proposal=proposal(), settings=unwanted)).proposed_settings is None

    def test_a_record_that_cannot_be_read_is_unknown(self) -> None:
        assert "settings unknown (throttled)" in words(gathered(proposal=Unknown("throttled")))


def words(facts: Facts) -> str:
    return " ".join(shown(facts).replace("│", " ").split())


def test_a_check_that_is_long_ago_is_overdue() -> None:
    old = {**REPORT, "at": to_iso(NOON - timedelta(minutes=15 * 3 + 1))}
    assert "OVERDUE" in shown(gathered(report=old))
    assert "OVERDUE" not in shown(gathered())


def test_the_run_at_work_has_its_step_and_its_end() -> None:
    request = ExecutionInput(cluster="orders", reason="by hand")
    run = RunRow(RUN_ID, "orders", "scale_out", NOON - timedelta(minutes=30), request)
    steps = (
        StepRow("StartPrewarm", NOON - timedelta(minutes=20), NOON - timedelta(minutes=19)),
        StepRow("ReportPrewarm", NOON - timedelta(minutes=19), NOON - timedelta(minutes=1),
                {"state": "running", "blocks_done": 500, "blocks_total": 2000, "rate_mib_per_s": 25.0,
                 "eta_seconds": 240.0, "elapsed_seconds": 1100.0}),
    )  # fmt: skip
    lease = LeaseRow("orders", RUN_ID, "scale_out", 7, NOON + timedelta(hours=6))
    facts = gathered(at_work=RunAtWork(lease, run, steps, AT_WORK))
    status = cluster_status(facts)
    assert isinstance(status.run, RunStatus)
    assert (status.run.operation, status.run.reason) == ("scale_out", "by hand")
    text = shown(facts)
    for part in (
        "ReportPrewarm for 20 min 00 s",
        "25% of 2,000 blocks at 25.0 MiB/s",
        "goes on in 3 min 07 s",
    ):
        assert part in text


def test_a_run_that_waits_for_a_shared_limit_says_for_which_and_until_when() -> None:
    due = NOON + timedelta(minutes=4)
    admission = Admission(asked_at=NOON, begins_at=due, waits_for="initialization rate")
    run = RunRow(
        RUN_ID,
        "orders",
        "scale_out",
        NOON,
        ExecutionInput(cluster="orders"),
        parts={"admission": admission.model_dump_json()},
    )
    lease = LeaseRow("orders", RUN_ID, "scale_out", 1, NOON + timedelta(hours=6))
    steps = (StepRow("ReserveLimits", NOON - timedelta(seconds=5)),)
    at_work = RunAtWork(lease, run, steps, AT_WORK)
    assert "ReserveLimits for 5.0 s; waits for initialization rate until 12:04:00" in shown(
        gathered(at_work=at_work)
    )
    assert "waits for" not in shown(gathered(at_work=at_work, now=due))


def test_a_run_that_has_not_written_its_row_yet_is_shown_by_its_lease() -> None:
    lease = LeaseRow("orders", RUN_ID, "scale_out", 7, NOON + timedelta(hours=6))
    text = shown(gathered(at_work=RunAtWork(lease, None, (), AT_WORK)))
    assert RUN_ID in text
    assert "step unknown" in text


def test_alarms_come_with_their_reason() -> None:
    text = shown(gathered(alarms=(Alarm("peaker-local-orders-undo-incomplete", NOON, "1 > 0"),)))
    assert "peaker-local-orders-undo-incomplete since 21 Nov 12:00:00: 1 > 0" in text


def test_what_waits_for_a_yes_is_shown_with_its_end_and_the_lines_to_type() -> None:
    facts = gathered(approval=WAITING, now=NOON + timedelta(minutes=35))
    assert as_document(cluster_status(facts))["approval"]["waits_until"] == "2026-11-21T13:00:00.000Z"
    text = shown(facts)
    assert f"{WAITING.run_id} waits until 21 Nov 13:00:00 (in 25 min 00 s) to {WAITING.what}" in text
    assert f"peaker approve {WAITING.run_id} --env local" in text
    assert f"peaker refuse {WAITING.run_id} --env local --reason" in text
    assert f"nothing at work; {WAITING.run_id} waits for approval" in text


def test_what_waits_no_more_is_not_shown_and_what_cannot_be_read_is_unknown() -> None:
    assert "approval" not in shown(gathered(approval=WAITING, now=WAITING.waits_until))
    assert "approval" not in shown(gathered(approval=replace(WAITING, answer="refused")))
    unknown = gathered(approval=Unknown("the ledger's approval of orders cannot be read: soon is no instant"))
    assert "unknown (the ledger's approval of orders cannot be read" in shown(unknown)
