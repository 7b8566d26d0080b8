"""The reconciler: whatever nobody works on any more is taken up, look after look, until nothing is left over."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest
from peaker.domain.replicas.fleet import Parking, ReplicaRow, ReplicaState
from peaker.domain.replicas.inventory import TargetState
from peaker.domain.runs.execution_input import ExecutionInput
from peaker.domain.runs.ledger import ResourceKind, ResourceState, RunReplica
from peaker.domain.runs.run import FailedStep, RecordStep, RequestedStep
from peaker.domain.runs.run_execution import EVENT_GRACE, RunExecution
from peaker.domain.service.leftovers import (
    LOOKS_WITHOUT_PAUSE,
    ROLL_BACK_TIME,
    SETTLED_AFTER,
    Leftover,
    Remedy,
)
from peaker.usecases.run.acquire_lease import acquire_lease
from peaker.usecases.run.held_lease import LEASE_TIME, holder_of
from peaker.usecases.run.record_receipt import record_receipt
from peaker.usecases.run.release_lease import release_lease
from peaker.usecases.undo.reconcile_replica import reconcile_replica
from peaker.usecases.undo.sweep_orphans import ClusterSwept, sweep_orphans

from peaker_contract.errors import AwsCallRejected, LeaseHeld, LeaseLost, RetirementRefused, Throttled
from peaker_contract.names import LOAD_TAG, OWNER_TAG, RUN_TAG
from tests.support.builders import (
    BASE,
    RUN_ID,
    data_volumes_of,
    instance,
    leased,
    orders,
    run_with_a_registered_replica,
    with_cluster,
)
from tests.support.fakes import NOON, FakePorts, fake_ports

OTHER_ATTEMPT = "the token of another zone"
NEW, DOUBLE = "i-000000000000c0002", "i-000000000000c0003"
TAGS = {OWNER_TAG: "local", RUN_TAG: RUN_ID}
LOOK = timedelta(minutes=3)


@pytest.fixture
def ports() -> FakePorts:
    return with_cluster(fake_ports(orders(), orders(name="billing")))


def ended(ports: FakePorts, status: str = "ABORTED", run_id: str = RUN_ID) -> None:
    ports.executions.by_run[run_id] = RunExecution("manual-1", status, ports.clock.now(), "arn:manual-1")


def passes(ports: FakePorts, time: timedelta = LOOK) -> None:
    """What was begun in EC2 and at the endpoint comes to its end."""
    ports.clock.time += time
    ports.endpoint.finish_draining()
    ports.compute.finish_stopping()
    for gone in ports.compute.terminated:
        ports.storage.detach_all(gone)


def look(ports: FakePorts) -> ClusterSwept:
    return sweep_orphans(ports, "orders")


def swept(ports: FakePorts, looks: int = 20) -> list[str]:
    """What each look said, until one has nothing to do."""
    said = []
    for _ in range(looks):
        passes(ports)
        said.append(look(ports).text)
        if said[-1] == "nothing is left over":
            return said
    raise AssertionError(f"it does not come to an end: {said[-1]}")


def built(ports: FakePorts) -> FailedStep:
    """A build that got as far as a registered replica with volumes and snapshots; it holds the lease."""
    step = run_with_a_registered_replica(ports)
    holder, now = holder_of(step), ports.clock.now()
    refused = {"zone": "us-east-1a", "client_token": OTHER_ATTEMPT}
    row = ports.ledger.intend(holder, ResourceKind.INSTANCE, "replica/us-east-1a", "Made", now, refused)
    ports.ledger.mark(holder, RUN_ID, row, ResourceState.UNDONE)
    ports.ledger.settle(holder, RunReplica(instance_id=NEW, builder=RUN_ID, running_since=now))
    ports.ledger.set_replica(holder, ReplicaRow("orders", NEW, RUN_ID, ReplicaState.BUILDING, now))
    return FailedStep(
        **{**step.model_dump(), "step": "UndoScaleOut"},
        failure={"failed_step": "VerifyStorage", "error": "StorageNotWarm", "cause": "5 % are cold"},  # type: ignore[arg-type]
    )


def recorded(ports: FakePorts, step: FailedStep, outcome: str, state: ReplicaState) -> None:
    """The run has ended so, and its replica stands so; the lease is free."""
    holder = holder_of(step)
    ports.ledger.set_replica(
        holder, replace(ports.ledger.replicas("orders")[NEW], state=state, changed_at=ports.clock.now())
    )
    if outcome == "succeeded":
        kept = {ResourceKind.INSTANCE, ResourceKind.VOLUME, ResourceKind.TARGET}
        for row in ports.ledger.resources(RUN_ID):
            if row.kind in kept:
                ports.ledger.mark(holder, RUN_ID, row, ResourceState.KEPT)
        for snapshot_id in list(ports.storage.snapshots):
            ports.storage.delete_snapshot(snapshot_id)
    given = step.model_dump(exclude={"failure"})
    record_receipt(ports, RecordStep(**{**given, "step": "Record"}, outcome="undo_incomplete"))
    ports.ledger.close_run(holder, outcome, ports.clock.now())
    release_lease(ports, step)
    ended(ports, "FAILED" if outcome != "succeeded" else "SUCCEEDED")


def nothing_is_left(ports: FakePorts) -> None:
    assert ports.compute.instances_of_run(RUN_ID) == []
    assert ports.storage.volumes_of_run(RUN_ID) == []
    assert ports.storage.snapshots == {}
    assert set(ports.endpoint.targets) == set(ports.endpoint.warming) == {BASE}
    assert ports.lease.current("orders", ports.clock.now()) is None
    assert ports.ledger.replicas("orders")[NEW].state is ReplicaState.RETIRED
    assert not [row for row in ports.ledger.resources(RUN_ID) if row.is_open]
    assert {run.run_id for run in ports.ledger.unfinished_runs("orders")} == set()


class TestRunsWithoutAnExecution:
    def test_a_stop_whose_event_was_lost_frees_the_lease_at_the_first_look(self, ports: FakePorts) -> None:
        built(ports)
        ended(ports)
        ports.clock.time += EVENT_GRACE
        look(ports)
        assert ports.lease.current("orders", ports.clock.now()) is None
        swept(ports)
        nothing_is_left(ports)
        receipt = ports.ledger.receipt(RUN_ID)
        assert receipt is not None
        assert receipt["outcome"] == "rolled_back"
        assert "ABORTED" in receipt["failure"]["cause"]

    def test_a_lease_that_was_taken_after_roll_back_had_found_none_is_given_back(
        self, ports: FakePorts
    ) -> None:
        """AcquireLease was in flight when the execution was stopped; its row in the ledger never came."""
        ports.lease.acquire("orders", RUN_ID, "scale_out", NOON, NOON + LEASE_TIME)
        ended(ports)
        ports.clock.time += EVENT_GRACE
        assert "only its lease" in look(ports).text
        assert ports.lease.current("orders", ports.clock.now()) is None

    def test_an_undo_that_met_a_refusal_is_tried_again_until_nothing_is_left(self, ports: FakePorts) -> None:
        step = built(ports)
        refused = next(iter(ports.storage.snapshots))
        ports.storage.undeletable[refused] = AwsCallRejected("ec2:DeleteSnapshot: InvalidSnapshot.InUse")
        recorded(ports, step, "undo_incomplete", ReplicaState.BUILDING)
        for _ in range(8):
            passes(ports)
            found = look(ports)
        assert "InvalidSnapshot.InUse" in found.text
        assert found.leftovers == 1
        assert found.oldest_seconds > 0
        ports.storage.undeletable.clear()
        swept(ports)
        nothing_is_left(ports)

    def test_what_resists_is_tried_at_growing_distances_up_to_an_hour(self, ports: FakePorts) -> None:
        step = built(ports)
        refused = next(iter(ports.storage.snapshots))
        ports.storage.undeletable[refused] = AwsCallRejected("ec2:DeleteSnapshot: no")
        recorded(ports, step, "undo_incomplete", ReplicaState.BUILDING)
        tried: list[int] = []
        for number in range(200):
            passes(ports)
            if "looked at" not in look(ports).text:
                tried.append(number)
        assert tried[:LOOKS_WITHOUT_PAUSE] == list(range(LOOKS_WITHOUT_PAUSE))
        assert max(later - earlier for earlier, later in pairwise(tried)) == 20

    def test_a_retirement_without_an_execution_puts_the_replica_back(self, ports: FakePorts) -> None:
        step = built(ports)
        recorded(ports, step, "succeeded", ReplicaState.DRAINING)
        leaving = leased(ports, "DrainReplica", "scale_in", "scale-in-orders-20261121T130000-0001")
        chosen = RunReplica(instance_id=NEW, builder=RUN_ID, running_since=NOON)
        ports.ledger.settle(holder_of(leaving), chosen)
        ports.endpoint.deregister(orders(), NEW)
        ended(ports, "TIMED_OUT", leaving.run_id)
        passes(ports)
        look(ports)
        ports.endpoint.set(NEW, TargetState.HEALTHY)
        swept(ports)
        assert ports.ledger.replicas("orders")[NEW].state is ReplicaState.IN_SERVICE
        assert ports.ledger.run(leaving.run_id).outcome == "rolled_back"


class TestWhoIsLeftAlone:
    def test_an_execution_that_runs(self, ports: FakePorts) -> None:
        built(ports)
        ports.executions.by_run[RUN_ID] = RunExecution("manual-1", "RUNNING", None, "arn:manual-1")
        ports.clock.time += timedelta(hours=5)
        assert "its execution is RUNNING" in look(ports).text
        assert ports.compute.terminated == []

    def test_what_step_functions_does_not_list_may_have_started_just_now(self, ports: FakePorts) -> None:
        built(ports)
        ports.clock.time += timedelta(hours=1)
        assert "knows no execution" in look(ports).text

    def test_the_event_of_the_end_has_time_to_come_first(self, ports: FakePorts) -> None:
        built(ports)
        ended(ports)
        assert "195 s more" in look(ports).text

    def test_a_roll_back_at_work(self, ports: FakePorts) -> None:
        built(ports)
        ended(ports)
        ports.executions.rolling_back.add("manual-1")
        ports.clock.time += EVENT_GRACE
        assert "roll_back is at work" in look(ports).text

    def test_but_not_for_longer_than_ten_minutes(self, ports: FakePorts) -> None:
        built(ports)
        ended(ports)
        ports.executions.rolling_back.add("manual-1")
        ports.clock.time += ROLL_BACK_TIME
        look(ports)
        assert ports.lease.current("orders", ports.clock.now()) is None

    def test_something_of_a_run_that_the_ledger_does_not_know_is_named_and_left(
        self, ports: FakePorts
    ) -> None:
        ports.compute.add(instance(NEW, tags={**TAGS, LOAD_TAG: "peak"}))
        ports.clock.time += timedelta(days=9)
        found = look(ports)
        assert ports.compute.terminated == []
        assert "which the ledger does not know" in found.untouchable[0]


class TestLedgerAndCloud:
    """A closed run's replica stands where its row says, or is put there."""

    @pytest.fixture
    def serving(self, ports: FakePorts) -> FakePorts:
        recorded(ports, built(ports), "succeeded", ReplicaState.IN_SERVICE)
        ports.clock.time += SETTLED_AFTER
        assert look(ports).text == "nothing is left over"
        return ports

    def test_a_replica_that_somebody_terminated_leaves_nothing_behind(self, serving: FakePorts) -> None:
        serving.compute.terminate(NEW)
        serving.storage.detach_all(NEW)
        swept(serving)
        nothing_is_left(serving)
        assert serving.rows.outcomes("orders", "sweep") == ["succeeded"]

    def test_one_that_ec2_has_forgotten_too(self, serving: FakePorts) -> None:
        del serving.compute.instances[NEW]
        serving.storage.detach_all(NEW)
        swept(serving)
        nothing_is_left(serving)

    @pytest.mark.parametrize("left", ["warming", "running"])
    def test_a_parked_replica_is_out_of_the_endpoint_and_stopped(self, serving: FakePorts, left: str) -> None:
        parking = Parking(NOON, "uuid:1-9", 86_400.0, None, "no limit")
        row = replace(serving.ledger.replicas("orders")[NEW], state=ReplicaState.PARKED, parking=parking)
        serving.rows.write_replica(row)
        del serving.endpoint.targets[NEW]
        if left == "running":
            del serving.endpoint.warming[NEW]
        swept(serving)
        assert NEW not in serving.endpoint.warming
        assert serving.compute.instances[NEW].state == "stopped"
        assert serving.ledger.replicas("orders")[NEW].parking == parking

    def test_a_retired_replica_that_the_endpoint_still_drains_is_no_leftover(
        self, serving: FakePorts
    ) -> None:
        """A load balancer shows a target for minutes after it was deregistered, here for a quarter of an hour."""
        serving.endpoint.deregister(orders(), NEW)
        serving.compute.terminate(NEW)
        row = serving.ledger.replicas("orders")[NEW]
        serving.rows.write_replica(replace(row, state=ReplicaState.RETIRED, changed_at=serving.clock.now()))
        serving.clock.time += timedelta(minutes=15)
        assert NEW in serving.endpoint.targets
        assert "endpoint" not in look(serving).text

    def test_a_second_instance_of_a_run_goes_and_its_replica_stays(self, serving: FakePorts) -> None:
        serving.compute.add(instance(DOUBLE, tags={**TAGS, LOAD_TAG: "peak"}, client_token=OTHER_ATTEMPT))
        swept(serving)
        assert serving.compute.terminated == [DOUBLE]
        assert serving.ledger.replicas("orders")[NEW].state is ReplicaState.IN_SERVICE

    def test_a_second_row_of_a_run_ends_its_own_instance_and_the_replica_serves_on(
        self, serving: FakePorts
    ) -> None:
        """Two calls of LaunchReplica at once had each launched one and written a row of it."""
        serving.compute.add(instance(DOUBLE, tags={**TAGS, LOAD_TAG: "peak"}, client_token=OTHER_ATTEMPT))
        row = serving.ledger.replicas("orders")[NEW]
        double = replace(row, instance_id=DOUBLE, state=ReplicaState.BUILDING)
        serving.rows.write_replica(double)
        swept(serving)
        assert serving.compute.terminated == [DOUBLE]
        states = {name: one.state for name, one in serving.ledger.replicas("orders").items()}
        assert states == {NEW: ReplicaState.IN_SERVICE, DOUBLE: ReplicaState.RETIRED}
        assert NEW in serving.endpoint.targets

    def test_a_replica_that_serves_and_is_needed_is_not_cleared(self, serving: FakePorts) -> None:
        """Its row says building, of a run that has ended; the load needs it (I3, I8)."""
        row = serving.ledger.replicas("orders")[NEW]
        serving.rows.write_replica(replace(row, state=ReplicaState.BUILDING))
        serving.readings.loads["orders"] = 10_000.0
        for _ in range(8):
            passes(serving)
            said = look(serving).text
        assert "exceeds" in said
        assert serving.compute.terminated == []
        assert NEW in serving.endpoint.targets

    def test_a_replica_whose_volumes_are_back_is_not_retired(self, serving: FakePorts) -> None:
        """They came back between the look that found them missing and its step."""
        left = Leftover(Remedy.RETIRE, RUN_ID, "a volume of it is attached to it no more", NEW)
        holder = serving.lease.acquire("orders", "sweep-1", "sweep", serving.clock.now(), NOON + LEASE_TIME)
        with pytest.raises(RetirementRefused, match="has all its volumes again"):
            reconcile_replica(serving, holder, left)
        assert NEW in serving.endpoint.targets

    def test_an_instance_with_copied_tags_is_left_alone(self, serving: FakePorts) -> None:
        """Launched in the console as more like the replica: the run recorded no such launch (I1)."""
        serving.compute.add(instance(DOUBLE, tags={**TAGS, LOAD_TAG: "peak"}, client_token="of the console"))
        assert "recorded no launch of it (I1)" in look(serving).text
        assert serving.compute.terminated == []

    def test_a_volume_that_shows_after_its_runs_undo_goes(self, ports: FakePorts) -> None:
        recorded(ports, built(ports), "undo_incomplete", ReplicaState.BUILDING)
        swept(ports)
        holder = leased(ports, "CreateVolumes", run_id="another")
        release_lease(ports, holder)
        late = replace(data_volumes_of(NEW, TAGS)[0], state="available", attachment_state=None)
        ports.storage.add(late)
        ports.clock.time += SETTLED_AFTER
        ended(ports, "SUCCEEDED", "another")
        ports.rows.write({"pk": "run#another", "sk": "run", "outcome": "refused"})
        swept(ports)
        assert ports.storage.volumes_of_run(RUN_ID) == []

    def test_a_new_row_is_given_time(self, ports: FakePorts) -> None:
        recorded(ports, built(ports), "succeeded", ReplicaState.IN_SERVICE)
        ports.compute.terminate(NEW)
        assert look(ports).text == "nothing is left over"


class TestTheLease:
    def test_a_run_that_begins_during_a_look_waits_instead_of_being_refused(self, ports: FakePorts) -> None:
        ports.lease.acquire("orders", "sweep-1", "sweep", NOON, NOON + LOOK)
        with pytest.raises(Throttled, match="for some seconds"):
            leased(ports, "AcquireLease")

    def test_a_late_call_of_the_ended_run_can_write_nothing_more(self, ports: FakePorts) -> None:
        step = built(ports)
        ended(ports)
        ports.clock.time += EVENT_GRACE
        look(ports)
        with pytest.raises(LeaseLost):
            ports.ledger.intend(holder_of(step), ResourceKind.VOLUME, "data2", "CreateVolumes", NOON, {})

    def test_a_roll_back_that_comes_after_the_sweep_has_ended_the_run_gets_no_lease(
        self, ports: FakePorts
    ) -> None:
        """It had read `not recorded` before."""
        recorded(ports, built(ports), "succeeded", ReplicaState.IN_SERVICE)
        fence = RequestedStep(
            run_id=RUN_ID, cluster="orders", operation="scale_out", step="FenceStoppedRun", fence=True,
            unfinished_only=True, request=ExecutionInput(cluster="orders"),
        )  # fmt: skip
        with pytest.raises(LeaseHeld, match="ended meanwhile as succeeded"):
            acquire_lease(ports, fence)
        assert ports.lease.current("orders", ports.clock.now()) is None

    def test_a_look_that_was_killed_keeps_nobody_waiting_at_the_next_look(self, ports: FakePorts) -> None:
        built(ports)
        ended(ports)
        ports.clock.time += EVENT_GRACE
        ports.lease.release = lambda holder, settled_at: None  # type: ignore[method-assign]
        look(ports)
        ports.clock.time += LOOK
        assert ports.lease.current("orders", ports.clock.now()) is None


def test_the_first_failure_stays_in_the_receipt(ports: FakePorts) -> None:
    step = built(ports)
    given = {**step.model_dump(), "step": "RecordUndoIncomplete"}
    record_receipt(ports, RecordStep(**given, outcome="undo_incomplete"))
    release_lease(ports, step)
    ended(ports, "FAILED")
    swept(ports)
    receipt = ports.ledger.receipt(RUN_ID)
    assert receipt is not None
    assert receipt["failure"]["error"] == "StorageNotWarm"
