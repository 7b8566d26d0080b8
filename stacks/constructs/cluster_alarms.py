"""Cluster alarms page a person for one cluster, by the forecast, the undo and the replicas' own reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_sns as sns
from constructs import Construct

from environments.schema import Cluster
from peaker_contract.metrics import Metric
from stacks.constructs.cluster_widgets import ClusterMetrics
from stacks.constructs.operator_alarm import OperatorAlarm
from stacks.naming import Names

# What is to come at each schedule is missing also before it has come for the first time: where a cluster was just
# deployed such an alarm goes off, and ends with the first schedule. INSUFFICIENT_DATA in its place would page nobody
# through the services that take only ALARM, just when the forecast stops.
NEW = "A cluster that was just deployed: wait for one schedule."
# A forecast is stale when this many scheduled ones in a row did not arrive.
MISSED_FORECASTS = 3
# A run that builds counts from its first moment, so that a shortage which stands has no run: the lease is held, or the
# start did not come. A removal is called off and the next run has begun within half of that.
MISSING_FORECASTS = 4
# Nobody looks for leftovers when this many looks in a row did not come: a quarter of an hour.
MISSED_SWEEPS = 5
# What drains, ends and is deleted in the ordinary way is gone in half of that.
LEFTOVERS_MAY_LAST = Duration.hours(1)

# Of an alarm on what is missing.
NONE_CAME: Mapping[str, Any] = {
    "comparison": cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
    "missing_data": cloudwatch.TreatMissingData.BREACHING,
}
# Other ids would be other alarms to CloudFormation, of names that are taken.
CONSTRUCT_IDS = {
    "forecast-degraded": "Degraded",
    "forecast-stale": "Stale",
    "rules-cannot-be-met": "CannotBeMet",
    "lasting-replica-shortage": "LastingShortage",
    "undo-incomplete": "Undo",
    "sweep-silent": "Silent",
    "replicas-held-by-floor": "HeldByFloor",
}


class ClusterAlarms(Construct):
    """The operators' alarms of one cluster; they tell the topic, if there is one."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        cluster: Cluster,
        topic: sns.ITopic | None,
    ) -> None:
        super().__init__(scope, construct_id)
        of = ClusterMetrics(names, cluster)

        def alarm(alarm: str, summary: str, metric: cloudwatch.IMetric, **more: Any) -> None:
            """Makes the cluster's alarm of that name; its runbook has the same name unless another is given."""
            OperatorAlarm(
                self,
                CONSTRUCT_IDS[alarm],
                name=names.cluster_alarm(cluster.name, alarm),
                summary=summary,
                metric=metric,
                topic=topic,
                **{"runbook": alarm, "tells_end": True, **more},
            )

        alarm(
            "forecast-degraded",
            f"The forecast of {cluster.name} rests on a load that has stopped, or that cannot be forecast.",
            of.forecast(Metric.FORECAST_DEGRADED),
        )
        alarm(
            "forecast-stale",
            f"No forecast of {cluster.name} was published {MISSED_FORECASTS} times in a row. {NEW}",
            of.forecast(Metric.FORECAST_DEGRADED, "SampleCount"),
            evaluation_periods=MISSED_FORECASTS,
            **NONE_CAME,
        )
        alarm(
            "rules-cannot-be-met",
            f"The load of {cluster.name} cannot be served within its rules, or cannot be read.",
            of.forecast(Metric.DECISION_ALARM),
            evaluation_periods=2,
        )
        alarm(
            "lasting-replica-shortage",
            f"Replicas of {cluster.name} are missing in {MISSING_FORECASTS} forecasts, and no run builds them.",
            of.forecast(Metric.REPLICA_SHORTAGE),
            runbook="replica-shortage",
            evaluation_periods=MISSING_FORECASTS,
            tells_end=False,
        )
        alarm(
            "undo-incomplete",
            f"What a run of {cluster.name} left behind resists since an hour; it is tried again and again.",
            of.sweep(Metric.LEFTOVER_SECONDS),
            threshold=LEFTOVERS_MAY_LAST.to_seconds(),
        )
        alarm(
            "sweep-silent",
            f"Nobody looks for what stopped runs of {cluster.name} leave behind. {NEW}",
            of.sweep(Metric.LEFTOVERS, "SampleCount"),
            evaluation_periods=MISSED_SWEEPS,
            **NONE_CAME,
        )
        alarm(
            "replicas-held-by-floor",
            f"Too few replicas of {cluster.name} are good: some serve although they lag.",
            of.check(Metric.REPLICAS_HELD_BY_FLOOR),
        )
