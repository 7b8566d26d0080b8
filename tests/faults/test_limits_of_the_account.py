"""Runs that wait for what others have: stopped while they wait, asked twice, and several at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from peaker.domain.limits.reservations import Reservation

from bench.faults.audit import Bounds, audit
from bench.faults.situations import SITUATIONS
from bench.faults.world.world import World, settings

RATE: dict[str, Any] = {"initialization_rate_mib_per_s": 300, "max_replicas": 2}


@contextmanager
def a_world(**changes: Any) -> Iterator[World]:
    world = World(11, settings(**{**RATE, **changes}))
    world.load(250, 2)
    try:
        yield world
    finally:
        world.close()


def reservations(world: World) -> tuple[Reservation, ...]:
    return world.ports.shared_limits.reservations().made


def reach(world: World, state: str) -> None:
    """Until a function of that state was called."""
    for _ in range(400):
        if any(one.state == state for one in world.functions.invocations):
            return
        world.run_for(2)
    raise AssertionError(f"{state} was never reached")


def test_a_build_holds_its_rate_until_its_bytes_have_arrived() -> None:
    with a_world() as world:
        execution = world.start("scale_out")
        reach(world, "AttachVolumes")
        [held] = reservations(world)
        # 2 GiB in each snapshot at 300 MiB/s, a fifth more, and a minute.
        assert held.amount == 600
        assert (held.ends_at - held.begins_at).total_seconds() == pytest.approx(
            2 * 1024 / 300 * 1.2 + 60, abs=0.1
        )
        assert world.finish(execution).status == "SUCCEEDED"


def test_a_run_that_is_stopped_while_it_waits_leaves_nothing() -> None:
    world = SITUATIONS["build"].world(3)
    try:
        execution = world.start("scale_out")
        reach(world, "ReserveLimits")
        world.run_for(30)
        assert not any(one["call"] == "compute.launch" for one in world.account.log)
        world.stop(execution)
        world.run_for(1800)
        assert not any(one["call"] == "compute.launch" for one in world.account.log)
        assert audit(world.account, world.time.seconds, Bounds("orders", 1, 2), world.stops) == []
        assert reservations(world) == ()
    finally:
        world.close()


def test_a_stopped_build_gives_its_rate_back_before_it_would_end() -> None:
    with a_world() as world:
        execution = world.start("scale_out")
        reach(world, "CreateVolumes")
        [held] = reservations(world)
        long = held.model_copy(update={"ends_at": held.ends_at + timedelta(hours=9)})
        there = world.ports.shared_limits.reservations()
        world.ports.shared_limits.keep_reservations(there.model_copy(update={"made": (long,)}))
        world.stop(execution)
        world.run_for(1800)
        assert reservations(world) == ()


def test_the_members_of_a_batch_that_fit_have_their_rate_and_the_others_go_without() -> None:
    with a_world(max_replicas=13) as world:
        world.load(1250, 13)
        execution = world.finish(world.start("scale_out", count=12))
        assert execution.status == "SUCCEEDED"
        made = [one["given"] for one in world.account.log if one["call"] == "storage.create_volume"]
        rated = [spec for spec, _ in made if spec.initialization_rate_mib_per_s]
        assert 8 <= len(rated) // 2 <= 12
