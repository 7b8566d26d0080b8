"""A scale_out that waits for a person's yes: who is asked, what an answer does, and what no answer does (I12)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from peaker_cli.failures import ControlPlaneError

from bench.faults.situations import ASKED
from bench.faults.workflows.executions import Execution
from bench.faults.workflows.interferences import DiesAtTheEnd, LandsLate, Raises
from bench.faults.world.world import World, settings
from peaker_contract.errors import AwsCallRejected
from tests.faults.test_scenarios import alive, lease_is_free, rows, settled

MINUTE = 60.0
SCHEDULE: dict[str, Any] = {"trigger": {"kind": "schedule"}}
ABOVE_LIMITS = {"limits": {**ASKED["limits"], "approval": "above_limits"}}


@contextmanager
def a_world(**changes: Any) -> Iterator[World]:
    """Two replicas at most, one of which is there; three are needed."""
    world = World(1, settings(**{"max_replicas": 2, **ASKED, **changes}))
    try:
        world.load(measured=250, required=3)
        yield world
    finally:
        world.close()


def waiting(world: World, **request: Any) -> Execution:
    """A run that has asked, three minutes after its start."""
    execution = world.start("scale_out", **request)
    world.run_for(3 * MINUTE)
    assert execution.states[-1] == "AskApproval", execution
    return execution


def asked_run(world: World) -> str:
    [row] = rows(world, "approval#")
    return str(row["run_id"])


def test_while_it_waits_it_holds_no_lease_and_has_made_nothing() -> None:
    with a_world() as world:
        waiting(world)
        assert lease_is_free(world)
        assert rows(world, "run#") == []
        assert (alive(world), alive(world, "snapshots"), alive(world, "volumes")) == ([], [], [])


def test_the_operators_are_told_the_plan_its_price_and_the_two_commands() -> None:
    with a_world() as world:
        waiting(world)
        [(subject, text)] = world.operators.mails
        run = asked_run(world)
        assert subject == "Peaker local: scale_out of orders waits for approval"
        assert f"peaker approve {run} --env local" in text
        assert f"peaker refuse {run} --env local --reason" in text
        assert "build 1 x r6i.large in us-east-1a from i-00000000000000003" in text
        assert "why       limits.approval is always" in text
        assert "replicas  1 more, 2 in all" in text
        assert "$0.1269 an hour" in text


def test_a_yes_builds_what_was_asked() -> None:
    with a_world() as world:
        execution = waiting(world)
        world.answer(asked_run(world))
        world.finish(execution)
        assert execution.states[-1] == "ReplicaInService"
        settled(world, peaks=1)
        assert len(world.operators.mails) == 1


def test_a_no_refuses_with_the_reason_of_the_person() -> None:
    with a_world() as world:
        execution = waiting(world)
        world.answer(asked_run(world), refusal="the sale was moved")
        world.finish(execution)
        assert (execution.status, execution.states[-1]) == ("SUCCEEDED", "Refused")
        assert (execution.output["outcome"], execution.output["error"]) == ("refused", "ApprovalRefused")
        assert "the sale was moved (by a person)" in execution.output["reason"]
        settled(world)


def test_no_answer_in_time_refuses() -> None:
    with a_world() as world:
        execution = waiting(world)
        world.finish(execution)
        assert execution.ended is not None
        assert execution.ended - execution.started == pytest.approx(30 * MINUTE, abs=MINUTE)
        assert (execution.states[-1], execution.output["error"]) == ("Refused", "ApprovalExpired")
        assert "nobody answered until" in execution.output["reason"]
        settled(world)


def test_a_forecast_shortage_that_nobody_approved_is_a_failure_that_people_hear_of() -> None:
    with a_world() as world:
        execution = waiting(world, **SCHEDULE)
        world.finish(execution)
        assert (execution.status, execution.error) == ("FAILED", "ApprovalExpired")
        assert "Replicas are missing and none was built" in execution.cause


def test_a_forecast_shortage_that_a_person_refused_is_no_failure() -> None:
    with a_world() as world:
        execution = waiting(world, **SCHEDULE)
        world.answer(asked_run(world), refusal="not today")
        world.finish(execution)
        assert (execution.status, execution.states[-1]) == ("SUCCEEDED", "Refused")
        assert execution.output["outcome"] == "refused"


def test_a_second_answer_is_refused_and_the_first_one_counts() -> None:
    with a_world() as world:
        execution = waiting(world)
        run = asked_run(world)
        world.answer(run)
        with pytest.raises(ControlPlaneError, match="waits no more: it was answered a moment ago"):
            world.answer(run, refusal="too late")
        world.run_for(MINUTE)
        with pytest.raises(ControlPlaneError, match=r"which was approved at .* \(a person\)"):
            world.answer(run, refusal="too late")
        world.finish(execution)
        assert execution.states[-1] == "ReplicaInService"


def test_an_answer_after_the_end_of_the_wait_is_refused() -> None:
    with a_world() as world:
        execution = waiting(world)
        world.finish(execution)
        with pytest.raises(ControlPlaneError, match="which expired at 2026-11-22T12:30"):
            world.answer(asked_run(world))


def test_an_answer_to_a_run_that_never_asked_says_which_one_did() -> None:
    with a_world() as world:
        for never in ("orders", "scale-in-orders-20261121T014000-9f3a"):
            with pytest.raises(ControlPlaneError, match="is no run of scale_out"):
                world.answer(never)
        another = "scale-out-orders-20261121T014000-9f3a"
        with pytest.raises(ControlPlaneError, match="no run of orders ever did"):
            world.answer(another)
        waiting(world)
        with pytest.raises(ControlPlaneError, match=f"the newest of orders is {asked_run(world)} waits"):
            world.answer(another)


def test_a_stop_while_it_waits_leaves_nothing_and_its_token_is_worth_nothing() -> None:
    with a_world() as world:
        execution = waiting(world)
        run = asked_run(world)
        world.stop(execution)
        with pytest.raises(ControlPlaneError, match="its execution has ended"):
            world.answer(run)
        world.run_for(2 * MINUTE)
        with pytest.raises(ControlPlaneError, match="which was stopped at"):
            world.answer(run)
        settled(world)
        waiting(world)
        assert len(world.operators.mails) == 2, "the next one may ask"


def test_a_stop_that_nobody_heard_of_keeps_no_later_run_from_asking() -> None:
    with a_world() as world:
        world.deliveries = lambda _: ()
        world.stop(waiting(world))
        assert rows(world, "approval#")[0]["answer"] == "waiting"
        waiting(world)
        assert len(world.operators.mails) == 2


def test_an_automatic_start_while_another_run_waits_says_so_and_asks_nobody() -> None:
    with a_world() as world:
        waiting(world, **SCHEDULE)
        run = asked_run(world)
        for _ in range(5):
            again = world.run("scale_out", **SCHEDULE)
            assert (again.status, again.states[-1]) == ("SUCCEEDED", "NothingToDo")
            assert f"{run} waits for approval until" in again.output["reason"]
            world.run_for(MINUTE)
        assert len(world.operators.mails) == 1


def test_of_two_starts_at_one_moment_one_asks() -> None:
    with a_world() as world:
        both = [world.start("scale_out") for _ in range(2)]
        world.run_for(3 * MINUTE)
        assert len(world.operators.mails) == 1
        assert sorted(one.states[-1] for one in both) == ["AskApproval", "Refused"]
        [refused] = [one for one in both if not one.running]
        assert refused.output["error"] == "ApprovalPending"


def test_after_a_no_automatic_starts_are_quiet_for_as_long_as_a_run_waits() -> None:
    with a_world() as world:
        execution = waiting(world, **SCHEDULE)
        world.answer(asked_run(world), refusal="not today")
        world.finish(execution)
        quiet = world.run("scale_out", **SCHEDULE)
        assert (quiet.status, quiet.output["error"]) == ("SUCCEEDED", "ApprovalRefused")
        assert "automatic starts ask again from" in quiet.output["reason"]
        by_hand = waiting(world)
        world.answer(asked_run(world), refusal="still not")
        world.finish(by_hand)
        world.run_for(31 * MINUTE)
        waiting(world, **SCHEDULE)
        assert len(world.operators.mails) == 3


def test_within_the_limits_nobody_is_asked() -> None:
    with a_world(**ABOVE_LIMITS) as world:
        execution = world.run("scale_out")
        assert "AskApproval" not in execution.states
        assert execution.states[-1] == "ReplicaInService"
        assert world.operators.mails == []


def test_above_the_ceiling_a_yes_builds_and_nothing_else_does() -> None:
    with a_world(**ABOVE_LIMITS, max_replicas=1) as world:
        execution = waiting(world)
        assert (
            "why       ceiling: 1 serving + 0 building + 1 wanted exceeds max_replicas 1"
            in world.operators.mails[0][1]
        )
        world.answer(asked_run(world))
        world.finish(execution)
        assert execution.states[-1] == "ReplicaInService"
        settled(world, peaks=1)


def test_a_plan_that_has_become_dearer_is_refused_again_with_both_numbers() -> None:
    with a_world() as world:
        execution = waiting(world)
        changed = settings(**{"max_replicas": 2, **ASKED, "instance_hourly_usd": 0.2})
        world.clusters.by_name["orders"] = changed
        world.answer(asked_run(world))
        world.finish(execution)
        assert (execution.status, execution.output["error"]) == ("SUCCEEDED", "ScaleOutRefused")
        assert "0.2009 USD an hour for the batch, 0.1269 were approved" in execution.output["reason"]
        settled(world)


def test_a_fleet_that_has_grown_meanwhile_is_not_what_was_approved() -> None:
    patient = {"limits": {**ABOVE_LIMITS["limits"], "approval_minutes": 120}}
    with a_world(**patient, max_replicas=1) as world:
        execution = waiting(world)
        run = asked_run(world)
        world.clusters.by_name["orders"] = settings(**patient, max_replicas=2)
        assert world.run("scale_out").states[-1] == "ReplicaInService"
        world.clusters.by_name["orders"] = settings(**patient, max_replicas=1)
        world.run_for(2 * MINUTE)
        world.answer(run)
        world.finish(execution)
        assert execution.output["error"] == "ScaleOutRefused"
        assert "3 replicas in all, 2 were approved" in execution.output["reason"]
        settled(world, peaks=1)


def test_a_try_whose_end_was_lost_tells_nobody_twice_and_the_newest_token_counts() -> None:
    with a_world() as world:
        lost = DiesAtTheEnd()
        world.functions.interfere = lambda one: lost if one.state == "AskApproval" else None
        execution = waiting(world)
        assert [one.attempt for one in world.functions.invocations if one.state == "AskApproval"] == [1, 2]
        assert len(world.operators.mails) == 1
        world.answer(asked_run(world))
        world.finish(execution)
        assert execution.states[-1] == "ReplicaInService"


def test_a_try_that_lands_late_does_not_bring_its_dead_token_back() -> None:
    with a_world() as world:
        late = LandsLate(
            at="approvals.ask", functions=world.functions, seconds=40, error="Lambda.SdkClientException"
        )
        world.functions.interfere = lambda one: late if one.state == "AskApproval" else None
        execution = waiting(world)
        assert len(world.operators.mails) == 1
        world.answer(asked_run(world))
        world.finish(execution)
        assert execution.states[-1] == "ReplicaInService"


def test_where_nobody_can_be_told_the_run_fails_and_says_so() -> None:
    with a_world() as world:
        denied = Raises(at="operators.tell", error=AwsCallRejected("sns:Publish: AccessDenied"), always=True)
        world.functions.interfere = lambda one: denied if one.state == "AskApproval" else None
        execution = world.run("scale_out")
        assert (execution.status, execution.states[-1]) == ("FAILED", "NotApproved")
        assert "AskApproval failed (AwsCallRejected): sns:Publish: AccessDenied" in execution.cause
        world.run_for(2 * MINUTE)
        assert rows(world, "approval#")[0]["answer"] == "stopped"
        settled(world)


def test_where_it_cannot_be_found_out_whether_to_ask_the_run_is_refused() -> None:
    with a_world() as world:
        denied = Raises(at="compute.instances_of_cluster", error=AwsCallRejected("denied"), always=True)
        world.functions.interfere = lambda one: denied if one.state == "CheckApproval" else None
        execution = world.run("scale_out")
        assert execution.output["error"] == "ScaleOutRefused"
        assert "nobody has approved it" in execution.output["reason"]
        settled(world)


def test_plan_mode_says_that_it_would_wait_and_asks_nobody() -> None:
    with a_world() as world:
        execution = world.run("scale_out", mode="plan")
        assert execution.output["approval"] == {
            "reasons": ["limits.approval is always"],
            "above_limits": False,
        }
        assert (execution.output["refusals"], world.operators.mails) == ([], [])
        [told] = [one for one in execution.output["calls"] if one["action"] == "sns:Publish"]
        assert told["states"] == ["AskApproval"]
