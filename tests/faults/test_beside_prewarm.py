"""The database is at work while its volumes are still read: what may befall the rest of the reading then (I5, I9)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from peaker_contract.errors import AwsCallRejected, AwsUnavailable, PrewarmFailed, Throttled
from sim import outside
from sim.workflows.functions import Interference, Invocation
from sim.workflows.interferences import AtCall, DiesAfter, DiesBefore, LosesAnswer, Raises
from sim.world import World
from tests.faults.test_from_outside import audited, happens_at
from tests.faults.test_scenarios import HOUR, MINUTE, a_world, alive, settled

READING_SECONDS = 1800.0


def slow_reading(world: World) -> None:
    """Half an hour, of which a tenth until the database may start."""
    world.commands.pace = replace(
        world.commands.pace, prewarm_mib=READING_SECONDS * 25.0, rate_mib_per_s=25.0
    )
    world.commands.behind_since_snapshot = True


def in_the_rest(world: World, what: Callable[[], Any]) -> None:
    """Five minutes after the database and its replication have begun."""
    happens_at(world, "FinishPrewarm", what, after_seconds=5 * MINUTE)


def times(world: World, document: str) -> list[tuple[float, float]]:
    """When each command of this document was sent and had ended."""
    sent = world.account.commands.values()
    return [(one["sent"], one["done"]) for one in sent if one["document"] == document]


def test_the_replica_catches_up_while_its_volumes_are_read_and_is_proven_before_it_serves() -> None:
    with a_world() as world:
        slow_reading(world)
        execution = world.run("scale_out")
        assert execution.status == "SUCCEEDED"
        [(read_from, _)], [(started, _)] = times(world, "start_prewarm"), times(world, "start_database")
        [(looked, proven)], [(waited, caught_up)] = (
            times(world, "verify_storage"),
            times(world, "wait_for_catch_up"),
        )
        [(asked, _)] = times(world, "check_mounts")
        assert started - read_from < READING_SECONDS / 4
        assert read_from + READING_SECONDS < looked < proven < waited < caught_up < asked
        assert caught_up - waited < MINUTE, "it had caught up by then"
        settled(world, peaks=1)
        assert audited(world) == []


def test_a_host_that_boots_anew_reads_on_and_its_database_is_started_again() -> None:
    """Nothing starts it on that host by itself: its volumes are not mounted after a boot."""
    with a_world() as world:
        slow_reading(world)
        in_the_rest(world, lambda: outside.restart(world, alive(world)[0]))
        assert world.run("scale_out").status == "SUCCEEDED"
        assert [
            len(times(world, one)) for one in ("start_prewarm", "start_database", "start_replication")
        ] == [
            2,
            2,
            2,
        ]
        [(_, proven)] = times(world, "verify_storage")
        assert times(world, "start_database")[1][0] > proven
        settled(world, peaks=1)
        assert audited(world) == []


def test_an_engine_that_dies_behind_the_database_is_started_again() -> None:
    with a_world() as world:
        slow_reading(world)
        in_the_rest(
            world, lambda: world.account.happened(alive(world)[0], world.time.seconds, "prewarm", False)
        )
        assert world.run("scale_out").status == "SUCCEEDED"
        assert len(times(world, "start_prewarm")) == 2
        assert len(times(world, "start_database")) == 1
        settled(world, peaks=1)


def test_a_reading_that_fails_behind_the_database_takes_the_replica_away() -> None:
    with a_world() as world:
        slow_reading(world)
        broken = {"state": "failed", "message": "I/O error on data"}
        in_the_rest(world, lambda: world.commands.scripts.update({("report_prewarm", None): [broken] * 1000}))
        execution = world.run("scale_out")
        assert execution.status == "FAILED"
        assert PrewarmFailed.__name__ in f"{execution.error} {execution.cause}"
        world.run_for(HOUR)
        settled(world)
        assert audited(world) == []


def test_a_database_that_has_caught_up_is_not_registered_on_cold_volumes() -> None:
    with a_world() as world:
        slow_reading(world)
        world.commands.scripts["verify_storage", None] = [
            {"verdict": "not_warm", "reason": "5 % cold"}
        ] * 1000
        execution = world.run("scale_out")
        assert execution.status == "FAILED"
        assert times(world, "wait_for_catch_up") == times(world, "check_mounts") == []
        world.run_for(HOUR)
        settled(world)
        assert audited(world) == []


@pytest.mark.parametrize("children_outlive", [False, True])
def test_a_run_that_is_stopped_behind_the_database_leaves_nothing(children_outlive: bool) -> None:
    with a_world() as world:
        slow_reading(world)
        world.workflows.children_outlive = children_outlive
        execution = world.start("scale_out")
        in_the_rest(world, lambda: world.stop(execution))
        world.finish(execution)
        assert execution.status == "ABORTED"
        world.run_for(2 * HOUR)
        settled(world)
        assert audited(world) == []


CALL = "commands.send"
FAULTS: dict[str, tuple[Callable[[], AtCall], str]] = {
    "throttled": (lambda: Raises(at=CALL, error=Throttled("on purpose")), "SUCCEEDED"),
    "refused": (lambda: Raises(at=CALL, error=AwsCallRejected("on purpose")), "FAILED"),
    "answer lost": (lambda: LosesAnswer(at=CALL, error=AwsUnavailable("on purpose")), "SUCCEEDED"),
    "crash before": (lambda: DiesBefore(at=CALL), "SUCCEEDED"),
    "crash after": (lambda: DiesAfter(at=CALL), "SUCCEEDED"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_a_look_at_the_rest_leaves_one_replica_or_nothing(fault: str) -> None:
    make, end = FAULTS[fault]
    with a_world() as world:
        slow_reading(world)
        comes = make()

        def in_the_rest_alone(invocation: Invocation) -> Interference | None:
            looks = (invocation.state, invocation.payload.get("until")) == ("ReportPrewarm", "serving")
            return comes if looks else None

        world.functions.interfere = in_the_rest_alone
        assert world.run("scale_out").status == end
        assert comes.done
        world.run_for(HOUR)
        settled(world, peaks=end == "SUCCEEDED")
        assert audited(world) == []
