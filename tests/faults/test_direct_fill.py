"""A run fills empty volumes: whole before anything is mounted, or undone and built another way (I9, ADR 12)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from bench.faults.situations import FILL, SOON, wide_instances
from bench.faults.workflows.executions import Execution
from bench.faults.world.world import World
from peaker_contract.tags import VOLUME_TAG
from tests.faults.test_from_outside import audited, happens_at
from tests.faults.test_scenarios import HOUR, MINUTE, a_world, alive, settled


@contextmanager
def a_world_that_fills(**changes: Any) -> Iterator[World]:
    with a_world(**{**FILL, **changes}) as world:
        wide_instances(world)
        yield world


def sent(world: World, document: str) -> list[float]:
    """When each command of this document had ended."""
    return [one["done"] for one in world.account.commands.values() if one["document"] == document]


def snapshots_of_volumes(world: World) -> list[str | None]:
    """Of each data volume that runs made and that is there still."""
    made = [world.account.volumes[one] for one in alive(world, "volumes")]
    return [one["snapshot"] for one in made if one["tags"][VOLUME_TAG] != "root"]


def in_service(world: World, execution: Execution) -> None:
    assert execution.status == "SUCCEEDED", (execution.error, execution.cause)
    assert execution.states[-1] == "ReplicaInService"
    settled(world, peaks=1)
    assert audited(world) == []


def filled(world: World, execution: Execution) -> None:
    """The replica that stands was filled."""
    in_service(world, execution)
    assert snapshots_of_volumes(world) == [None, None]
    assert sent(world, "start_prewarm") == []


def read_instead(world: World, execution: Execution) -> None:
    """The replica that stands has volumes of the snapshots, which were read."""
    in_service(world, execution)
    assert None not in snapshots_of_volumes(world)
    assert len(sent(world, "start_prewarm")) == 1


def refused(world: World, **answer: Any) -> None:
    """The engine's end of this run's fill; any later engine is well."""
    happens_at(
        world,
        "FillVolumes",
        lambda: world.commands.scripts.update(
            {("report_prewarm", alive(world)[0]): [{"state": "failed", **answer}] * 3}
        ),
    )


def test_volumes_are_filled_before_anything_is_mounted_and_proven_before_the_replica_serves() -> None:
    with a_world_that_fills() as world:
        filled(world, world.run("scale_out", **SOON))
        [began], [assembled], [proven] = (
            sent(world, one) for one in ("start_fill", "assemble_storage", "verify_storage")
        )
        assert began + world.commands.pace.prewarm_seconds < assembled < proven


def test_without_the_setting_no_run_fills() -> None:
    with a_world() as world:
        read_instead(world, world.run("scale_out", **SOON))
        assert sent(world, "start_fill") == []


def test_without_a_deadline_a_run_does_what_the_settings_say() -> None:
    with a_world_that_fills() as world:
        read_instead(world, world.run("scale_out"))


def test_a_set_is_never_filled() -> None:
    both = [
        {"name": name, "device": f"/dev/sd{letter}", "mount_point": "/var/lib/mysql", "filesystem": "xfs"}
        | {"layout": "raid0", "volume_type": "gp3", "iops": 3000, "throughput_mib_per_s": 125}
        for name, letter in (("data", "f"), ("log", "g"))
    ]
    with a_world_that_fills(volumes=both) as world:
        world.run("scale_out", **SOON)
        assert sent(world, "start_fill") == []


def test_a_right_that_is_missing_is_answered_by_another_method_in_the_same_run() -> None:
    with a_world_that_fills() as world:
        refused(world, error="DirectApiRefused", message="snap-1: AccessDeniedException")
        execution = world.run("scale_out", **SOON)
        read_instead(world, execution)
        assert len(sent(world, "start_fill")) == 1
        assert len({one["instance"] for one in world.account.commands.values()}) == 3, "donor and two members"


def test_no_other_method_is_tried_once_the_deadline_of_the_prewarm_has_passed() -> None:
    limits = {"minimum_lifetime_minutes": 60, "prewarm_deadline_minutes": 15}
    with a_world_that_fills(limits=limits) as world:
        world.commands.pace = replace(world.commands.pace, prewarm_mib=25.0 * HOUR)
        execution = world.run("scale_out", **SOON)
        assert execution.status == "FAILED"
        assert "prewarm_deadline_minutes" in str(execution.cause)
        assert len(sent(world, "start_fill")) == 1
        assert sent(world, "start_prewarm") == []
        world.run_for(HOUR)
        settled(world)


def test_a_host_that_is_gone_in_the_middle_leaves_nothing_and_another_way_is_taken() -> None:
    with a_world_that_fills() as world:
        happens_at(
            world,
            "FillVolumes",
            lambda: world.ports.compute.terminate(alive(world)[0]),
            after_seconds=MINUTE,
        )
        execution = world.run("scale_out", **SOON)
        world.run_for(HOUR)
        settled(world, peaks=len(alive(world)))
        assert audited(world) == []
        assert execution.status in ("SUCCEEDED", "FAILED")
