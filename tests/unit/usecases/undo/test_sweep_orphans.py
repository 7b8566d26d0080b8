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
from peaker.domain.runs.run_execution import EVENT_GRACE
from peaker.domain.service.leftovers import (
    LOOKS_WITHOUT_PAUSE,
    ROLL_BACK_TIME,
    SETTLED_AFTER,
    Leftover,
    Remedy,
    UndoAttempts,
)
from peaker.usecases.run.acquire_lease import acquire_lease
from peaker.usecases.run.held_lease import LEASE_TIME
from peaker.usecases.run.record_receipt import record_receipt
from peaker.usecases.run.release_lease import release_lease
from peaker.usecases.undo.reconcile_replica import reconcile_replica
from peaker.usecases.undo.sweep_orphans import ClusterSwept, sweep_orphans

from peaker_contract.errors import AwsCallRejected, CapacityUnavailable, LeaseHeld, RetirementRefused
from peaker_contract.names import LOAD_TAG, OWNER_TAG, RUN_TAG
from sim.calm import CalmPorts, calm_ports
from sim.workflows.functions import Killed
from sim.workflows.interferences import DiesBefore
from sim.workflows.virtual_time import START as NOON
from tests.support.builders import (
    BASE,
    EXECUTION,
    RUN_ID,
    back_up_with_tags,
    instance,
    leased,
    orders,
    run_with_a_registered_replica,
    with_cluster,
    write_replica,
)
from tests.support.peak import AT_WORK, STILL_RUNNING

OTHER_ATTEMPT = "the token of another zone"
NEW, DOUBLE = "i-000000000000c0002", "i-000000000000c0003"
TAGS = {OWNER_TAG: "local", RUN_TAG: RUN_ID}
LOOK = timedelta(minutes=3)


@pytest.fixture
def ports() -> CalmPorts:
    return with_cluster(calm_ports(orders(), orders(name="billing")))


def ended(ports: CalmPorts, status: str = "ABORTED") -> None:
    ports.world.workflows.plant("scale_out", EXECUTION, status)


def passes(ports: CalmPorts, time: timedelta = LOOK) -> None:
    """What was begun in EC2 and at the endpoint comes to its end."""
    ports.clock.advance(time)


def look(ports: CalmPorts) -> ClusterSwept:
    return sweep_orphans(ports, "orders")


def swept(ports: CalmPorts, looks: int = 20) -> list[str]:
    """What each look said, until one has nothing to do."""
    said = []
    for _ in range(looks):
        passes(ports)
        said.append(look(ports).text)
        if said[-1] == "nothing is left over":
            return said
    raise AssertionError(f"it does not come to an end: {said[-1]}")


def built(ports: CalmPorts) -> FailedStep:
    """A build that got as far as a registered replica with volumes and snapshots; it holds the lease."""
    step = run_with_a_registered_replica(ports)
    holder, now = step.holder, ports.clock.now()
    refused = {"zone": "us-east-1a", "client_token": OTHER_ATTEMPT}
    row = ports.ledger.intend(holder, ResourceKind.INSTANCE, "replica/us-east-1a", "Made", now, refused)
    ports.ledger.mark(holder, RUN_ID, row, ResourceState.UNDONE)
    ports.ledger.settle(holder, RunReplica(instance_id=NEW, builder=RUN_ID, running_since=now))
    ports.ledger.set_replica(holder, ReplicaRow("orders", NEW, RUN_ID, ReplicaState.BUILDING, now))
    return FailedStep(
        **{**step.model_dump(), "step": "UndoScaleOut"},
        failure={"failed_step": "VerifyStorage", "error": "StorageNotWarm", "cause": "5 % are cold"},  # type: ignore[arg-type]
    )


def recorded(ports: CalmPorts, step: FailedStep, outcome: str, state: ReplicaState) -> None:
    """The run has ended so, and its replica stands so; the lease is free."""
    holder = step.holder
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


def nothing_is_left(ports: CalmPorts) -> None:
    assert ports.compute.instances_of_run(RUN_ID) == []
    assert ports.storage.volumes_of_run(RUN_ID) == []
    assert ports.storage.snapshots == {}
    assert set(ports.endpoint.health(orders())) == set(ports.endpoint.warming_health(orders())) == {BASE}
    assert ports.lease.current("orders", ports.clock.now()) is None
    assert ports.ledger.replicas("orders")[NEW].state is ReplicaState.RETIRED
    assert not [row for row in ports.ledger.resources(RUN_ID) if row.is_open]
    assert {run.run_id for run in ports.ledger.unfinished_runs("orders")} == set()


class TestRunsWithoutAnExecution:
    def test_a_stop_whose_event_was_lost_frees_the_lease_at_the_first_look(self, ports: CalmPorts) -> None:
        built(ports)
        ended(ports)
        ports.clock.advance(EVENT_GRACE)
        look(ports)
        assert ports.lease.current("orders", ports.clock.now()) is None
        swept(ports)
        nothing_is_left(ports)
        receipt = ports.ledger.receipt(RUN_ID)
        assert receipt is not None
        assert receipt["outcome"] == "rolled_back"
        assert "ABORTED" in receipt["failure"]["cause"]

    def test_what_resists_is_tried_at_growing_distances_up_to_an_hour(self, ports: CalmPorts) -> None:
        step = built(ports)
        refused = next(iter(ports.storage.snapshots))
        ports.refuses("storage.delete_snapshot", AwsCallRejected("ec2:DeleteSnapshot: no"), of=refused)
        recorded(ports, step, "undo_incomplete", ReplicaState.BUILDING)
        tried: list[int] = []
        for number in range(200):
            passes(ports)
            if "looked at" not in look(ports).text:
                tried.append(number)
        assert tried[:LOOKS_WITHOUT_PAUSE] == list(range(LOOKS_WITHOUT_PAUSE))
        assert max(later - earlier for earlier, later in pairwise(tried)) == 20


class TestWhoIsLeftAlone:
    def test_an_execution_that_runs(self, ports: CalmPorts) -> None:
        built(ports)
        ports.world.workflows.plant("scale_out", EXECUTION)
        ports.clock.advance(timedelta(hours=5))
        assert "its execution is RUNNING" in look(ports).text
        assert ports.done("compute.terminate") == []

    def test_what_step_functions_does_not_list_may_have_started_just_now(self, ports: CalmPorts) -> None:
        built(ports)
        ports.clock.advance(timedelta(hours=1))
        assert "knows no execution" in look(ports).text

    def test_the_event_of_the_end_has_time_to_come_first(self, ports: CalmPorts) -> None:
        built(ports)
        ended(ports)
        assert "195 s more" in look(ports).text

    def test_a_roll_back_at_work(self, ports: CalmPorts) -> None:
        built(ports)
        ended(ports)
        ports.world.workflows.plant("roll_back", "1", given={"name": EXECUTION})
        ports.clock.advance(EVENT_GRACE)
        assert "roll_back is at work" in look(ports).text

    def test_but_not_for_longer_than_ten_minutes(self, ports: CalmPorts) -> None:
        built(ports)
        ended(ports)
        ports.world.workflows.plant("roll_back", "1", given={"name": EXECUTION})
        ports.clock.advance(ROLL_BACK_TIME)
        look(ports)
        assert ports.lease.current("orders", ports.clock.now()) is None

    def test_something_of_a_run_that_the_ledger_does_not_know_is_named_and_left(
        self, ports: CalmPorts
    ) -> None:
        ports.compute.add(instance(NEW, tags={**TAGS, LOAD_TAG: "peak"}))
        ports.clock.advance(timedelta(days=9))
        found = look(ports)
        assert ports.done("compute.terminate") == []
        assert "which the ledger does not know" in found.untouchable[0]


class TestLedgerAndCloud:
    """A closed run's replica stands where its row says, or is put there."""

    @pytest.fixture
    def serving(self, ports: CalmPorts) -> CalmPorts:
        recorded(ports, built(ports), "succeeded", ReplicaState.IN_SERVICE)
        ports.clock.advance(SETTLED_AFTER)
        assert look(ports).text == "nothing is left over"
        return ports

    def test_one_that_ec2_has_forgotten_too(self, serving: CalmPorts) -> None:
        serving.compute.forget(NEW)
        swept(serving)
        nothing_is_left(serving)

    @pytest.mark.parametrize("left", ["warming", "running"])
    def test_a_parked_replica_is_out_of_the_endpoint_and_stopped(self, serving: CalmPorts, left: str) -> None:
        parking = Parking(NOON, "uuid:1-9", 86_400.0, None, "no limit")
        row = replace(serving.ledger.replicas("orders")[NEW], state=ReplicaState.PARKED, parking=parking)
        write_replica(serving, row)
        serving.endpoint.forget(NEW, only="serving")
        if left == "running":
            serving.endpoint.forget(NEW)
        swept(serving)
        assert NEW not in serving.endpoint.warming_health(orders())
        assert serving.compute.instance(NEW).state == "stopped"
        assert serving.ledger.replicas("orders")[NEW].parking == parking

    def test_a_retired_replica_that_the_endpoint_still_drains_is_no_leftover(
        self, serving: CalmPorts
    ) -> None:
        """A load balancer shows a target for minutes after it was deregistered, here for a quarter of an hour."""
        serving.endpoint.set(NEW, TargetState.DRAINING)
        serving.compute.terminate(NEW)
        row = serving.ledger.replicas("orders")[NEW]
        write_replica(serving, replace(row, state=ReplicaState.RETIRED, changed_at=serving.clock.now()))
        serving.clock.advance(timedelta(minutes=15))
        assert NEW in serving.endpoint.health(orders())
        assert "endpoint" not in look(serving).text

    def test_a_second_instance_of_a_run_goes_and_its_replica_stays(self, serving: CalmPorts) -> None:
        serving.compute.add(instance(DOUBLE, tags={**TAGS, LOAD_TAG: "peak"}, client_token=OTHER_ATTEMPT))
        swept(serving)
        assert serving.done("compute.terminate") == [DOUBLE]
        assert serving.ledger.replicas("orders")[NEW].state is ReplicaState.IN_SERVICE

    def test_a_second_row_of_a_run_ends_its_own_instance_and_the_replica_serves_on(
        self, serving: CalmPorts
    ) -> None:
        """Two calls of LaunchReplica at once had each launched one and written a row of it."""
        serving.compute.add(instance(DOUBLE, tags={**TAGS, LOAD_TAG: "peak"}, client_token=OTHER_ATTEMPT))
        row = serving.ledger.replicas("orders")[NEW]
        double = replace(row, instance_id=DOUBLE, state=ReplicaState.BUILDING)
        write_replica(serving, double)
        swept(serving)
        assert serving.done("compute.terminate") == [DOUBLE]
        states = {name: one.state for name, one in serving.ledger.replicas("orders").items()}
        assert states == {NEW: ReplicaState.IN_SERVICE, DOUBLE: ReplicaState.RETIRED}
        assert NEW in serving.endpoint.health(orders())

    def test_a_replica_that_serves_and_is_needed_is_not_cleared(self, serving: CalmPorts) -> None:
        """Its row says building, of a run that has ended; the load needs it (I3, I8)."""
        row = serving.ledger.replicas("orders")[NEW]
        write_replica(serving, replace(row, state=ReplicaState.BUILDING))
        serving.readings.loads["orders"] = 10_000.0
        for _ in range(8):
            passes(serving)
            said = look(serving).text
        assert "exceeds" in said
        assert serving.done("compute.terminate") == []
        assert NEW in serving.endpoint.health(orders())

    def test_a_replica_that_resists_is_told_after_an_hour_by_the_one_sweep_that_stays_open(
        self, serving: CalmPorts
    ) -> None:
        """Somebody stopped it, and its zone has no room to start it again."""
        serving.compute.stop(NEW)
        serving.refuses("compute.start", CapacityUnavailable("us-east-1a is full"))
        seen = []
        for _ in range(40):
            passes(serving)
            seen.append(look(serving))
        assert max(one.oldest_seconds for one in seen) >= 3600
        assert len(serving.ledger.unfinished_runs("orders")) == 1
        assert not [one.text for one in seen if "nothing is left over" in one.text]

    def test_a_replica_that_catches_up_for_long_is_asked_for_once_and_looked_at_every_time(
        self, serving: CalmPorts
    ) -> None:
        serving.compute.stop(NEW)
        serving.commands.said |= {"*": STILL_RUNNING, "report_work": AT_WORK}
        for _ in range(20):
            passes(serving)
            assert "next" not in look(serving).text
        assert [given[0] for given in serving.asked("commands.send")].count("start_database") == 1

    def test_a_replica_whose_volumes_are_back_is_not_retired(self, serving: CalmPorts) -> None:
        """They came back between the look that found them missing and its step."""
        left = Leftover(Remedy.RETIRE, RUN_ID, "a volume of it is attached to it no more", NEW)
        holder = serving.lease.acquire("orders", "sweep-1", "sweep", serving.clock.now(), NOON + LEASE_TIME)
        with pytest.raises(RetirementRefused, match="has all its volumes again"):
            reconcile_replica(serving, holder, left)
        assert NEW in serving.endpoint.health(orders())

    def test_a_backup_with_the_tags_of_its_volume_is_no_leftover(self, serving: CalmPorts) -> None:
        back_up_with_tags(serving, NEW)
        passes(serving)
        assert look(serving).text == "nothing is left over"

    def test_an_instance_with_copied_tags_is_left_alone(self, serving: CalmPorts) -> None:
        """Launched in the console as more like the replica: the run recorded no such launch (I1)."""
        serving.compute.add(instance(DOUBLE, tags={**TAGS, LOAD_TAG: "peak"}, client_token="of the console"))
        assert "recorded no launch of it (I1)" in look(serving).text
        assert serving.done("compute.terminate") == []

    def test_a_new_row_is_given_time(self, ports: CalmPorts) -> None:
        recorded(ports, built(ports), "succeeded", ReplicaState.IN_SERVICE)
        ports.compute.terminate(NEW)
        assert look(ports).text == "nothing is left over"

    @pytest.mark.parametrize(("base", "noted"), [(TargetState.UNHEALTHY, False), (TargetState.HEALTHY, True)])
    def test_an_unhealthy_replica_is_doubted_only_while_another_is_healthy(
        self, serving: CalmPorts, base: TargetState, noted: bool
    ) -> None:
        """Where none is healthy the cause is none of theirs."""
        serving.endpoint.set(NEW, TargetState.UNHEALTHY)
        serving.endpoint.set(BASE, base)
        look(serving)
        assert (serving.ledger.replicas("orders")[NEW].unhealthy_since is not None) is noted

    def test_what_the_undo_of_another_run_waits_for_pauses_no_replica(self, serving: CalmPorts) -> None:
        serving.endpoint.set(NEW, TargetState.UNHEALTHY)
        step = leased(serving, "UndoScaleOut", run_id="another")
        waiting = UndoAttempts(first_at=NOON, last_at=serving.clock.now(), alike=20, waiting="denied")
        serving.ledger.settle(step.holder, waiting)
        release_lease(serving, step)
        passes(serving)
        look(serving)
        assert serving.ledger.replicas("orders")[NEW].unhealthy_since is not None


class TestTheLease:
    def test_a_roll_back_that_comes_after_the_sweep_has_ended_the_run_gets_no_lease(
        self, ports: CalmPorts
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

    def test_a_look_that_was_killed_keeps_nobody_waiting_at_the_next_look(self, ports: CalmPorts) -> None:
        built(ports)
        ended(ports)
        ports.clock.advance(EVENT_GRACE)
        ports.meets(DiesBefore(at="lease.release"))
        with pytest.raises(Killed):
            look(ports)
        ports.clock.advance(LOOK)
        assert ports.lease.current("orders", ports.clock.now()) is None
