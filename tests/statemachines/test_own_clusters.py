"""Tests of workflows share one account: what each takes of its quotas is there again for the next."""

from __future__ import annotations

from typing import Any

from tests.statemachines.test_quotas_before_a_run import gp3_gib, vcpus_in_use
from tests.support.workflow_cloud import Cluster, WorkflowCloud


def in_use(cloud: WorkflowCloud) -> dict[str, int]:
    ec2 = cloud.client("ec2")
    parameters = cloud.client("ssm").get_paginator("describe_parameters").paginate()
    return {
        "vCPUs": vcpus_in_use(cloud),
        "gp3 GiB": gp3_gib(cloud),
        "snapshots": len(ec2.describe_snapshots(OwnerIds=["self"])["Snapshots"]),
        "load balancers": len(cloud.client("elbv2").describe_load_balancers()["LoadBalancers"]),
        "target groups": len(cloud.client("elbv2").describe_target_groups()["TargetGroups"]),
        "settings": sum(len(page["Parameters"]) for page in parameters),
    }


def reserve_and_snapshot(cloud: WorkflowCloud, cluster: Cluster) -> None:
    """What a run under way has besides hosts and volumes: room for an event, a snapshot of each volume."""
    ec2 = cloud.client("ec2")
    ec2.create_capacity_reservation(
        InstanceType="r6i.large", InstancePlatform="Linux/UNIX", AvailabilityZone="us-east-1a", InstanceCount=3,
        TagSpecifications=[tagged("capacity-reservation", cluster)],
    )  # fmt: skip
    ec2.create_snapshots(
        InstanceSpecification={"InstanceId": cluster.base_id, "ExcludeBootVolume": True},
        TagSpecifications=[tagged("snapshot", cluster)],
    )


def tagged(resource_type: str, cluster: Cluster) -> dict[str, Any]:
    return {"ResourceType": resource_type, "Tags": [{"Key": "peaker:cluster", "Value": cluster.name}]}


def test_what_a_cluster_took_of_the_account_is_there_again_for_the_next(cloud: WorkflowCloud) -> None:
    kept = cloud.cluster()
    before = in_use(cloud)
    with cloud.own_clusters():
        cluster = cloud.cluster()
        cloud.peak_replica(cluster)
        reserve_and_snapshot(cloud, cluster)
        taken = in_use(cloud)
        assert [name for name in before if taken[name] <= before[name]] == []
    assert in_use(cloud) == before
    assert cloud.health(kept) == {kept.base_id: "healthy"}


def test_it_goes_back_though_the_test_failed_half_way(cloud: WorkflowCloud) -> None:
    before = in_use(cloud)
    try:
        with cloud.own_clusters():
            cloud.cluster()
            raise AssertionError("not what the test had expected")
    except AssertionError:
        assert in_use(cloud) == before
