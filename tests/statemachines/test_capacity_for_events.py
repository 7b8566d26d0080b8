"""Room for a known event on the local cloud, under the functions' roles: reserved, launched into, given back."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from peaker_contract.metrics import Metric
from tests.support.workflow_cloud import ENVIRONMENT, NAMES, Cluster, WorkflowCloud


def looked(cloud: WorkflowCloud, cluster: Cluster) -> str:
    name = NAMES.function("tend_capacity_reservations")
    answer = cloud.client("lambda").invoke(FunctionName=name, Payload=b"{}")
    payload: dict[str, Any] = json.load(answer["Payload"])
    assert "FunctionError" not in answer, payload
    return str(payload["clusters"][cluster.name])


def published(cloud: WorkflowCloud, cluster: Cluster) -> None:
    """As forecast_load does: the observation is over."""
    point = {
        "MetricName": Metric.OBSERVING.value,
        "Dimensions": [{"Name": "Cluster", "Value": cluster.name}],
        "Value": 0.0,
        "Timestamp": cloud.cloud.clock.now(),
    }
    cloud.client("cloudwatch").put_metric_data(Namespace=NAMES.metric_namespace, MetricData=[point])


def with_sale(cloud: WorkflowCloud) -> Cluster:
    """A cluster in a sale that takes two replicas more than serve. A day of the cloud's clock is two minutes here."""
    now = cloud.cloud.clock.now().replace(microsecond=0)
    sale = {
        "from": (now - timedelta(hours=1)).isoformat(),
        "until": (now + timedelta(days=30)).isoformat(),
        "reason": "winter sale",
        "min_replicas": 3,
    }
    cluster = cloud.cluster(calendar=[sale], capacity_reservations={"for_events": True})
    published(cloud, cluster)
    return cluster


def rooms(cloud: WorkflowCloud, cluster: Cluster) -> dict[str, tuple[str, int]]:
    """State and room of the cluster's reservations, by zone."""
    found = cloud.client("ec2").describe_capacity_reservations()["CapacityReservations"]
    mine = [one for one in found if {"Key": "peaker:cluster", "Value": cluster.name} in one["Tags"]]
    return {one["AvailabilityZone"]: (one["State"], one["AvailableInstanceCount"]) for one in mine}


def settle(cloud: WorkflowCloud, cluster: Cluster, state: str) -> None:
    cloud.eventually(lambda: {found for found, _ in rooms(cloud, cluster).values()} == {state})


def test_a_batch_of_two_launches_into_the_room_of_its_event(cloud: WorkflowCloud) -> None:
    cluster = with_sale(cloud)
    assert "is reserved until" in looked(cloud, cluster)
    settle(cloud, cluster, "active")
    assert rooms(cloud, cluster) == {"us-east-1a": ("active", 1), "us-east-1b": ("active", 1)}
    assert "0 are free" not in looked(cloud, cluster)
    execution = cloud.run("scale_out", {"cluster": cluster.name, "count": 2})
    assert execution["status"] == "SUCCEEDED", execution
    assert rooms(cloud, cluster) == {"us-east-1a": ("active", 0), "us-east-1b": ("active", 0)}
    without_event(cloud, cluster)
    cloud.eventually(lambda: "was given back" in looked(cloud, cluster))
    settle(cloud, cluster, "cancelled")
    # What ran in it goes on running.
    assert sorted(cloud.health(cluster).values()) == ["healthy"] * 3


def without_event(cloud: WorkflowCloud, cluster: Cluster) -> None:
    """Taken out of the calendar; a new worker reads the settings now, a warm one a minute later."""
    cloud.client("ssm").put_parameter(
        Name=f"/peaker/{ENVIRONMENT}/clusters/{cluster.name}",
        Value=json.dumps({**cluster.settings, "calendar": []}),
        Type="String",
        Overwrite=True,
    )
    function = NAMES.function("tend_capacity_reservations")
    cloud.client("lambda").update_function_configuration(FunctionName=function, Description="looks again")


def test_room_that_somebody_gave_back_stops_no_run(cloud: WorkflowCloud) -> None:
    """The record still has it, and so has EC2's list: the launch asks there first, and goes on."""
    cluster = with_sale(cloud)
    looked(cloud, cluster)
    settle(cloud, cluster, "active")
    cloud.cloud.faults.add("ec2:RunInstances", "ReservationCapacityExceeded")
    execution = cloud.run("scale_out", {"cluster": cluster.name})
    assert execution["status"] == "SUCCEEDED", execution


def test_where_ec2_has_no_room_the_next_look_asks_again(cloud: WorkflowCloud) -> None:
    cluster = with_sale(cloud)
    cloud.cloud.faults.add("ec2:CreateCapacityReservation", "InsufficientInstanceCapacity")
    assert "r6i.large in us-east-1a: ec2:CreateCapacityReservation: InsufficientInstanceCapacity" in looked(
        cloud, cluster
    )
    cloud.eventually(lambda: len(rooms(cloud, cluster)) > 0)
