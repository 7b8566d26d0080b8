"""A direct fill as its steps do it: empty volumes, an engine that writes them, nothing called whole that is not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from peaker.domain.planning.plan import ScaleOutPlan
from peaker.domain.runs.run import PrewarmStep
from peaker.domain.storage.io_findings import InstancePromise
from peaker.usecases.create.choose_donor import choose_donor
from peaker.usecases.create.create_snapshots import create_snapshots
from peaker.usecases.create.create_volumes import create_volumes
from peaker.usecases.create.launch_replica import launch_replica
from peaker.usecases.plan.plan_scale_out import plan_scale_out
from peaker.usecases.run.held_lease import holder_of, lease_end
from peaker.usecases.warm.report_prewarm import PrewarmProgress, report_prewarm
from peaker.usecases.warm.start_prewarm import start_prewarm

from peaker_contract import errors
from tests.support.builders import RUN_ID, leased, orders, with_cluster
from tests.support.fakes import NOON, FakePorts, fake_ports
from tests.unit.usecases.create.test_building import answer, plan_step

KEY = "arn:aws:kms:us-east-1:111111111111:key/0a1b2c3d-0000-4000-8000-000000000001"


def world(volumes: Sequence[dict[str, Any]] = (), **prewarm: Any) -> FakePorts:
    """A run that is to fill its volumes, with its snapshots complete and its instance launched."""
    changes = {"volumes": list(volumes)} if volumes else {}
    ports = with_cluster(
        fake_ports(
            orders(initialization_rate_mib_per_s=None, prewarm={"direct_fill": True, **prewarm}, **changes)
        )
    )
    ports.compute.ebs_promise = lambda _: InstancePromise(baseline_mib_per_s=593)  # type: ignore[method-assign]
    plan_scale_out(ports, plan_step(ports, ready_by=NOON + timedelta(minutes=1)))
    assert ports.ledger.run(RUN_ID).required(ScaleOutPlan, "").starts_empty
    choose_donor(ports, leased(ports, "ChooseDonor"))
    create_snapshots(ports, leased(ports, "CreateSnapshots"))
    ports.storage.complete()
    launch_replica(ports, leased(ports, "LaunchReplica"))
    return ports


def with_volumes(ports: FakePorts) -> FakePorts:
    create_volumes(ports, leased(ports, "CreateVolumes"))
    return ports


def reported(ports: FakePorts, **numbers: Any) -> PrewarmProgress:
    """What the child workflow is told; the engine has begun a minute ago."""
    step = PrewarmStep(**leased(ports, "ReportPrewarm").model_dump(), until="filled")
    now = ports.clock.now()
    ports.ledger.start_step(holder_of(step), "StartPrewarm", now, lease_end(now))
    answer(ports, "report_prewarm", **{"state": "running", "blocks_done": 8, "blocks_total": 9, **numbers})
    return report_prewarm(ports, step)


def test_volumes_are_empty_as_large_and_without_a_rate() -> None:
    ports = with_volumes(world())
    assert [(one.snapshot_id, one.kms_key_id, one.size_gib) for one in ports.storage.specs] == [
        (None, None, 4),
        (None, None, 4),
    ]
    assert {one.initialization_rate_mib_per_s for one in ports.storage.specs} == {None}
    assert {one.name for one in ports.storage.volumes_of_run(RUN_ID)} == {"data", "log"}


def test_an_empty_volume_is_under_the_key_of_its_snapshot() -> None:
    """One of a snapshot would be by itself."""
    ports = world()
    for name, one in ports.storage.snapshots.items():
        ports.storage.snapshots[name] = replace(one, kms_key_id=KEY)
    with_volumes(ports)
    assert {one.kms_key_id for one in ports.storage.specs} == {KEY}


def test_no_volume_is_made_for_a_snapshot_that_is_gone() -> None:
    ports = world()
    ports.storage.snapshots.clear()
    with pytest.raises(errors.ResourceNotFound, match="does not show"):
        with_volumes(ports)
    assert ports.storage.specs == []


def test_the_host_is_told_each_volumes_own_snapshot() -> None:
    ports = with_volumes(world())
    answer(ports, "start_fill", pid=1)
    start_prewarm(ports, leased(ports, "StartPrewarm"))
    sent = ports.commands.parameters[-1]
    volumes = {one["name"]: one["volume_id"] for one in json.loads(sent["Volumes"])}
    assert volumes == {one.name: one.volume_id for one in ports.storage.volumes_of_run(RUN_ID)}
    assert set(json.loads(sent["Snapshots"])) == {"data", "log"}
    assert set(json.loads(sent["Snapshots"]).values()) == set(ports.storage.snapshots)
    assert (sent["Method"], sent["RequestsPerSecond"]) == ("hot", "900")
    assert (sent["Engine"], sent["HealthPort"]) == ("mysql", "9200")


def test_each_member_of_a_set_is_filled_from_its_own_snapshot_and_the_host_is_told_their_one_place() -> None:
    place = "/var/lib/mysql"
    striped = [
        {**one.model_dump(mode="json"), "layout": "raid0", "mount_point": place} for one in orders().volumes
    ]
    ports = with_volumes(world(striped))
    answer(ports, "start_fill", pid=1)
    start_prewarm(ports, leased(ports, "StartPrewarm"))
    sent = ports.commands.parameters[-1]
    assert [(one["name"], one["mount_point"]) for one in json.loads(sent["Volumes"])] == [
        ("data", place),
        ("log", place),
    ]
    assert len(set(json.loads(sent["Snapshots"]).values())) == 2


@pytest.mark.parametrize("serve_when", ["all", "hot"])
def test_a_volume_is_not_mounted_before_its_last_block_is_there(serve_when: str) -> None:
    """The hot blocks are of no use alone, and the last block is not there because it soon will be."""
    ports = world(serve_when=serve_when)
    assert reported(ports, hot_eta_seconds=1.0, eta_seconds=900.0).state == "running"
    assert reported(ports, hot_warm_seconds=9.0, eta_seconds=1.0).state == "running"
    assert reported(ports, state="done", hot_warm_seconds=9.0).state == "done"


def test_a_fill_that_is_refused_says_which_right_it_lacks_and_where_that_is_told() -> None:
    with pytest.raises(errors.PrewarmFailed, match=r"AccessDeniedException.*docs/permissions\.md"):
        reported(world(), state="failed", message="/snapshots/snap-1/blocks: AccessDeniedException")


def test_an_engine_that_died_is_started_again() -> None:
    assert reported(world(), state="dead").state == "dead"
