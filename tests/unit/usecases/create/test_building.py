"""The steps of scale_out against a world in memory: what they make, what they refuse, what they do when asked again."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import pytest
from peaker.domain.replicas.fleet import ReplicaState
from peaker.domain.replicas.inventory import CommandOutcome, CommandStatus, TargetState
from peaker.domain.runs.execution_input import Trigger
from peaker.domain.runs.ledger import Donor, ResourceKind, VolumeRates
from peaker.domain.runs.run import ExecutionRequest, PlanStep, RecordStep, StepInput
from peaker.domain.storage.prewarm_progress import LONGEST_PAUSE_SECONDS, pause_seconds
from peaker.usecases.create.assemble_storage import assemble_storage
from peaker.usecases.create.attach_volumes import attach_volumes
from peaker.usecases.create.await_instance_online import await_instance_online
from peaker.usecases.create.await_snapshots import await_snapshots
from peaker.usecases.create.choose_donor import choose_donor
from peaker.usecases.create.create_snapshots import create_snapshots
from peaker.usecases.create.create_volumes import create_volumes
from peaker.usecases.create.launch_replica import launch_replica
from peaker.usecases.create.prepare_donor import prepare_donor
from peaker.usecases.join.await_healthy import await_healthy
from peaker.usecases.plan.check_shortage import check_shortage
from peaker.usecases.plan.plan_scale_out import plan_scale_out
from peaker.usecases.run.record_receipt import record_receipt
from peaker.usecases.run.run_memory import intend
from peaker.usecases.run.tear_down import TearDown, tear_down
from peaker.usecases.run.validate_request import validate_request

from peaker_contract import errors
from peaker_contract.names import OWNER_TAG, RUN_TAG
from sim.calm import CalmPorts, calm_ports
from sim.workflows.functions import Interference, Invocation
from sim.workflows.interferences import Raises
from tests.support.builders import (
    BASE,
    RUN_ID,
    leased,
    orders,
    with_cluster,
)
from tests.support.peak import answers


@pytest.fixture
def ports() -> CalmPorts:
    return with_cluster(calm_ports(orders()))


def step(ports: CalmPorts, name: str) -> StepInput:
    return leased(ports, name)


def plan_step(ports: CalmPorts, **more: Any) -> PlanStep:
    return PlanStep(**step(ports, "PlanScaleOut").model_dump(), **more)


def planned(ports: CalmPorts) -> None:
    """A run that has its plan and its donor."""
    plan_scale_out(ports, plan_step(ports))
    choose_donor(ports, step(ports, "ChooseDonor"))


def snapshotted(ports: CalmPorts) -> None:
    """A run whose snapshots are complete and whose instance runs."""
    planned(ports)
    create_snapshots(ports, step(ports, "CreateSnapshots"))
    ports.clock.advance(seconds=40)
    launch_replica(ports, step(ports, "LaunchReplica"))
    ports.clock.advance(seconds=15)


def request(**given: Any) -> ExecutionRequest:
    return ExecutionRequest(
        operation="scale_out",
        execution_name="e",
        started_at="2026-11-21T12:00:00Z",
        input=given,  # type: ignore[arg-type]
    )


def test_a_request_gets_its_identity_and_its_mode(ports: CalmPorts) -> None:
    found = validate_request(ports, request(cluster="orders"))
    assert (found.cluster, found.mode, found.automatic) == ("orders", "act", False)
    assert found.run_id.startswith("scale-out-orders-20261121T120000-")
    observing = with_cluster(calm_ports(orders(mode="observe")))
    assert validate_request(observing, request(cluster="orders")).mode == "plan"


@pytest.mark.parametrize(
    ("kind", "required", "short"),
    [("alarm", 1, False), ("alarm", 2, True), ("alarm", None, True),
     ("schedule", 1, False), ("schedule", 2, True), ("schedule", None, False)],
)  # fmt: skip
def test_an_automatic_start_looks_for_a_shortage_without_taking_the_lease(
    ports: CalmPorts, kind: Any, required: float | None, short: bool
) -> None:
    if required is not None:
        ports.readings.metrics["orders", "RequiredReplicas"] = required
    asked = PlanStep(
        run_id=RUN_ID,
        cluster="orders",
        operation="scale_out",
        step="CheckShortage",
        trigger=Trigger(kind=kind),
    )
    if short:
        assert check_shortage(ports, asked).text
    else:
        with pytest.raises(errors.NoShortage):
            check_shortage(ports, asked)
    assert ports.lease.current("orders", ports.clock.now()) is None


def test_metrics_that_do_not_answer_keep_nobody_from_a_donor(ports: CalmPorts) -> None:
    """PrepareDonor asks the host itself before the snapshot."""
    error = errors.AwsCallRejected("denied")
    plan_scale_out(ports, plan_step(ports))
    ports.refuses("readings.lag_seconds", error)
    candidates = choose_donor(ports, step(ports, "ChooseDonor")).numbers["candidates"]
    assert candidates[BASE] == f"healthy, lag unknown ({error})"


@pytest.mark.parametrize("lag", [6, None])
def test_a_donor_that_lags_or_does_not_know_is_refused(ports: CalmPorts, lag: float | None) -> None:
    planned(ports)
    answers(
        ports,
        "prepare_donor",
        gtid_set="a:1",
        lag_seconds=lag,
        server_uuid="u",
        buffer_pool_pages=1,
        data_bytes=1,
    )
    with pytest.raises(errors.DonorLagging):
        prepare_donor(ports, step(ports, "PrepareDonor"))


def test_snapshots_are_awaited_and_one_in_error_spoils_the_set(ports: CalmPorts) -> None:
    planned(ports)
    create_snapshots(ports, step(ports, "CreateSnapshots"))
    with pytest.raises(errors.SnapshotsPending, match="40 %"):
        await_snapshots(ports, step(ports, "AwaitSnapshots"))
    ports.clock.advance(seconds=40)
    assert await_snapshots(ports, step(ports, "AwaitSnapshots")).numbers["full_size_bytes"]["data"] == 2**31
    first = next(iter(ports.storage.snapshots))
    ports.storage.add_snapshot(replace(ports.storage.snapshots[first], state="error"))
    with pytest.raises(errors.SnapshotFailed):
        await_snapshots(ports, step(ports, "AwaitSnapshots"))


def test_the_instance_is_awaited_and_its_loss_is_seen(ports: CalmPorts) -> None:
    planned(ports)
    launch_replica(ports, step(ports, "LaunchReplica"))
    instance_id = ports.compute.instances_of_run(RUN_ID)[0].instance_id
    with pytest.raises(errors.InstanceNotOnline):
        await_instance_online(ports, step(ports, "AwaitInstanceOnline"))
    ports.clock.advance(seconds=15)
    await_instance_online(ports, step(ports, "AwaitInstanceOnline"))
    no_room = "Server.InsufficientInstanceCapacity: There was insufficient capacity available"
    ended = replace(ports.compute.instance(instance_id), state="shutting-down", state_reason=no_room)
    ports.compute.add(ended)
    with pytest.raises(errors.InstanceFailed, match=no_room):
        await_instance_online(ports, step(ports, "AwaitInstanceOnline"))


def test_a_second_volume_of_the_image_is_the_runs_and_goes_with_it(ports: CalmPorts) -> None:
    """DeleteOnTermination is false in the image: EC2 deletes the root volume alone."""
    snapshotted(ports)
    [root] = ports.storage.volumes_of_run(RUN_ID)
    ports.storage.add(replace(root, volume_id="vol-second", device="/dev/sdb"))
    ports.storage.add(replace(root, volume_id="vol-of-a-person", device="/dev/sdz", tags={}))
    ports.meets(Raises(at="ledger.intend", error=errors.AwsUnavailable("no answer")))
    with pytest.raises(errors.AwsUnavailable):
        await_instance_online(ports, step(ports, "AwaitInstanceOnline"))
    await_instance_online(ports, step(ports, "AwaitInstanceOnline"))
    ports.compute.terminate(str(root.instance_id))
    assert "vol-of-a-person" not in {row.resource_id for row in ports.ledger.resources(RUN_ID)}
    job = TearDown(ports, step(ports, "UndoScaleOut").holder, orders(), RUN_ID)
    for _ in range(5):
        left = tear_down(job)
        ports.clock.advance(minutes=2)
    assert (left, ports.storage.volumes_of_run(RUN_ID)) == ([], [])


@pytest.mark.parametrize("version", ["3.3.2299.0", "3.2.10000.0", "3.3.2746", ""])
def test_an_instance_whose_image_has_an_old_agent_takes_no_command(ports: CalmPorts, version: str) -> None:
    snapshotted(ports)
    instance_id = ports.compute.instances_of_run(RUN_ID)[0].instance_id
    ports.commands.agent_version = version
    told = rf"the SSM agent of {instance_id} is {version or 'of unknown version'}; .* need 3\.3\.2746\.0 or newer"
    with pytest.raises(errors.AgentTooOld, match=told):
        await_instance_online(ports, step(ports, "AwaitInstanceOnline"))
    ports.commands.agent_version = "3.3.10000.0"
    await_instance_online(ports, step(ports, "AwaitInstanceOnline"))


KEY = "arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"


def test_a_key_that_ebs_could_not_use_is_refused_before_anything_is_made(ports: CalmPorts) -> None:
    for volume in ports.storage.volumes.values():
        ports.storage.add(replace(volume, kms_key_id=KEY))
    ports.volume_keys.refused[KEY] = "it is not in kms_key_arns of orders"
    plan = plan_scale_out(ports, plan_step(ports).model_copy(update={"fencing_token": None}))
    assert [refusal["code"] for refusal in plan.plan["refusals"]] == ["key"]
    assert KEY in plan.plan["refusals"][0]["reason"]


def test_a_key_of_the_image_that_ec2_could_not_use_is_refused_before_anything_is_made(
    ports: CalmPorts,
) -> None:
    ports.compute.image_is_under[orders().image_id] = [KEY]
    ports.volume_keys.refused[KEY] = "it is not in kms_key_arns of orders; add it there and deploy"
    planned = plan_scale_out(ports, plan_step(ports).model_copy(update={"fencing_token": None})).plan
    assert [refusal["code"] for refusal in planned["refusals"]] == ["key"]
    assert (
        f"image_id {orders().image_id} is under {KEY}: it is not in kms_key_arns"
        in planned["refusals"][0]["reason"]
    )


def test_an_image_that_is_gone_is_refused_before_anything_is_made(ports: CalmPorts) -> None:
    ports.compute.image_is_under.clear()
    ports.compute.images_gone.add(orders().image_id)
    planned = plan_scale_out(ports, plan_step(ports).model_copy(update={"fencing_token": None})).plan
    assert [refusal["code"] for refusal in planned["refusals"]] == ["image"]


def test_a_volume_that_vanishes_is_a_failure_after_five_minutes(ports: CalmPorts) -> None:
    """CreateVolume had answered; EBS could not use the key."""
    snapshotted(ports)
    create_volumes(ports, step(ports, "CreateVolumes"))
    for one in ports.storage.volumes_of_run(RUN_ID):
        if one.name != "root":
            ports.storage.delete_volume(one.volume_id)
    ports.clock.advance(minutes=4)
    with pytest.raises(errors.VolumesAttaching, match="does not show yet"):
        attach_volumes(ports, step(ports, "AttachVolumes"))
    ports.clock.advance(minutes=1)
    with pytest.raises(errors.VolumeVanished, match="does not exist 5 min after"):
        attach_volumes(ports, step(ports, "AttachVolumes"))


@dataclass
class RefusesRates(Interference):
    """EBS makes no volume with an initialization rate."""

    error: Exception

    def before(self, invocation: Invocation, call: str) -> None:
        if call == "storage.create_volume" and invocation.given[0].initialization_rate_mib_per_s is not None:
            raise self.error


@pytest.mark.parametrize("refusal", [errors.CapacityUnavailable, errors.AwsCallRejected])
def test_volumes_whose_rate_is_refused_hydrate_at_the_default_rate(refusal: type[errors.PeakerError]) -> None:
    ports = with_cluster(calm_ports(orders(initialization_rate_mib_per_s=300)))
    snapshotted(ports)
    ports.meets(RefusesRates(refusal("ec2:CreateVolume: some code: the quota is used up")))
    found = create_volumes(ports, step(ports, "CreateVolumes"))
    assert [spec.initialization_rate_mib_per_s for spec in ports.done("storage.create_volume")] == [
        None,
        None,
    ]
    assert len(found.numbers["notes"]) == 2
    # Later plans learn from this run how fast the default rate was.
    made = ports.ledger.run(RUN_ID).required(VolumeRates, "test")
    assert made.rates == {"data": None, "log": None}


def test_the_donors_facts_go_to_the_new_host_and_what_it_says_of_its_image_is_told(ports: CalmPorts) -> None:
    planned(ports)
    facts = {"server version": [8, 4, 6], "owner of the data": [27, 27], "SELinux": ""}
    numbers = {
        "gtid_set": "a:1",
        "lag_seconds": 0,
        "server_uuid": "u",
        "buffer_pool_pages": 1,
        "data_bytes": 1,
    }
    answers(ports, "prepare_donor", **numbers, server=facts)
    prepare_donor(ports, step(ports, "PrepareDonor"))
    snapshotted(ports)
    create_volumes(ports, step(ports, "CreateVolumes"))
    newer = "the image's server is 8.4.9, the donor's 8.4.6: newer within the series"
    answers(ports, "assemble_storage", members=[], bytes=1, image=[newer])
    told = assemble_storage(ports, step(ports, "AssembleStorage"))
    assert json.loads(ports.commands.parameters[-1]["Donor"]) == facts
    assert told.text.endswith(f"; {newer}")


@pytest.mark.parametrize("mapped", ["/dev/sdg", "/dev/xvdg", "xvdg"])
def test_a_device_name_that_the_image_maps_is_refused_before_anything_is_made(
    ports: CalmPorts, mapped: str
) -> None:
    ports.compute.image_maps = ["/dev/xvda", mapped]
    planned = plan_scale_out(ports, plan_step(ports).model_copy(update={"fencing_token": None})).plan
    [refusal] = planned["refusals"]
    assert refusal["code"] == "image"
    assert f"maps {mapped}, where log is to be attached (/dev/sdg)" in refusal["reason"]


def test_a_long_prewarm_is_asked_more_rarely() -> None:
    assert [pause_seconds(None, passed) for passed in (0, 6000, 20_000, 90_000)] == [10, 60, 200, 600]
    assert pause_seconds(30, 20_000) == 200


@pytest.mark.parametrize(("eta", "pause"), [(None, 10), (0, 10), (1000, 250), (1e9, LONGEST_PAUSE_SECONDS)])
def test_the_pause_follows_the_remaining_time(eta: float | None, pause: int) -> None:
    assert pause_seconds(eta) == pause


def test_a_set_of_which_one_member_shows_is_waited_for(ports: CalmPorts) -> None:
    """The answer was lost, and EC2 shows what was made one by one."""
    planned(ports)
    given = step(ports, "CreateSnapshots")
    volumes = ports.ledger.run(RUN_ID).required(Donor, "").volumes
    for name, volume_id in volumes.items():
        details = {"source_volume_id": volume_id}
        intend(ports, given, ResourceKind.SNAPSHOT, name, details)
    ports.storage.create_snapshots(
        BASE, [next(iter(volumes.values()))], {RUN_TAG: RUN_ID, OWNER_TAG: "local"}
    )
    with pytest.raises(errors.SnapshotsPending, match="does not show yet"):
        create_snapshots(ports, given)
    ports.clock.advance(minutes=6)
    with pytest.raises(errors.SnapshotFailed, match="no member"):
        create_snapshots(ports, given)


def test_snapshots_of_a_lost_answer_are_waited_for_before_new_ones_are_made(ports: CalmPorts) -> None:
    planned(ports)
    given = step(ports, "CreateSnapshots")
    ports.meets(Raises(at="storage.create_snapshots", error=errors.AwsUnavailable("no answer")))
    with pytest.raises(errors.AwsUnavailable):
        create_snapshots(ports, given)
    ports.clock.advance(minutes=4)
    with pytest.raises(errors.SnapshotsPending, match="answer was lost"):
        create_snapshots(ports, given)
    assert len(ports.done("storage.create_snapshots")) == 0
    ports.clock.advance(minutes=1)
    create_snapshots(ports, given)
    assert len(ports.done("storage.create_snapshots")) == 1


@pytest.mark.parametrize(("required", "refused"), [(1, True), (2, False), (None, False)])
def test_an_alarm_without_a_shortage_has_nothing_to_build(
    ports: CalmPorts, required: float | None, refused: bool
) -> None:
    if required is not None:
        ports.readings.metrics["orders", "RequiredReplicas"] = required
    by_alarm = plan_step(ports, trigger=Trigger(kind="alarm"))
    if refused:
        with pytest.raises(errors.NoShortage, match="needs 1 replicas, 1 serve"):
            plan_scale_out(ports, by_alarm)
    else:
        assert plan_scale_out(ports, by_alarm).plan["refusals"] == []
    assert plan_scale_out(ports, plan_step(ports)).plan["donor"] == BASE


def test_one_instance_is_launched_with_all_tags_where_there_is_capacity(ports: CalmPorts) -> None:
    planned(ports)
    ports.world.account.full_zones = {"us-east-1a"}
    for _ in range(2):
        found = launch_replica(ports, step(ports, "LaunchReplica"))
    assert found.numbers["zone"] == "us-east-1b"
    made = ports.compute.instances_of_run(RUN_ID)
    assert len(made) == 1
    assert made[0].tags == {
        OWNER_TAG: "local",
        RUN_TAG: RUN_ID,
        "peaker:cluster": "orders",
        "peaker:environment": "local",
        "peaker:role": "replica",
        "peaker:load": "peak",
    }
    assert ports.ledger.replicas("orders")[made[0].instance_id].state is ReplicaState.BUILDING


def test_a_newcomer_is_awaited_in_the_warming_group(ports: CalmPorts) -> None:
    snapshotted(ports)
    instance_id = ports.compute.instances_of_run(RUN_ID)[0].instance_id
    ports.endpoint.set(instance_id, TargetState.INITIAL, "Elb.InitialHealthChecking", only="warming")
    with pytest.raises(errors.TargetNotHealthy, match=r"initial Elb\.InitialHealthChecking"):
        await_healthy(ports, step(ports, "AwaitHealthy"))
    ports.endpoint.set(instance_id, TargetState.HEALTHY, only="warming")
    await_healthy(ports, step(ports, "AwaitHealthy"))
    assert ports.ledger.replicas("orders")[instance_id].state is ReplicaState.BUILDING


def test_an_image_whose_server_cannot_become_a_replica_ends_the_build_before_the_prewarm(
    ports: CalmPorts,
) -> None:
    snapshotted(ports)
    create_volumes(ports, step(ports, "CreateVolumes"))
    said = {"version": 1, "ok": False, "error": "ImageUnfit", "message": "systemd has none of the units"}
    ports.commands.said["assemble_storage"] = CommandOutcome(CommandStatus.FAILED, stdout=json.dumps(said))
    with pytest.raises(errors.ImageUnfit, match="ImageUnfit: systemd has none of the units"):
        assemble_storage(ports, step(ports, "AssembleStorage"))


@pytest.mark.parametrize("error", [errors.AwsCallRejected("Forbidden"), errors.UnknownCluster("orders")])
def test_a_load_that_may_not_be_read_keeps_no_run_from_its_receipt(
    ports: CalmPorts, error: errors.PeakerError
) -> None:
    planned(ports)
    ports.refuses("readings.load_points", error)
    given = step(ports, "RecordFailure")
    record_receipt(ports, RecordStep(**given.model_dump(), outcome="rolled_back"))
    assert ports.ledger.run(RUN_ID).outcome == "rolled_back"
