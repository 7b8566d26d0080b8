"""scale_out and scale_in of a cluster behind a DNS name; its clients ask the local cloud's DNS server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from dnslib import DNSRecord
from peaker.adapters.read_endpoint.health_checks import ReplicaHealthChecks
from peaker.adapters.read_endpoint.route53 import FULL_WEIGHT, Route53ReadEndpoint
from peaker.domain.replicas.inventory import TargetState

from peaker_contract.cluster import ClusterSettings
from tests.statemachines.recorded_calls import assert_planned, recorded
from tests.support.workflow_cloud import Cluster, WorkflowCloud

# Of cloud time, which runs 600 times as fast: a check takes a second of real time.
CHECK_MINUTES = 240
FOLLOW_SECONDS = 90
# Of real time: the server shares the machine with everything else that a test run does.
ANSWER_SECONDS = 60


def settings_of(cluster: Cluster) -> ClusterSettings:
    return ClusterSettings.model_validate(cluster.settings)


def router(cloud: WorkflowCloud) -> Route53ReadEndpoint:
    route53, cloudwatch = cloud.client("route53"), cloud.client("cloudwatch")
    return Route53ReadEndpoint(route53, cloud.client("ec2"), ReplicaHealthChecks(route53, cloudwatch))


@contextmanager
def checked(cloud: WorkflowCloud, cluster: Cluster) -> Iterator[None]:
    """The schedule of check_replicas: one look after the other."""
    over = threading.Event()

    def look() -> None:
        payload = json.dumps({"cluster": cluster.name})
        while not over.wait(0.2):
            cloud.client("lambda").invoke(FunctionName="peaker-local-check_replicas", Payload=payload)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def healthy(cloud: WorkflowCloud, cluster: Cluster) -> set[str]:
    """The proven replicas whose alarms are quiet."""
    found = router(cloud).health(settings_of(cluster))
    return {name for name, health in found.items() if health.state is TargetState.HEALTHY}


def resolved(cloud: WorkflowCloud, cluster: Cluster) -> set[str]:
    """Where clients that ask now connect to."""
    question = DNSRecord.question(cluster.settings["read_endpoint"]["record_name"], "A")
    found = [question.send("127.0.0.1", cloud.cloud.dns_port, timeout=ANSWER_SECONDS) for _ in range(40)]
    return {str(row.rdata) for answer in found for row in DNSRecord.parse(answer).rr}


def address(cloud: WorkflowCloud, instance_id: str) -> str:
    found = cloud.client("ec2").describe_instances(InstanceIds=[instance_id])
    return str(found["Reservations"][0]["Instances"][0]["PrivateIpAddress"])


def weights(cloud: WorkflowCloud, cluster: Cluster) -> dict[str, int]:
    zone = cluster.settings["read_endpoint"]["hosted_zone_id"]
    listed = cloud.client("route53").list_resource_record_sets(HostedZoneId=zone)["ResourceRecordSets"]
    return {one["SetIdentifier"]: one["Weight"] for one in listed if "Weight" in one}


def test_a_replica_joins_and_leaves_by_name_and_clients_follow(cloud: WorkflowCloud) -> None:
    cluster = cloud.cluster_by_name(health={"check_minutes": CHECK_MINUTES})
    base = address(cloud, cluster.base_id)
    router(cloud).promote(settings_of(cluster), cluster.base_id)
    with checked(cloud, cluster):
        cloud.eventually(lambda: healthy(cloud, cluster) == {cluster.base_id})
        cloud.set_load(cluster, 150, 2)
        with recorded() as calls:
            out = cloud.run("scale_out", {"cluster": cluster.name})
        assert cloud.last_state(out) == "ReplicaInService"
        assert "route53:CreateHealthCheck" in calls
        assert_planned(cloud, cluster, calls)
        # Where the machine stalls, a look comes late and an alarm goes on until the next one.
        cloud.eventually(lambda: len(healthy(cloud, cluster) - {cluster.base_id}) == 1)
        [new] = healthy(cloud, cluster) - {cluster.base_id}
        assert weights(cloud, cluster) == {cluster.base_id: FULL_WEIGHT, new: FULL_WEIGHT}
        joined = {base, address(cloud, new)}
        cloud.eventually(lambda: resolved(cloud, cluster) == joined)

        cloud.set_load(cluster, 50, 1)
        back = cloud.run("scale_in", {"cluster": cluster.name, "replica": new})
        assert cloud.last_state(back) == "ReplicaRetired"
    assert weights(cloud, cluster) == {cluster.base_id: FULL_WEIGHT}
    assert resolved(cloud, cluster) == {base}
    assert cloud.made_by_peaker(cluster) == []
    assert router(cloud).warming_health(settings_of(cluster)).keys() == {cluster.base_id}
    for step, run in (("RampTraffic", "scale-out"), ("DrainReplica", "scale-in")):
        [run_id] = [one for one in cloud.runs(cluster) if one.startswith(run)]
        steps = {one["step"]: one for one in cloud.receipt(run_id)["steps"]}
        assert steps[step]["seconds"] >= FOLLOW_SECONDS
