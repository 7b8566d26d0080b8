"""Faults in scale_out and in its member: nothing of the run remains (I9).

The serving fleet is as it was.
"""

from __future__ import annotations

import pytest

from localcloud.faults import Fault
from peaker_contract.errors import AgentTooOld, HostCommandFailed
from tests.support.workflow_cloud import Cluster, WorkflowCloud

# An error that no state retries: the state fails at once.
FATAL = "AwsCallRejected"
ROLLED_BACK = "Rolled back: nothing of the run is left and the serving fleet is as it was. "


def assert_untouched(cloud: WorkflowCloud, cluster: Cluster) -> None:
    assert cloud.made_by_peaker(cluster) == []
    assert cloud.lease_is_free(cluster)
    assert cloud.health(cluster) == {cluster.base_id: "healthy"}


@pytest.mark.parametrize(
    ("document", "step"),
    [
        ("install_host_package", "InstallOnReplica"),
    ],
)
def test_a_command_that_fails_on_the_new_host_leaves_nothing_behind(
    cloud: WorkflowCloud, document: str, step: str
) -> None:
    cluster = cloud.cluster()
    # The donor's answer comes first, so that only the new host fails.
    good = [{"ok": True}] if document == "install_host_package" else []
    cloud.answers.script(document, *good, {"ok": False, "error": "DiskFull", "message": "no space"})
    execution = cloud.run("scale_out", {"cluster": cluster.name})
    assert (execution["status"], execution["error"]) == ("FAILED", "HostCommandFailed")
    said = f"{step} failed (HostCommandFailed): {document}: DiskFull: no space. {HostCommandFailed.remedy}"
    assert execution["cause"] == ROLLED_BACK + said
    assert_untouched(cloud, cluster)


AGENT_TAG, OLD_AGENT = "localcloud:agent-version", "3.3.2299.0"


def test_an_image_with_an_old_agent_is_named_and_no_command_goes_to_its_host(cloud: WorkflowCloud) -> None:
    """The base replica's system has refreshed its agent since; a new replica boots with the image's."""
    ec2, cluster = cloud.client("ec2"), cloud.cluster()
    image_id = ec2.copy_image(
        SourceImageId=cluster.settings["image_id"], SourceRegion="us-east-1", Name="baked in 2025"
    )["ImageId"]
    ec2.create_tags(Resources=[image_id], Tags=[{"Key": AGENT_TAG, "Value": OLD_AGENT}])
    cluster = cloud.cluster(image_id=image_id)
    ec2.create_tags(Resources=[cluster.base_id], Tags=[{"Key": AGENT_TAG, "Value": "3.3.4793.0"}])
    cloud.answers.asked.clear()
    execution = cloud.run("scale_out", {"cluster": cluster.name})
    assert (execution["status"], execution["error"]) == ("FAILED", AgentTooOld.__name__)
    assert "AwaitInstanceOnline failed (AgentTooOld): the SSM agent of i-" in execution["cause"]
    assert f"is {OLD_AGENT}; Peaker's documents need 3.3.2746.0 or newer" in execution["cause"]
    assert execution["cause"].endswith(AgentTooOld.remedy)
    assert {host for _, host in cloud.answers.asked} == {cluster.base_id}
    assert_untouched(cloud, cluster)


def test_an_agent_that_went_back_on_the_donor_is_named(cloud: WorkflowCloud) -> None:
    """The host's package manager took back what had been installed: no run has looked at that version."""
    cluster = cloud.cluster()
    cloud.client("ec2").create_tags(
        Resources=[cluster.base_id], Tags=[{"Key": AGENT_TAG, "Value": OLD_AGENT}]
    )
    execution = cloud.run("scale_out", {"cluster": cluster.name})
    assert (execution["status"], execution["error"]) == ("FAILED", AgentTooOld.__name__)
    assert (
        f"InstallOnDonor failed (AgentTooOld): install_host_package: the SSM agent of {cluster.base_id} gives"
        in (execution["cause"])
    )
    assert_untouched(cloud, cluster)


def test_lost_answers_and_throttling_are_survived_without_a_second_of_anything(cloud: WorkflowCloud) -> None:
    cluster = cloud.cluster()
    for action in ("ec2:CreateSnapshots", "ec2:RunInstances", "ec2:CreateVolume", "ec2:AttachVolume",
                   "ssm:SendCommand", "elbv2:RegisterTargets", "dynamodb:TransactWriteItems"):  # fmt: skip
        cloud.cloud.faults.add(action, "InternalError", when="after")
    cloud.cloud.faults.add("ec2:DescribeVolumes", "RequestLimitExceeded", times=4)
    execution = cloud.run("scale_out", {"cluster": cluster.name})
    assert execution["status"] == "SUCCEEDED", execution
    kinds = sorted(one.split("-")[0] for one in cloud.made_by_peaker(cluster))
    assert kinds == ["i", "vol", "vol", "vol"]


def test_the_lease_goes_back_when_its_answer_was_lost(cloud: WorkflowCloud) -> None:
    cluster = cloud.cluster()
    cloud.cloud.faults.add("lambda:acquire_lease", FATAL, when="after")
    execution = cloud.run("scale_out", {"cluster": cluster.name})
    assert (execution["status"], cloud.last_state(execution)) == ("FAILED", "LeaseNotAcquired")
    assert_untouched(cloud, cluster)


def test_a_fault_before_the_lease_ends_at_once(cloud: WorkflowCloud) -> None:
    cluster = cloud.cluster()
    cloud.cloud.faults.add("lambda:validate_request", FATAL)
    execution = cloud.run("scale_out", {"cluster": cluster.name})
    assert (execution["status"], cloud.last_state(execution)) == ("FAILED", "RequestRejected")
    assert cloud.rows(f"cluster#{cluster.name}") == []


def test_a_run_under_a_customers_key_makes_all_of_it_under_that_key_and_undoes_it(
    cloud: WorkflowCloud,
) -> None:
    """Image, snapshots, volumes, attachments: the functions' roles hold the key as the template grants it."""
    ec2 = cloud.client("ec2")
    key = cloud.client("kms").create_key()["KeyMetadata"]["Arn"]
    origin = {"SourceImageId": "ami-0a770000000000097", "SourceRegion": "us-east-1", "Name": "under-a-key"}
    image = ec2.copy_image(**origin, Encrypted=True, KmsKeyId=key)["ImageId"]
    cluster = cloud.cluster(image_id=image, kms_key_arns=[key])
    mine = [
        {"Name": "tag:peaker:cluster", "Values": [cluster.name]},
        {"Name": "tag-key", "Values": ["peaker:owner"]},
    ]
    keys: dict[str, list[str]] = {}

    def look() -> None:
        volumes, snapshots = ec2.describe_volumes(Filters=mine), ec2.describe_snapshots(Filters=mine)
        keys["volumes"] = [one["KmsKeyId"] for one in volumes["Volumes"] if one["State"] == "in-use"]
        keys["snapshots"] = [one["KmsKeyId"] for one in snapshots["Snapshots"]]

    cloud.cloud.faults.add("lambda:assemble_storage", FATAL, on_use=look)
    execution = cloud.run("scale_out", {"cluster": cluster.name})
    assert f"AssembleStorage failed ({FATAL})" in execution["cause"]
    assert keys == {"volumes": [key] * 3, "snapshots": [key] * 2}
    assert_untouched(cloud, cluster)


def test_without_an_answer_before_the_lease_the_plan_checks_the_shortage_under_it(
    cloud: WorkflowCloud,
) -> None:
    cluster = cloud.cluster()
    cloud.set_load(cluster, 50, 1)
    cloud.cloud.faults.add("lambda:check_shortage", FATAL)
    given = {"cluster": cluster.name, "trigger": {"kind": "schedule"}}
    execution = cloud.run("scale_out", given)
    assert (execution["status"], cloud.last_state(execution)) == ("SUCCEEDED", "NothingToDo")
    assert cloud.receipt(cloud.runs(cluster)[0])["outcome"] == "nothing_to_do"
    assert_untouched(cloud, cluster)


@pytest.mark.parametrize("code", ["ThrottlingException", "ExecutionLimitExceeded"])
def test_starts_of_child_workflows_that_are_throttled_end_no_member(cloud: WorkflowCloud, code: str) -> None:
    """Another team's burst of starts empties the bucket that the account has for all of them."""
    cluster = cloud.cluster()
    faults = cloud.cloud.faults
    laid: list[Fault] = []

    def lay(document: str, _: str) -> None:
        """When the donor is prepared: the run itself has been started by then, and no child of it."""
        if document == "prepare_donor" and not laid:
            laid.append(faults.add("stepfunctions:StartExecution", code, "Rate exceeded", times=8))

    cloud.answers.before_answering = lay
    ended = cloud.run("scale_out", {"cluster": cluster.name})
    assert cloud.last_state(ended) == "ReplicaInService", ended
    assert [one.times for one in laid] == [0]
    assert len(cloud.runs(cluster)) == 1


def test_what_fails_after_the_replica_is_in_service_takes_nothing_away(cloud: WorkflowCloud) -> None:
    cluster = cloud.cluster()
    cloud.cloud.faults.add("lambda:record_receipt", FATAL, "on purpose")
    execution = cloud.run("scale_out", {"cluster": cluster.name})
    assert cloud.last_state(execution) == "ReplicaInServiceAfterFailure"
    assert execution["cause"].startswith(
        "The replica serves and stays; a step after that failed. RecordMember"
    )
    assert sorted(cloud.health(cluster).values()) == ["healthy", "healthy"]
    assert cloud.lease_is_free(cluster)
    receipt = cloud.receipt(cloud.runs(cluster)[0])
    assert (receipt["outcome"], receipt["failure"]["failed_step"]) == ("rolled_forward", "RecordMember")


def test_a_lease_that_cannot_go_back_after_success_is_said(cloud: WorkflowCloud) -> None:
    cluster = cloud.cluster()
    cloud.cloud.faults.add("lambda:release_lease", FATAL)
    execution = cloud.run("scale_out", {"cluster": cluster.name})
    assert (execution["status"], cloud.last_state(execution)) == ("FAILED", "LeaseNotReleased")
    assert list(cloud.health(cluster).values()) == ["healthy", "healthy"]
