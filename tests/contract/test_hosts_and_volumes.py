"""Compute, Storage and CommandRunner: one suite for the cloud in memory, calm and hostile, and for the adapters."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from peaker.domain.reading import Unknown
from peaker.domain.replicas.inventory import CommandStatus, VolumeSpec

from peaker_contract import errors
from peaker_contract.names import RUN_TAG, VOLUME_TAG
from tests.contract.conftest import Adapters
from tests.contract.stages import (
    UNKNOWN_HOST,
    UNKNOWN_SNAPSHOT,
    UNKNOWN_VOLUME,
    AwsStage,
    HostileStage,
    Stage,
    running,
    spec_of,
    state_of,
    tags_of,
)
from tests.contract.test_aws_ports import document


@pytest.fixture(scope="module", autouse=True)
def _document(aws: Adapters) -> None:
    document(aws, "nothing", "true")


@pytest.fixture(params=["calm", "hostile", "aws"])
def stage(request: pytest.FixtureRequest) -> Stage:
    if request.param == "aws":
        return AwsStage(request.getfixturevalue("aws"))
    return HostileStage(calm=request.param == "calm")


def test_the_same_token_gives_the_same_instance(stage: Stage) -> None:
    first = running(stage, "token-1", "run-same")
    assert stage.compute.launch(spec_of(stage, "run-same"), "token-1").instance_id == first.instance_id
    found = lambda: {one.instance_id for one in stage.compute.instances_of_run("run-same")}  # noqa: E731
    stage.eventually(lambda: found() == {first.instance_id})
    [one] = stage.compute.instances_of_run("run-same")
    assert one.client_token == "token-1"
    for listed in (stage.compute.instances_of_cluster("orders"), stage.compute.instances_of_environment()):
        assert first.instance_id in {one.instance_id for one in listed}
    assert first.tags[RUN_TAG] == "run-same"
    assert stage.compute.instances_of_run("run-none") == []


def test_what_the_account_runs_counts_while_it_runs(stage: Stage) -> None:
    host = running(stage, "token-counted", "run-counted")

    def counted() -> set[str]:
        found = stage.compute.on_demand_instances()
        assert not isinstance(found, Unknown)
        return {one.instance_id for one in found}

    stage.eventually(lambda: host.instance_id in counted())
    stage.compute.stop(host.instance_id)
    stage.eventually(lambda: host.instance_id not in counted())
    assert stage.compute.default_vcpus(["r6i.large"]) == {"r6i.large": 2}


def test_the_accounts_volumes_are_listed_by_their_type(stage: Stage) -> None:
    volume = stage.data_volume(running(stage, "token-typed", "run-typed").instance_id, "/dev/sdf")

    def listed(kind: str) -> set[str]:
        found = stage.storage.volumes_of_type(kind)
        assert not isinstance(found, Unknown)
        return {one.volume_id for one in found}

    stage.eventually(lambda: volume in listed("gp3"))
    assert volume not in listed("io2")


def test_terminating_what_is_gone_or_unknown_is_no_error(stage: Stage) -> None:
    host = running(stage, "token-2", "run-gone").instance_id
    stage.compute.terminate(host)
    stage.compute.terminate(host)
    stage.compute.terminate(UNKNOWN_HOST)
    with pytest.raises(errors.ResourceNotFound):
        stage.compute.instance(UNKNOWN_HOST)
    stage.eventually(lambda: stage.compute.instances_of_run("run-gone") == [])


def test_a_stopped_instance_keeps_its_volumes_and_address_and_starts_again(stage: Stage) -> None:
    before = running(stage, "token-stop", "run-stop")
    data = stage.data_volume(before.instance_id, "/dev/sdf")
    stage.compute.stop(before.instance_id)
    stage.compute.stop(before.instance_id)
    stage.eventually(lambda: state_of(stage, before.instance_id) == "stopped")
    reason = stage.compute.instance(before.instance_id).state_reason
    assert reason == "Client.UserInitiatedShutdown: User initiated shutdown"
    assert data in {one.volume_id for one in stage.storage.volumes_of_instance(before.instance_id)}
    stage.compute.start(before.instance_id)
    stage.compute.start(before.instance_id)
    stage.eventually(lambda: state_of(stage, before.instance_id) == "running")
    assert stage.compute.instance(before.instance_id).private_ip == before.private_ip
    with pytest.raises(errors.ResourceNotFound):
        stage.compute.stop(UNKNOWN_HOST)


def test_snapshots_hold_exactly_the_wanted_volumes_and_may_be_named_and_deleted(stage: Stage) -> None:
    host = running(stage, "token-3", "run-3").instance_id
    data, log, other = (stage.data_volume(host, device) for device in ("/dev/sdf", "/dev/sdg", "/dev/sdh"))
    made = stage.storage.create_snapshots(host, [data, log], tags_of("run-3"))
    assert {one.source_volume_id for one in made} == {data, log}
    assert other not in {one.source_volume_id for one in made}
    first = made[0].snapshot_id
    with pytest.raises(errors.ResourceNotFound):
        stage.storage.name_snapshot(UNKNOWN_SNAPSHOT, "data")
    stage.eventually(lambda: len(stage.storage.snapshots_of_run("run-3")) == 2)
    stage.storage.name_snapshot(first, "data")
    states = lambda: [one.state for one in stage.storage.snapshots_of_run("run-3")]  # noqa: E731
    stage.eventually(lambda: states() == ["completed", "completed"])
    assert {one.snapshot_id for one in stage.storage.snapshots_of_volumes([data, log])} == {
        one.snapshot_id for one in made
    }
    found = {one.snapshot_id: one for one in stage.storage.snapshots_of_environment()}
    assert found[first].tags[VOLUME_TAG] == "data"
    stage.storage.delete_snapshot(first)
    stage.storage.delete_snapshot(first)
    stage.eventually(lambda: len(stage.storage.snapshots_of_run("run-3")) == 1)


def volume_spec(stage: Stage, run: str) -> VolumeSpec:
    """Of a snapshot that is complete."""
    host = running(stage, f"{run}-donor", f"{run}-donor").instance_id
    [made] = stage.storage.create_snapshots(host, [stage.data_volume(host, "/dev/sdf")], tags_of(run))
    stage.eventually(lambda: [one.state for one in stage.storage.snapshots_of_run(run)] == ["completed"])
    return VolumeSpec(made.snapshot_id, "us-east-1a", 1, "gp3", 3000, 125, 300, tags_of(run))


def test_a_volume_is_made_once_per_token_attached_once_and_deleted_when_free(stage: Stage) -> None:
    spec = volume_spec(stage, "run-4")
    host, other = running(stage, "token-4").instance_id, running(stage, "token-5").instance_id
    volume_id = stage.storage.create_volume(spec, "token-v").volume_id
    assert stage.storage.create_volume(spec, "token-v").volume_id == volume_id
    listed = lambda: {one.volume_id: one for one in stage.storage.volumes_of_run("run-4")}  # noqa: E731
    stage.eventually(lambda: volume_id in listed() and listed()[volume_id].state == "available")
    stage.storage.attach(volume_id, host, "/dev/sdg")
    stage.storage.attach(volume_id, host, "/dev/sdg")
    stage.eventually(lambda: listed()[volume_id].attachment_state == "attached")
    assert (listed()[volume_id].instance_id, listed()[volume_id].device) == (host, "/dev/sdg")
    with pytest.raises(errors.UndoInProgress):
        stage.storage.delete_volume(volume_id)
    with pytest.raises(errors.VolumeFailed):
        stage.storage.attach(volume_id, other, "/dev/sdg")
    stage.compute.terminate(host)
    stage.eventually(lambda: free(stage, volume_id))
    stage.storage.delete_volume(volume_id)
    stage.storage.delete_volume(UNKNOWN_VOLUME)
    stage.eventually(lambda: listed() == {})


def test_a_volume_without_a_snapshot_is_empty_and_made_once_per_token(stage: Stage) -> None:
    """It is filled by its host."""
    spec = replace(volume_spec(stage, "run-6"), snapshot_id=None, initialization_rate_mib_per_s=None)
    volume_id = stage.storage.create_volume(spec, "token-empty").volume_id
    assert stage.storage.create_volume(spec, "token-empty").volume_id == volume_id
    listed = lambda: {one.volume_id: one for one in stage.storage.volumes_of_run("run-6")}  # noqa: E731
    stage.eventually(lambda: volume_id in listed() and listed()[volume_id].state == "available")
    assert (listed()[volume_id].size_gib, listed()[volume_id].kms_key_id) == (1, None)


def free(stage: Stage, volume_id: str) -> bool:
    """EC2 detaches the volumes of an instance that ends."""
    there = [one for one in stage.storage.volumes_of_environment() if one.volume_id == volume_id]
    return [one.state for one in there] == ["available"]


def test_a_volume_token_of_another_volume_is_refused(stage: Stage) -> None:
    """`IdempotentParameterMismatch`"""
    spec = volume_spec(stage, "run-5")
    stage.storage.create_volume(spec, "token-mismatch")
    with pytest.raises(errors.AwsCallRejected):
        stage.storage.create_volume(replace(spec, size_gib=2), "token-mismatch")


def test_a_volume_that_was_made_and_vanished_is_told_with_its_key_when_the_call_is_made_again(
    stage: Stage,
) -> None:
    """Its key was revoked; EC2 answers the token with `IdempotentParameterMismatch`."""
    spec = volume_spec(stage, "run-7")
    volume_id = stage.storage.create_volume(spec, "token-vanished").volume_id
    stage.eventually(lambda: free(stage, volume_id))
    stage.storage.delete_volume(volume_id)
    stage.eventually(lambda: stage.storage.volumes_of_run("run-7") == [])
    with pytest.raises(errors.VolumeVanished, match="KMS key"):
        stage.storage.create_volume(spec, "token-vanished")


def test_a_command_is_found_by_its_comment_and_by_when_it_was_asked_for(stage: Stage) -> None:
    host = running(stage, "token-6").instance_id
    asked_at, (name, parameters) = stage.now(), stage.document
    assert stage.commands.find(host, "run-1 Step#1", asked_at) is None
    command_id = stage.commands.send(name, host, parameters, "run-1 Step#1")
    stage.eventually(lambda: stage.commands.find(host, "run-1 Step#1", asked_at) == command_id)
    assert stage.commands.find(host, "run-1 Step#2", asked_at) is None
    assert stage.commands.find(host, "run-1 Step#1", asked_at + timedelta(hours=6)) is None
    stage.eventually(lambda: stage.commands.outcome(command_id, host).status is CommandStatus.SUCCESS)
    stage.commands.cancel(command_id, host)
    assert stage.commands.outcome(command_id, host).status is CommandStatus.SUCCESS


def test_a_command_that_nobody_sent_is_missing_and_may_be_cancelled(stage: Stage) -> None:
    host, nobodys = running(stage, "token-7").instance_id, "12345678-1234-1234-1234-123456789012"
    assert stage.commands.outcome(nobodys, host).status is CommandStatus.MISSING
    stage.commands.cancel(nobodys, host)


def test_an_agent_that_does_not_answer_may_answer_later(stage: Stage) -> None:
    name, parameters = stage.document
    assert not stage.commands.agent(UNKNOWN_HOST).is_online
    assert not stage.commands.agent(running(stage, "token-of-an-agent").instance_id).is_too_old
    with pytest.raises(errors.AwsUnavailable):
        stage.commands.send(name, UNKNOWN_HOST, parameters, "run-1 Unheard#1")
