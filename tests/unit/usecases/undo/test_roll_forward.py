"""A run whose replica serves goes forward: nothing that fails after that takes it away (I3)."""

from __future__ import annotations

from contextlib import suppress

import pytest
from peaker.domain.replicas.fleet import ReplicaRow, ReplicaState
from peaker.domain.replicas.inventory import TargetState
from peaker.domain.runs.failure import Failure
from peaker.domain.runs.ledger import Donor, ResourceKind, ResourceState, RunReplica, of_kind
from peaker.domain.runs.run import FailedStep, RecordStep
from peaker.domain.service.ramp import Ramp
from peaker.domain.storage.snapshot_sets import SnapshotSet
from peaker.usecases.join.ramp_traffic import ramp_traffic
from peaker.usecases.run.held_lease import lease_end
from peaker.usecases.run.record_receipt import record_receipt
from peaker.usecases.undo.undo_members import Undone
from peaker.usecases.undo.undo_run import undo_run

from peaker_contract import errors
from peaker_contract.names import LOAD_TAG, OWNER_TAG, RUN_TAG
from sim.calm import CalmPorts, calm_ports
from sim.workflows.virtual_time import START as NOON
from tests.support.builders import BASE, RUN_ID, instance, leased, orders, with_cluster
from tests.support.peak import STILL_RUNNING

NEW = "i-000000000000c0002"
TAGS = {OWNER_TAG: "local", RUN_TAG: RUN_ID, LOAD_TAG: "peak"}


@pytest.fixture
def ports() -> CalmPorts:
    """A run whose replica has been registered, so that it is proven; its ledger row says building."""
    ports = with_cluster(calm_ports(orders(ramp={"shares": [0.5, 1.0], "step_seconds": 1})))
    ports.compute.add(instance(NEW, tags=TAGS))
    given = leased(ports, "RegisterReplica")
    holder = given.holder
    snapshots = ports.storage.create_snapshots(BASE, ["vol-data-0001", "vol-log-0001"], TAGS)
    made = [
        (ResourceKind.INSTANCE, "replica/us-east-1b", NEW, {"zone": "us-east-1b"}),
        (ResourceKind.TARGET, "read-endpoint", NEW, {"instance_id": NEW}),
        *(
            (ResourceKind.SNAPSHOT, name, one.snapshot_id, {"source_volume_id": one.source_volume_id})
            for name, one in zip(("data", "log"), snapshots, strict=True)
        ),
    ]
    for kind, name, resource_id, details in made:
        row = ports.ledger.intend(holder, kind, name, "Made", NOON, details)
        ports.ledger.made(holder, row, resource_id, NOON)
    donor = Donor(instance_id=BASE, volumes={"data": "vol-data-0001", "log": "vol-log-0001"})
    ports.ledger.settle(holder, donor, RunReplica(instance_id=NEW, builder=RUN_ID, running_since=NOON))
    ports.ledger.set_replica(holder, ReplicaRow("orders", NEW, RUN_ID, ReplicaState.BUILDING, NOON))
    ports.endpoint.set(NEW, TargetState.HEALTHY, only="warming")
    return ports


def in_service(ports: CalmPorts) -> None:
    holder = leased(ports, "RampTraffic").holder
    ports.endpoint.set(NEW, TargetState.HEALTHY)
    ports.ledger.set_replica(holder, ReplicaRow("orders", NEW, RUN_ID, ReplicaState.IN_SERVICE, NOON))


def undone(ports: CalmPorts, failed_step: str = "RecordReceipt") -> Undone:
    given = leased(ports, "UndoScaleOut")
    failure = Failure(failed_step=failed_step, error="AwsCallRejected", cause="ec2:DeleteSnapshot: no")
    return undo_run(ports, FailedStep(**given.model_dump(), failure=failure))


def taken_away(ports: CalmPorts) -> None:
    """The undo begins to take the replica away."""
    with pytest.raises(errors.UndoInProgress, match=f"target {NEW}"):
        undone(ports)
    assert ports.endpoint.warming_health(orders())[NEW].state is TargetState.DRAINING


def stays(ports: CalmPorts) -> None:
    assert undone(ports).outcome == "rolled_forward"
    assert (
        ports.done("compute.terminate"),
        ports.done("storage.delete_snapshot", "storage.delete_volume"),
    ) == ([], [])
    assert ports.endpoint.health(orders())[NEW].state in {TargetState.INITIAL, TargetState.HEALTHY}
    assert ports.ledger.replicas("orders")[NEW].state is ReplicaState.IN_SERVICE


def test_one_that_has_its_full_share_stays_although_its_row_was_not_written(ports: CalmPorts) -> None:
    given = leased(ports, "RampTraffic")
    ports.ledger.settle(given.holder, Ramp(since=NOON, share_since=NOON, promoted=True))
    ports.endpoint.set(NEW, TargetState.HEALTHY)
    stays(ports)


def test_the_last_one_that_gets_reads_is_never_taken_away(ports: CalmPorts) -> None:
    """The peer died during the ramp: the newcomer is proven, and all that is left."""
    ports.endpoint.set(BASE, TargetState.UNHEALTHY)
    stays(ports)


def test_the_last_one_that_gets_reads_is_not_put_into_service_after_a_failover(ports: CalmPorts) -> None:
    """It follows what is not the source any more: it keeps its reads (I3), and gets no others (I5)."""
    given = leased(ports, "StartReplication")
    ports.ledger.start_step(given.holder, given.step, NOON, lease_end(NOON))
    ports.ledger.finish_step(given.holder, given.step, NOON, {"source_host": "10.0.0.99"})
    ports.endpoint.set(BASE, TargetState.UNHEALTHY)
    with pytest.raises(errors.UndoInProgress, match=r"follows 10\.0\.0\.99"):
        undone(ports)
    assert ports.endpoint.warming_health(orders())[NEW].state is TargetState.HEALTHY
    assert NEW not in ports.endpoint.health(orders())
    assert ports.ledger.replicas("orders")[NEW].state is ReplicaState.BUILDING
    ports.endpoint.set(BASE, TargetState.HEALTHY)
    taken_away(ports)


def record(ports: CalmPorts, outcome: str) -> dict[str, object]:
    given = leased(ports, "RecordReceipt")
    record_receipt(ports, RecordStep(**given.model_dump(), outcome=outcome))
    return ports.ledger.receipt(RUN_ID) or {}


def test_a_snapshot_that_ec2_does_not_give_away_fails_no_run_whose_replica_serves(ports: CalmPorts) -> None:
    ports.clusters.by_name["orders"] = orders(keep_snapshots=False)
    in_service(ports)
    for snapshot_id in ports.storage.snapshots:
        refusal = errors.AwsCallRejected(f"ec2:DeleteSnapshot {snapshot_id}: no")
        ports.refuses("storage.delete_snapshot", refusal, of=snapshot_id)
    receipt = record(ports, "rolled_forward")
    assert receipt["outcome"] == "rolled_forward"
    assert any("stay" in note and "ec2:DeleteSnapshot" in note for note in receipt["notes"])  # type: ignore[attr-defined]
    [left] = ports.ledger.snapshot_sets("orders")
    assert left.run_id == RUN_ID


def test_a_run_that_rolled_forward_keeps_all_that_its_replica_has(ports: CalmPorts) -> None:
    in_service(ports)
    receipt = record(ports, "rolled_forward")
    assert receipt["kept_nothing_else"] is True
    rows = ports.ledger.resources(RUN_ID)
    assert {row.state for row in rows} == {ResourceState.KEPT}
    assert len(of_kind(rows, ResourceKind.SNAPSHOT)) == len(ports.storage.snapshots) == 2


def test_a_peer_whose_agent_is_gone_is_not_the_newcomers_failure(ports: CalmPorts) -> None:
    """ssm:SendCommand refuses a host whose agent does not answer; it is not measured, and that holds the share."""
    given = leased(ports, "RampTraffic")
    ports.ledger.settle(given.holder, Ramp(since=NOON, share_since=NOON))
    ports.clock.advance(hours=1)
    ports.commands.said["*"] = STILL_RUNNING
    ports.commands.silence(BASE)
    with pytest.raises(errors.HostCommandRunning, match=NEW):
        ramp_traffic(ports, given)


def test_a_peer_that_has_ended_is_not_registered(ports: CalmPorts) -> None:
    given = leased(ports, "RampTraffic")
    gone = "i-000000000000b0009"
    ports.endpoint.set(gone, TargetState.HEALTHY, only="serving")
    with pytest.raises(errors.RampInProgress, match="begun"):
        ramp_traffic(ports, given)
    assert gone not in ports.endpoint.warming_health(orders())


def test_the_undo_of_a_run_takes_the_snapshots_that_it_kept_for_later_runs(ports: CalmPorts) -> None:
    holder = leased(ports, "RecordReceipt").holder
    rows = of_kind(ports.ledger.resources(RUN_ID), ResourceKind.SNAPSHOT)
    made = {row.name: str(row.resource_id) for row in rows}
    donor = ports.ledger.run(RUN_ID).required(Donor, "ChooseDonor")
    ports.ledger.keep_snapshots(holder, SnapshotSet("orders", RUN_ID, BASE, NOON, made, dict(donor.volumes)))
    for _ in range(6):
        with suppress(errors.UndoInProgress):
            undone(ports)
        ports.clock.advance(minutes=6)
    assert ports.storage.snapshots_of_run(RUN_ID) == []
    assert ports.ledger.snapshot_sets("orders") == []
