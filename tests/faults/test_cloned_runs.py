"""A run clones its donor onto empty volumes: without a snapshot, or undone and built from snapshots (I9, ADR 15)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from bench.faults.situations import CLONE, SOON, wide_instances
from bench.faults.workflows.executions import Execution
from bench.faults.world import outside
from bench.faults.world.world import World
from peaker_contract.tags import ROLE_TAG
from tests.faults.test_direct_fill import in_service, read_instead, refused, sent, snapshots_of_volumes
from tests.faults.test_from_outside import audited, happens_at
from tests.faults.test_scenarios import HOUR, MINUTE, a_world, alive, settled


@contextmanager
def a_world_that_clones(**changes: Any) -> Iterator[World]:
    with a_world(**{**CLONE, **changes}) as world:
        wide_instances(world)
        yield world


def cloned(world: World, execution: Execution) -> None:
    """The replica that stands was cloned, and no snapshot was taken for it."""
    in_service(world, execution)
    assert snapshots_of_volumes(world) == [None, None]
    assert sent(world, "start_prewarm") == sent(world, "start_fill") == []
    assert world.account.snapshots == {}


def test_volumes_are_cloned_without_a_snapshot_and_proven_before_the_replica_serves() -> None:
    with a_world_that_clones() as world:
        cloned(world, world.run("scale_out", **SOON))
        [began], [assembled], [proven] = (
            sent(world, one) for one in ("start_clone", "assemble_storage", "verify_storage")
        )
        assert began + world.commands.pace.prewarm_seconds < assembled < proven


def test_the_host_is_told_its_donor_and_how_much_it_may_take() -> None:
    with a_world_that_clones() as world:
        world.run("scale_out", **SOON)
        [command] = [one for one in world.account.commands.values() if one["document"] == "start_clone"]
        donors = [
            one["instance"] for one in world.account.commands.values() if one["document"] == "prepare_donor"
        ]
        told = command["parameters"]
        assert [told["DonorHost"]] == [world.ports.compute.instance(one).private_ip for one in donors]
        assert (told["DonorPort"], told["RateMibPerS"]) == ("3306", "4000")


def test_without_the_setting_no_run_clones() -> None:
    with a_world() as world:
        read_instead(world, world.run("scale_out", **SOON))
        assert sent(world, "start_clone") == []


def test_without_a_deadline_a_run_does_what_the_settings_say() -> None:
    with a_world_that_clones() as world:
        read_instead(world, world.run("scale_out"))


def test_several_at_once_are_built_from_one_set_of_snapshots() -> None:
    """A donor gives one clone at a time."""
    with a_world_that_clones(max_replicas=3) as world:
        world.run("scale_out", count=2, **SOON)
        assert sent(world, "start_clone") == []


def test_what_the_donor_refuses_is_answered_from_snapshots_in_the_same_run() -> None:
    with a_world_that_clones() as world:
        refused(world, error="CloneRefused", message="Clone Donor Error: 1227 : Access denied; BACKUP_ADMIN")
        execution = world.run("scale_out", **SOON)
        read_instead(world, execution)
        assert len(sent(world, "start_clone")) == 1
        assert len(sent(world, "prepare_donor")) == 2, "the position is that of the snapshots"


def test_a_donor_that_became_the_source_is_not_cloned() -> None:
    with a_world_that_clones() as world:

        def failover() -> None:
            [donor] = {
                one["instance"]
                for one in world.account.commands.values()
                if one["document"] == "prepare_donor"
            }
            world.account.instances[donor]["tags"][ROLE_TAG] = "source"

        happens_at(world, "AttachVolumes", failover)
        execution = world.run("scale_out", **SOON)
        assert sent(world, "start_clone") == []
        assert execution.status == "FAILED"
        world.run_for(HOUR)
        assert alive(world, "volumes") == [] or audited(world) == []


def test_an_engine_that_dies_begins_anew() -> None:
    with a_world_that_clones() as world:
        happens_at(
            world,
            "FillVolumes",
            lambda: world.account.happened(alive(world)[0], world.time.seconds, "prewarm", False),
            after_seconds=MINUTE,
        )
        cloned(world, world.run("scale_out", **SOON))
        assert len(sent(world, "start_clone")) == 2


def test_a_host_that_boots_anew_in_the_middle_clones_again() -> None:
    with a_world_that_clones() as world:
        happens_at(
            world, "FillVolumes", lambda: outside.restart(world, alive(world)[0]), after_seconds=MINUTE
        )
        cloned(world, world.run("scale_out", **SOON))


@pytest.mark.parametrize("children_outlive", [False, True])
def test_a_run_that_is_stopped_while_it_clones_leaves_nothing(children_outlive: bool) -> None:
    with a_world_that_clones() as world:
        world.workflows.children_outlive = children_outlive
        execution = world.start("scale_out", **SOON)
        happens_at(world, "FillVolumes", lambda: world.stop(execution), after_seconds=MINUTE)
        world.finish(execution)
        assert execution.status == "ABORTED"
        world.run_for(2 * HOUR)
        settled(world)
        assert audited(world) == []
