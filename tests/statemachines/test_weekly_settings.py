"""The weekly look at the settings on the local cloud, under its function's role: read, replayed, kept, published."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from localcloud.extensions.cloudwatch.metrics import load_history
from peaker_contract.metrics import Metric
from tests.support.workflow_cloud import NAMES, Cluster, WorkflowCloud
from tests.unit.domain.forecasting.loads import daily

HOURLY = 3600
# Far more room than the load takes: a replica serves 20, and 40 % of it stay free.
GENEROUS = {
    "forecast": {"schedule_minutes": 720, "quantile": 0.99, "headroom": 0.4},
    "capacity_per_replica": 20.0,
    "max_replicas": 20,
    "instance_hourly_usd": 0.5,
}


def invoked(cloud: WorkflowCloud, function: str, payload: Mapping[str, str]) -> dict[str, Any]:
    answer = cloud.client("lambda").invoke(
        FunctionName=NAMES.function(function), Payload=json.dumps(payload).encode()
    )
    document: dict[str, Any] = json.load(answer["Payload"])
    assert "FunctionError" not in answer, document
    return document


def with_load(cloud: WorkflowCloud, days: int) -> Cluster:
    """A cluster with so many days of load until now, which forecast_load has checked."""
    cluster = cloud.cluster(**GENEROUS)
    metric = cluster.settings["load_metric"]
    now: datetime = cloud.cloud.clock.now()
    loads = daily(days, HOURLY)
    points = [(now - timedelta(hours=len(loads) - at), float(load)) for at, load in enumerate(loads)]
    opened: Any = cloud.cloud
    load_history(opened, metric["namespace"], metric["name"], metric["dimensions"], points)
    invoked(cloud, "forecast_load", {"cluster": cluster.name})
    return cluster


def looked_at(cloud: WorkflowCloud, cluster: Cluster) -> dict[str, Any]:
    """What is kept of the cluster once a look has had time for it: ten minutes of this clock are a second."""

    def kept() -> list[str]:
        rows = cloud.rows(f"cluster#{cluster.name}")
        return [row["document"] for row in rows if row["sk"] == "settings_proposal"]

    def looked() -> bool:
        invoked(cloud, "propose_settings", {})
        return bool(kept())

    cloud.eventually(looked)
    (document,) = kept()
    return dict(json.loads(document))


def savings(cloud: WorkflowCloud, cluster: Cluster) -> list[float]:
    """The points of the metric that the dashboard shows."""
    now = cloud.cloud.clock.now()
    answer = cloud.client("cloudwatch").get_metric_statistics(
        Namespace=NAMES.metric_namespace,
        MetricName=Metric.SETTINGS_SAVING_USD_PER_WEEK.value,
        Dimensions=[{"Name": "Cluster", "Value": cluster.name}],
        StartTime=now - timedelta(days=2),
        EndTime=now + timedelta(hours=1),
        Period=86_400,
        Statistics=["Maximum"],
    )
    return [point["Maximum"] for point in answer["Datapoints"]]


def test_six_weeks_of_load_with_too_much_headroom_become_a_proposal_in_dollars(cloud: WorkflowCloud) -> None:
    cluster = with_load(cloud, 42)
    found = looked_at(cloud, cluster)
    assert found["advice"] == "change", found["reason"]
    assert found["proposed"]["headroom"] < 0.4
    assert found["saved_usd_per_week"] > 10
    assert savings(cloud, cluster) == [found["saved_usd_per_week"]]
    parameter = cloud.client("ssm").get_parameter(Name=NAMES.cluster_parameter(cluster.name))["Parameter"]
    assert (parameter["Version"], json.loads(parameter["Value"])) == (1, cluster.settings)


def test_three_weeks_of_load_are_too_few_and_the_record_says_so(cloud: WorkflowCloud) -> None:
    cluster = with_load(cloud, 21)
    found = looked_at(cloud, cluster)
    assert found["advice"] == "unknown"
    assert found["reason"].endswith("days of load until the week's end, and 28 are needed")
    assert savings(cloud, cluster) == []
