"""A run clones its donor onto empty volumes: without a snapshot, or undone and built from snapshots (I9, ADR 15)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bench.faults.situations import CLONE, SOON, wide_instances
from bench.faults.workflows.executions import Execution
from bench.faults.world.world import World
from peaker_contract.tags import ROLE_TAG
from tests.faults.test_direct_fill import in_service, read_instead, refused, sent, snapshots_of_volumes
from tests.faults.test_from_outside import audited, happens_at
from tests.faults.test_scenarios import HOUR, a_world, alive


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


def test_a_donor_with_tables_that_a_clone_would_bring_empty_is_answered_from_snapshots() -> None:
    with a_world_that_clones() as world:
        world.commands.scripts.update(
            {("prepare_donor", None): [{"tables_not_innodb": ["shop.old (MyISAM)"]}] * 2}
        )
        execution = world.run("scale_out", **SOON)
        read_instead(world, execution)
        assert sent(world, "start_clone") == []


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
        assert alive(world, "volumes") == []
        assert audited(world) == []
