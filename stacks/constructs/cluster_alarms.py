"""Cluster alarms page a person for one cluster, by the forecast, the undo and the replicas' own reports."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_sns as sns
from constructs import Construct

from environments.schema import Cluster
from peaker_contract.metrics import Metric
from stacks.constructs.cluster_widgets import (
    forecast_metric,
    replica_metric,
    sweep_metric,
)
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
        self._names, self._topic, self._cluster = names, topic, cluster
        period = Duration.minutes(cluster.forecast.schedule_minutes)
        self._alarm(
            "Degraded",
            "forecast-degraded",
            f"The forecast of {cluster.name} rests on a load that has stopped, or that cannot be forecast.",
            metric=forecast_metric(self._names, cluster, Metric.FORECAST_DEGRADED, "Maximum", period),
            tells_end=True,
        )
        self._alarm(
            "Stale",
            "forecast-stale",
            f"No forecast of {cluster.name} was published {MISSED_FORECASTS} times in a row. {NEW}",
            metric=forecast_metric(self._names, cluster, Metric.FORECAST_DEGRADED, "SampleCount", period),
            threshold=1,
            comparison=cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
            evaluation_periods=MISSED_FORECASTS,
            missing_data=cloudwatch.TreatMissingData.BREACHING,
            tells_end=True,
        )
        self._alarm(
            "CannotBeMet",
            "rules-cannot-be-met",
            f"The load of {cluster.name} cannot be served within its rules, or cannot be read.",
            metric=forecast_metric(self._names, cluster, Metric.DECISION_ALARM, "Maximum", period),
            evaluation_periods=2,
            tells_end=True,
        )
        self._alarm(
            "LastingShortage",
            "lasting-replica-shortage",
            f"Replicas of {cluster.name} are missing in {MISSING_FORECASTS} forecasts, and no run builds them.",
            runbook="replica-shortage",
            metric=forecast_metric(self._names, cluster, Metric.REPLICA_SHORTAGE, "Maximum", period),
            evaluation_periods=MISSING_FORECASTS,
        )
        self._alarm(
            "Undo",
            "undo-incomplete",
            f"What a run of {cluster.name} left behind resists since an hour; it is tried again and again.",
            metric=sweep_metric(self._names, cluster, Metric.LEFTOVER_SECONDS, "Maximum"),
            threshold=LEFTOVERS_MAY_LAST.to_seconds(),
            tells_end=True,
        )
        self._alarm(
            "Silent",
            "sweep-silent",
            f"Nobody looks for what stopped runs of {cluster.name} leave behind. {NEW}",
            metric=sweep_metric(self._names, cluster, Metric.LEFTOVERS, "SampleCount"),
            threshold=1,
            comparison=cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
            evaluation_periods=MISSED_SWEEPS,
            missing_data=cloudwatch.TreatMissingData.BREACHING,
            tells_end=True,
        )

        self._alarm(
            "HeldByFloor",
            "replicas-held-by-floor",
            f"Too few replicas of {cluster.name} are good: some serve although they lag.",
            metric=replica_metric(self._names, cluster, Metric.REPLICAS_HELD_BY_FLOOR, "Maximum"),
            tells_end=True,
        )

    def _alarm(
        self,
        construct_id: str,
        alarm: str,
        summary: str,
        *,
        metric: cloudwatch.IMetric,
        runbook: str | None = None,
        **more: object,
    ) -> None:
        """Makes the cluster's alarm of that name; its runbook has the same name unless another is given."""
        OperatorAlarm(
            self,
            construct_id,
            name=self._names.cluster_alarm(self._cluster.name, alarm),
            summary=summary,
            runbook=runbook or alarm,
            metric=metric,
            topic=self._topic,
            **more,  # type: ignore[arg-type]
        )
