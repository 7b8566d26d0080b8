"""Runs of scale_out that fail in ways that only AWS has: nothing of the run remains (I9)."""

from __future__ import annotations

from peaker_contract.errors import AgentTooOld
from tests.support.workflow_cloud import Cluster, WorkflowCloud

# An error that no state retries: the state fails at once.
FATAL = "AwsCallRejected"
AGENT_TAG, OLD_AGENT = "localcloud:agent-version", "3.3.2299.0"


def assert_untouched(cloud: WorkflowCloud, cluster: Cluster) -> None:
    assert cloud.made_by_peaker(cluster) == []
    assert cloud.lease_is_free(cluster)
    assert cloud.health(cluster) == {cluster.base_id: "healthy"}


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
