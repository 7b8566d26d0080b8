"""A refill where two replicas could be the donor: the real workflow; hosts answer from a script."""

from __future__ import annotations

from tests.statemachines.test_parking_workflow import row_of
from tests.statemachines.test_refill_workflow import (
    LARGE_GIB,
    expired,
    leaves_the_endpoint,
    members_of_the_newest,
    volumes_of,
)
from tests.support.workflow_cloud import Cluster, WorkflowCloud


def beside_another(cloud: WorkflowCloud) -> tuple[Cluster, str, str]:
    """The cluster, its replica that has expired, and one that serves beside the one that this was made from."""
    cluster, instance_id = expired(cloud)
    # As a run that began before all others.
    other = cloud.peak_replica(cluster, LARGE_GIB, by="0000")
    cloud.set_load(cluster, 250, 3)
    return cluster, instance_id, other


def sources_of_newest(cloud: WorkflowCloud, cluster: Cluster) -> set[str]:
    """The volumes of which the newest run has snapshots."""
    run_id = max(one for one in cloud.runs(cluster) if one.startswith("scale-out") and one[-2:] != "-2")
    filters = [{"Name": "tag:peaker:run-id", "Values": [run_id]}]
    found = cloud.client("ec2").describe_snapshots(Filters=filters)["Snapshots"]
    assert found
    return {one["VolumeId"] for one in found}


def test_the_run_takes_the_donor_that_the_expired_one_was_made_from(cloud: WorkflowCloud) -> None:
    cluster, instance_id, _ = beside_another(cloud)
    execution = cloud.run("scale_out", {"cluster": cluster.name})
    assert cloud.last_state(execution) == "ReplicaInService", execution
    [member] = members_of_the_newest(cloud, cluster)
    assert (member["method"], member["state"]) == ("refill", "in_service"), member
    assert sources_of_newest(cloud, cluster) < volumes_of(cloud, cluster.base_id)
    assert cloud.health(cluster)[instance_id] == "healthy"


def test_where_that_donor_fails_before_the_run_takes_it_the_expired_one_stays_and_one_is_built_of_the_other(
    cloud: WorkflowCloud,
) -> None:
    cluster, instance_id, other = beside_another(cloud)
    before = row_of(cloud, cluster, instance_id)["parking"]
    planned = cloud.run("scale_out", {"cluster": cluster.name, "mode": "plan"})["document"]
    assert (planned["method"]["action"], planned["donor"]) == ("refill", cluster.base_id), planned["method"]
    cloud.cloud.faults.add(
        "lambda:choose_donor",
        "Lambda.TooManyRequestsException",
        on_use=lambda: leaves_the_endpoint(cloud, cluster, cluster.base_id),
    )
    execution = cloud.run("scale_out", {"cluster": cluster.name})
    assert cloud.last_state(execution) == "ReplicaInService", execution
    refill, build = members_of_the_newest(cloud, cluster)
    assert (refill["method"], build["method"], build["state"]) == ("refill", "build", "in_service")
    assert f"it was made from {cluster.base_id}, and the donor of this run is {other}" in str(refill)
    assert sources_of_newest(cloud, cluster) < volumes_of(cloud, other)
    row = row_of(cloud, cluster, instance_id)
    assert (row["state"], row["parking"]) == ("parked", before), "nobody has touched it"
    assert cloud.instance_state(instance_id) == "stopped"
    assert ("start_fill", instance_id) not in cloud.answers.asked
    assert cloud.lease_is_free(cluster)
