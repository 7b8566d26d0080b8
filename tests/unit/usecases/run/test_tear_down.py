"""Taking away what a run made: all of it, in order, and nothing else (I1, I9)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from peaker.domain.replicas.fleet import ReplicaRow, ReplicaState
from peaker.domain.replicas.inventory import TargetState
from peaker.domain.runs.failure import Failure
from peaker.domain.runs.ledger import ResourceKind, ResourceState
from peaker.domain.runs.run import FailedStep, StepInput
from peaker.usecases.run.run_memory import intend
from peaker.usecases.run.tear_down import TearDown, tear_down
from peaker.usecases.undo.undo_run import undo_run

from peaker_contract.errors import AwsCallRejected, NotOwned, UndoInProgress
from peaker_contract.names import OWNER_TAG, RUN_TAG, VOLUME_TAG
from sim.calm import CalmPorts, calm_ports
from tests.support.builders import (
    BASE,
    RUN_ID,
    data_volumes_of,
    leased,
    orders,
    run_with_a_registered_replica,
    with_cluster,
)

NEW = "i-000000000000c0002"
TAGS = {OWNER_TAG: "local", RUN_TAG: RUN_ID}


@pytest.fixture
def ports() -> CalmPorts:
    return with_cluster(calm_ports(orders()))


def failed(step: StepInput) -> FailedStep:
    failure = Failure(failed_step="VerifyStorage", error="StorageNotWarm", cause="x")
    return FailedStep(**{**step.model_dump(), "step": "UndoScaleOut"}, failure=failure)


def build(ports: CalmPorts) -> FailedStep:
    """A run that got as far as a registered replica with volumes and snapshots."""
    step = run_with_a_registered_replica(ports)
    return failed(step)


def undo(ports: CalmPorts, step: FailedStep, calls: int = 20) -> None:
    """Call again as the workflow does, while the world moves on between the calls."""
    for _ in range(calls):
        try:
            undo_run(ports, step)
            return
        except UndoInProgress:
            ports.clock.advance(minutes=1)
    raise AssertionError("the undo does not end")


def test_nothing_of_the_run_is_left_and_the_fleet_is_as_it_was(ports: CalmPorts) -> None:
    undo(ports, build(ports))
    assert ports.done("compute.terminate") == [NEW]
    assert [one.volume_id for one in ports.storage.volumes.values()] == [
        v.volume_id for v in data_volumes_of(BASE)
    ]
    assert ports.storage.snapshots == {}
    assert set(ports.endpoint.health(orders())) == {BASE}
    assert {row.state for row in ports.ledger.resources(RUN_ID)} == {ResourceState.UNDONE}


def test_the_instance_lives_until_its_clients_have_drained(ports: CalmPorts) -> None:
    step = build(ports)
    for _ in range(3):
        with pytest.raises(UndoInProgress, match="target"):
            undo_run(ports, step)
    assert ports.done("compute.terminate") == []


def test_an_instance_of_another_owner_is_left_alone(ports: CalmPorts) -> None:
    step = build(ports)
    ports.endpoint.forget(NEW, only="serving")
    ports.compute.add(replace(ports.compute.instance(NEW), tags={RUN_TAG: RUN_ID, OWNER_TAG: "prod"}))
    with pytest.raises(NotOwned, match="peaker:owner is 'prod'"):
        undo(ports, step)
    assert ports.done("compute.terminate") == []


def test_a_command_that_may_still_show_is_waited_for_and_cancelled(ports: CalmPorts) -> None:
    step = leased(ports, "StartDatabase")
    details = {"document": "start_database", "instance_id": BASE}
    intend(ports, step, ResourceKind.COMMAND, "StartDatabase#1", details)
    with pytest.raises(UndoInProgress, match=r"StartDatabase#1 of i-.* \(its answer was lost\)"):
        undo_run(ports, failed(step))
    asked = {
        "RunId": RUN_ID,
        "ServerId": "7",
        "Health": "{}",
        "Engine": "mysql",
        "HealthPort": "9200",
        "FencingToken": "local/orders:1.0",
        "NotAfter": "9",
    }
    ports.commands.send("start_database", BASE, asked, f"{RUN_ID} StartDatabase#1")
    undo(ports, failed(step))
    assert ports.done("commands.cancel") == list(ports.world.account.commands)


def test_a_target_of_another_owner_is_not_deregistered(ports: CalmPorts) -> None:
    step = leased(ports, "RegisterReplica")
    row = intend(ports, step, ResourceKind.TARGET, "read-endpoint", {"instance_id": BASE})
    ports.ledger.made(step.holder, row, BASE, ports.clock.now())
    with pytest.raises(NotOwned):
        undo_run(ports, failed(step))
    assert ports.endpoint.health(orders())[BASE].state is TargetState.HEALTHY


def test_a_lost_answer_is_waited_for_and_then_taken_away(ports: CalmPorts) -> None:
    step = leased(ports, "CreateVolumes")
    holder = step.holder
    ports.ledger.intend(holder, ResourceKind.VOLUME, "data", step.step, ports.clock.now(), {})
    with pytest.raises(UndoInProgress, match="its answer was lost"):
        undo_run(ports, failed(step))
    late = replace(data_volumes_of(NEW)[0], volume_id="vol-late", state="available", instance_id=None)
    ports.storage.add(replace(late, attachment_state=None, tags={**TAGS, VOLUME_TAG: "data"}))
    undo(ports, failed(step))
    assert ports.done("storage.delete_snapshot", "storage.delete_volume") == ["vol-late"]


def test_what_was_just_made_and_does_not_show_yet_is_not_taken_for_gone(
    ports: CalmPorts,
) -> None:
    """RunInstances had answered, the branch beside it failed; DescribeInstances showed nothing: the instance stayed."""
    step = build(ports)
    ports.endpoint.forget(NEW)
    account = ports.world.account
    for record in (account.instances[NEW], *account.volumes.values()):
        record["shown"] = 1.0
    with pytest.raises(UndoInProgress, match=r"instance replica \(it does not show yet\)"):
        undo_run(ports, step)
    undo(ports, step)
    assert ports.done("compute.terminate") == [NEW]
    assert ports.storage.volumes_of_run(RUN_ID) == []


def test_a_replica_that_nobody_uses_any_more_does_not_wait_for_the_deregistration_delay(
    ports: CalmPorts,
) -> None:
    step = build(ports)
    job = TearDown(ports, step.holder, ports.clusters.settings("orders"), RUN_ID, drained=True)
    assert tear_down(job) == [f"target {NEW} healthy"]
    assert ports.endpoint.health(orders())[NEW].state is TargetState.DRAINING
    assert ports.done("compute.terminate") == []
    tear_down(job)
    assert ports.done("compute.terminate") == [NEW]


def test_a_refused_deletion_keeps_nothing_else_from_going(ports: CalmPorts) -> None:
    """Both snapshots and a volume are refused; the rest goes, and the end names all three."""
    step = build(ports)
    for snapshot_id in ports.storage.snapshots:
        refusal = AwsCallRejected(f"{snapshot_id}: InvalidSnapshot.InUse")
        ports.refuses("storage.delete_snapshot", refusal, of=snapshot_id)
    refusal = AwsCallRejected("vol-data-0002: UnauthorizedOperation")
    ports.refuses("storage.delete_volume", refusal, of="vol-data-0002")
    with pytest.raises(AwsCallRejected) as told:
        undo(ports, step)
    assert ports.done("compute.terminate") == [NEW]
    assert ports.done("storage.delete_snapshot", "storage.delete_volume") == ["vol-log-0002"]
    for name in ("vol-data-0002", *ports.storage.snapshots):
        assert name in str(told.value)


def test_the_replicas_row_ends_as_retired(ports: CalmPorts) -> None:
    step = build(ports)
    row = ReplicaRow("orders", NEW, RUN_ID, ReplicaState.BUILDING, ports.clock.now())
    ports.ledger.set_replica(step.holder, row)
    undo(ports, step)
    assert ports.ledger.replicas("orders")[NEW].state is ReplicaState.RETIRED
