"""Empty volumes that a host writes, by a direct fill or by a clone: what becomes of engines, hosts and runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

import pytest

from bench.faults.situations import SOON
from bench.faults.workflows.executions import Execution
from bench.faults.world import outside
from bench.faults.world.world import World
from tests.faults.test_cloned_runs import a_world_that_clones, cloned
from tests.faults.test_direct_fill import a_world_that_fills, filled, sent
from tests.faults.test_from_outside import audited, happens_at
from tests.faults.test_scenarios import HOUR, MINUTE, alive, settled


@dataclass(frozen=True)
class Way:
    """How volumes are written: the document that starts it, a world that does it, how it ends well."""

    document: str
    a_world: Callable[[], AbstractContextManager[World]]
    ended_well: Callable[[World, Execution], None]


WAYS = {
    "direct fill": Way("start_fill", a_world_that_fills, filled),
    "clone": Way("start_clone", a_world_that_clones, cloned),
}


@pytest.fixture(params=sorted(WAYS))
def way(request: pytest.FixtureRequest) -> Way:
    return WAYS[request.param]


@pytest.fixture
def world(way: Way) -> Iterator[World]:
    with way.a_world() as one:
        yield one


def test_an_engine_that_dies_is_started_again(world: World, way: Way) -> None:
    happens_at(
        world,
        "FillVolumes",
        lambda: world.account.happened(alive(world)[0], world.time.seconds, "prewarm", False),
        after_seconds=MINUTE,
    )
    way.ended_well(world, world.run("scale_out", **SOON))
    assert len(sent(world, way.document)) == 2


def test_a_host_that_boots_anew_in_the_middle_writes_on(world: World, way: Way) -> None:
    happens_at(world, "FillVolumes", lambda: outside.restart(world, alive(world)[0]), after_seconds=MINUTE)
    way.ended_well(world, world.run("scale_out", **SOON))


@pytest.mark.parametrize("children_outlive", [False, True])
def test_a_run_that_is_stopped_meanwhile_leaves_nothing(world: World, children_outlive: bool) -> None:
    world.workflows.children_outlive = children_outlive
    execution = world.start("scale_out", **SOON)
    happens_at(world, "FillVolumes", lambda: world.stop(execution), after_seconds=MINUTE)
    world.finish(execution)
    assert execution.status == "ABORTED"
    world.run_for(2 * HOUR)
    settled(world)
    assert audited(world) == []
