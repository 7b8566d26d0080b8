"""Taking away what a run made: all of it, in order, and nothing else (I1, I9)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from peaker.domain.replicas.fleet import ReplicaState
from peaker.domain.replicas.inventory import TargetState
from peaker.domain.runs.failure import Failure
from peaker.domain.runs.ledger import ResourceKind, ResourceState
from peaker.domain.runs.run import FailedStep, StepInput
from peaker.usecases.run.held_lease import holder_of
from peaker.usecases.run.tear_down import TearDown, remove_targets, tear_down
from peaker.usecases.undo.undo_run import undo_run

from peaker_contract.errors import AwsCallRejected, NotOwned, UndoInProgress
from peaker_contract.names import OWNER_TAG, RUN_TAG, VOLUME_TAG
from tests.support.builders import (
    BASE,
    RUN_ID,
    data_volumes_of,
    leased,
    orders,
    run_with_a_registered_replica,
    with_cluster,
)
from tests.support.fakes import FakePorts, fake_ports

NEW = "i-000000000000c0002"
TAGS = {OWNER_TAG: "local", RUN_TAG: RUN_ID}


@pytest.fixture
def ports() -> FakePorts:
    return with_cluster(fake_ports(orders()))


def failed(step: StepInput) -> FailedStep:
    failure = Failure(failed_step="VerifyStorage", error="StorageNotWarm", cause="x")
    return FailedStep(**{**step.model_dump(), "step": "UndoScaleOut"}, failure=failure)


def build(ports: FakePorts) -> FailedStep:
    """A run that got as far as a registered replica with volumes and snapshots."""
    step = run_with_a_registered_replica(ports)
    return failed(step)


def undo(ports: FakePorts, step: FailedStep, calls: int = 20) -> None:
    """Call again as the workflow does, while the world moves on between the calls."""
    for _ in range(calls):
        try:
            undo_run(ports, step)
            return
        except UndoInProgress:
            ports.clock.advance(minutes=1)
            ports.endpoint.finish_draining()
            for gone in ports.compute.terminated:
                ports.storage.detach_all(gone)
    raise AssertionError("the undo does not end")


def test_nothing_of_the_run_is_left_and_the_fleet_is_as_it_was(ports: FakePorts) -> None:
    undo(ports, build(ports))
    assert ports.compute.terminated == [NEW]
    assert [one.volume_id for one in ports.storage.volumes.values()] == [
        v.volume_id for v in data_volumes_of(BASE)
    ]
    assert ports.storage.snapshots == {}
    assert set(ports.endpoint.targets) == {BASE}
    assert {row.state for row in ports.ledger.resources(RUN_ID)} == {ResourceState.UNDONE}


def test_the_instance_lives_until_its_clients_have_drained(ports: FakePorts) -> None:
    step = build(ports)
    for _ in range(3):
        with pytest.raises(UndoInProgress, match="target"):
            undo_run(ports, step)
    assert ports.compute.terminated == []


def test_a_replica_that_nobody_uses_any_more_does_not_wait_for_the_deregistration_delay(
    ports: FakePorts,
) -> None:
    step = build(ports)
    job = TearDown(ports, holder_of(step), ports.clusters.settings("orders"), RUN_ID, drained=True)
    assert tear_down(job) == [f"target {NEW} healthy"]
    assert ports.endpoint.targets[NEW].state is TargetState.DRAINING
    assert ports.compute.terminated == []
    tear_down(job)
    assert ports.compute.terminated == [NEW]


def test_volumes_wait_until_the_instance_is_gone(ports: FakePorts) -> None:
    step = build(ports)
    ports.endpoint.targets.pop(NEW)
    with pytest.raises(UndoInProgress):
        undo_run(ports, step)
    assert ports.storage.deleted == []


def test_an_instance_of_another_owner_is_left_alone(ports: FakePorts) -> None:
    step = build(ports)
    ports.endpoint.targets.pop(NEW)
    ports.compute.instances[NEW] = replace(
        ports.compute.instances[NEW], tags={RUN_TAG: RUN_ID, OWNER_TAG: "prod"}
    )
    with pytest.raises(NotOwned, match="peaker:owner is 'prod'"):
        undo(ports, step)
    assert ports.compute.terminated == []


def test_a_refused_deletion_keeps_nothing_else_from_going(ports: FakePorts) -> None:
    """Both snapshots and a volume are refused; the rest goes, and the end names all three."""
    step = build(ports)
    for snapshot_id in ports.storage.snapshots:
        ports.storage.undeletable[snapshot_id] = AwsCallRejected(f"{snapshot_id}: InvalidSnapshot.InUse")
    ports.storage.undeletable["vol-data-0002"] = AwsCallRejected("vol-data-0002: UnauthorizedOperation")
    with pytest.raises(AwsCallRejected) as told:
        undo(ports, step)
    assert ports.compute.terminated == [NEW]
    assert ports.storage.deleted == ["vol-log-0002"]
    for name in ("vol-data-0002", *ports.storage.snapshots):
        assert name in str(told.value)


def test_a_target_that_a_late_call_put_back_leaves_again(ports: FakePorts) -> None:
    """Its row says undone already."""
    step = build(ports)
    job = TearDown(ports, holder_of(step), ports.clusters.settings("orders"), RUN_ID)
    ports.endpoint.targets.pop(NEW), ports.endpoint.warming.pop(NEW)
    assert remove_targets(job, ports.ledger.resources(RUN_ID)) == []
    ports.endpoint.set_warming(NEW, TargetState.HEALTHY)
    assert remove_targets(job, ports.ledger.resources(RUN_ID)) == [f"target {NEW} healthy"]
    assert ports.endpoint.warming[NEW].state is TargetState.DRAINING


def test_a_target_whose_instance_ec2_has_forgotten_leaves_all_the_same(ports: FakePorts) -> None:
    step = build(ports)
    ports.endpoint.set(NEW, TargetState.UNUSED)
    del ports.compute.instances[NEW]
    ports.storage.detach_all(NEW)
    undo(ports, step)
    assert NEW not in ports.endpoint.health(orders())
    assert ports.storage.volumes_of_run(RUN_ID) == []


def test_a_command_that_may_still_show_is_waited_for_and_cancelled(ports: FakePorts) -> None:
    step = leased(ports, "StartDatabase")
    details = {"document": "start_database", "instance_id": BASE}
    ports.ledger.intend(
        holder_of(step), ResourceKind.COMMAND, "StartDatabase#1", step.step, ports.clock.now(), details
    )
    with pytest.raises(UndoInProgress, match=r"StartDatabase#1 of i-.* \(its answer was lost\)"):
        undo_run(ports, failed(step))
    ports.commands.sent.append(("start_database", BASE, f"{RUN_ID} StartDatabase#1"))
    undo(ports, failed(step))
    assert ports.commands.cancelled == ["command-1"]


def test_a_target_of_another_owner_is_not_deregistered(ports: FakePorts) -> None:
    step = leased(ports, "RegisterReplica")
    row = ports.ledger.intend(
        holder_of(step),
        ResourceKind.TARGET,
        "read-endpoint",
        step.step,
        ports.clock.now(),
        {"instance_id": BASE},
    )
    ports.ledger.made(holder_of(step), row, BASE, ports.clock.now())
    with pytest.raises(NotOwned):
        undo_run(ports, failed(step))
    assert ports.endpoint.targets[BASE].state is TargetState.HEALTHY


def test_a_lost_answer_is_waited_for_and_then_taken_away(ports: FakePorts) -> None:
    step = leased(ports, "CreateVolumes")
    holder = holder_of(step)
    ports.ledger.intend(holder, ResourceKind.VOLUME, "data", step.step, ports.clock.now(), {})
    with pytest.raises(UndoInProgress, match="its answer was lost"):
        undo_run(ports, failed(step))
    late = replace(data_volumes_of(NEW)[0], volume_id="vol-late", state="available", instance_id=None)
    ports.storage.add(replace(late, attachment_state=None, tags={**TAGS, VOLUME_TAG: "data"}))
    undo(ports, failed(step))
    assert ports.storage.deleted == ["vol-late"]


def test_an_answer_that_never_comes_ends_the_wait(ports: FakePorts) -> None:
    step = leased(ports, "CreateVolumes")
    ports.ledger.intend(holder_of(step), ResourceKind.VOLUME, "data", step.step, ports.clock.now(), {})
    undo(ports, failed(step))
    assert ports.storage.deleted == []


def test_what_was_just_made_and_does_not_show_yet_is_not_taken_for_gone(
    ports: FakePorts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RunInstances had answered, the branch beside it failed; DescribeInstances showed nothing: the instance stayed."""
    step = build(ports)
    ports.endpoint.targets.pop(NEW), ports.endpoint.warming.pop(NEW)
    with monkeypatch.context() as patch:
        patch.setattr(ports.compute, "instances_of_run", lambda _: [])
        patch.setattr(ports.storage, "volumes_of_run", lambda _: [])
        with pytest.raises(UndoInProgress, match=r"instance replica \(it does not show yet\)"):
            undo_run(ports, step)
    undo(ports, step)
    assert ports.compute.terminated == [NEW]
    assert ports.storage.volumes_of_run(RUN_ID) == []


def test_a_second_snapshot_set_of_a_lost_answer_goes_too(ports: FakePorts) -> None:
    step = build(ports)
    ports.storage.create_snapshots(BASE, ["vol-data-0001", "vol-log-0001"], TAGS)
    undo(ports, step)
    assert ports.storage.snapshots == {}


def test_the_replicas_row_ends_as_retired(ports: FakePorts) -> None:
    from peaker.domain.replicas.fleet import ReplicaRow

    step = build(ports)
    row = ReplicaRow("orders", NEW, RUN_ID, ReplicaState.BUILDING, ports.clock.now())
    ports.ledger.set_replica(holder_of(step), row)
    undo(ports, step)
    assert ports.ledger.replicas("orders")[NEW].state is ReplicaState.RETIRED
