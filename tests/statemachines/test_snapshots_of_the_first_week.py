"""The hourly look at kept snapshots on the local cloud, under its function's role."""

from __future__ import annotations

import json
from typing import Any

from peaker_contract.metrics import Metric
from tests.support.workflow_cloud import NAMES, Cluster, WorkflowCloud


def looked(cloud: WorkflowCloud, cluster: Cluster) -> str:
    payload_in = json.dumps({"cluster": cluster.name}).encode()
    answer = cloud.client("lambda").invoke(
        FunctionName=NAMES.function("maintain_snapshots"), Payload=payload_in
    )
    payload: dict[str, Any] = json.load(answer["Payload"])
    assert "FunctionError" not in answer, payload
    return str(payload["text"]).removeprefix(f"{cluster.name}: ")


def test_a_cluster_that_is_observed_gets_its_first_set(cloud: WorkflowCloud) -> None:
    cluster = cloud.cluster(observation_days=7.0)
    dimensions = [{"Name": "Cluster", "Value": cluster.name}]
    point = {"MetricName": Metric.OBSERVING.value, "Dimensions": dimensions, "Value": 1.0}
    cloud.client("cloudwatch").put_metric_data(
        Namespace=NAMES.metric_namespace, MetricData=[{**point, "Timestamp": cloud.cloud.clock.now()}]
    )
    assert "began" in looked(cloud, cluster)
    cloud.eventually(lambda: "stays for the first run's copy" in looked(cloud, cluster))
    assert len(cloud.kept_snapshots(cluster)) == 2
    assert cloud.made_by_peaker(cluster) == []
    assert cloud.lease_is_free(cluster)
    [run_id] = cloud.runs(cluster)
    assert cloud.receipt(run_id)["outcome"] == "succeeded"
    assert looked(cloud, cluster) == "1 kept"
