"""What the account may have, on the local cloud under the functions' roles: known to the plan before EC2 refuses it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.workflow_cloud import Cluster, WorkflowCloud

STANDARD, GP3 = ("ec2", "L-1216C47A"), ("ebs", "L-7A658B76")
GIB_PER_TIB = 1024


@contextmanager
def the_account_may_have(cloud: WorkflowCloud, quota: tuple[str, str], value: float) -> Iterator[None]:
    quotas = cloud.cloud.quotas
    before = quotas.value(*quota)
    assert before is not None
    quotas.give(*quota, value)
    try:
        yield
    finally:
        quotas.give(*quota, before)


def vcpus_in_use(cloud: WorkflowCloud) -> int:
    """Of all hosts that earlier tests left, whatever their type; room that one of them reserved counts as a host."""
    ec2 = cloud.client("ec2")
    running = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
    pages = ec2.get_paginator("describe_instances").paginate(Filters=running)
    types = [
        host["InstanceType"]
        for page in pages
        for group in page["Reservations"]
        for host in group["Instances"]
    ]
    for room in ec2.describe_capacity_reservations()["CapacityReservations"]:
        types += [room["InstanceType"]] * room["AvailableInstanceCount"]
    if not types:
        return 0
    described = ec2.describe_instance_types(InstanceTypes=sorted(set(types)))["InstanceTypes"]
    vcpus = {one["InstanceType"]: one["VCpuInfo"]["DefaultVCpus"] for one in described}
    return sum(vcpus[name] for name in types)


def gp3_gib(cloud: WorkflowCloud) -> int:
    pages = cloud.client("ec2").get_paginator("describe_volumes").paginate()
    return sum(one["Size"] for page in pages for one in page["Volumes"] if one["VolumeType"] == "gp3")


def planned(cloud: WorkflowCloud, cluster: Cluster, count: int) -> dict[str, Any]:
    execution = cloud.run("scale_out", {"cluster": cluster.name, "mode": "plan", "count": count})
    assert execution["status"] == "SUCCEEDED", execution
    document: dict[str, Any] = execution["document"]
    return document


def check(plan: dict[str, Any], name: str) -> dict[str, Any]:
    return next((one for one in plan["checks"] if one["name"] == name), {})


def test_the_launch_that_ec2_would_refuse_is_refused_by_the_plan(cloud: WorkflowCloud) -> None:
    """Of two there is room for one: EC2 would launch the first, and say VcpuLimitExceeded to the second."""
    cluster = cloud.cluster()
    with the_account_may_have(cloud, STANDARD, vcpus_in_use(cloud) + 3):
        with pytest.raises(ClientError, match="VcpuLimitExceeded"):
            cloud.client("ec2").run_instances(
                ImageId=cluster.settings["image_id"], InstanceType="r6i.large", MinCount=2, MaxCount=2,
                SubnetId=cluster.settings["subnets"]["us-east-1a"],
            )  # fmt: skip
        plan = planned(cloud, cluster, 2)
    assert [one["code"] for one in plan["refusals"]] == ["check"], "the plan says that all is well"
    found = check(plan, "vCPUs")
    assert (found["verdict"], found["numbers"]["fit"]) == ("refuse", 1), plan["checks"]
    assert "1 of 2 replicas would fit" in found["detail"]
    assert "--quota-code L-1216C47A" in found["remedy"]


def test_storage_that_ebs_would_refuse_is_refused_by_the_plan(cloud: WorkflowCloud) -> None:
    cluster = cloud.cluster()
    with the_account_may_have(cloud, GP3, (gp3_gib(cloud) + 12) / GIB_PER_TIB):
        found = check(planned(cloud, cluster, 2), "EBS storage")
    assert (found["verdict"], found["numbers"]["fit"]) == ("refuse", 1), found
    assert "--quota-code L-7A658B76" in found["remedy"]


def test_with_room_for_all_both_pass(cloud: WorkflowCloud) -> None:
    plan = planned(cloud, cloud.cluster(), 2)
    verdicts = {name: check(plan, name)["verdict"] for name in ("vCPUs", "EBS storage")}
    assert verdicts == {"vCPUs": "pass", "EBS storage": "pass"}, plan["checks"]
