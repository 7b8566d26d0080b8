"""What an execution says in its end: the step that failed first, and the lease that another run holds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bench.faults.situations import SITUATIONS, Situation
from peaker_contract.errors import AwsCallRejected
from sim.workflows.functions import Interference, Invocation
from sim.workflows.interferences import Raises
from sim.world import World

FIRST = {
    "build fails": "LoadBufferPool failed (HostCommandFailed)",
    "retirement fails": "ConfirmIdle failed (AwsCallRejected)",
}


@contextmanager
def world_of(situation: Situation) -> Iterator[World]:
    world = situation.world(seed=7)
    try:
        yield world
    finally:
        world.close()


@pytest.mark.parametrize("title", FIRST)
def test_a_receipt_that_cannot_be_written_hides_no_failure(title: str) -> None:
    situation = SITUATIONS[title]
    with world_of(situation) as world:
        execution = situation.begin(world, lambda _: None)
        others = world.functions.interfere

        def refused(one: Invocation) -> Interference | None:
            if one.state in ("RecordFailure", "ReleaseLeaseAfterFailure"):
                return Raises(at=0, always=True, error=AwsCallRejected("on purpose"))
            return others(one)

        world.functions.interfere = refused
        ended = world.finish(execution)
        assert "RecordFailure" in ended.states
        assert FIRST[title] in str(ended.cause)


@pytest.mark.parametrize("title", ["build", "retire"])
def test_of_two_starts_at_once_the_second_is_told_whose_the_lease_is(title: str) -> None:
    situation = SITUATIONS[title]
    with world_of(situation) as world:
        first = situation.begin(world, lambda _: None)
        world.run_for(60)
        second = world.finish(world.start(first.workflow))
        assert (second.states[-1], second.output["error"]) == ("Refused", "LeaseHeld")
        assert world.finish(first).status == "SUCCEEDED"
