"""What people look at: a dashboard, and the alarms on what the forecast and the undo report."""

from __future__ import annotations

from aws_cdk import Duration, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_sns as sns
from constructs import Construct

from environments.schema import Cluster
from peaker_contract.catalogue import FUNCTIONS
from peaker_contract.metrics import CLUSTER_DIMENSION, SERVICE, SERVICE_DIMENSION, Metric
from stacks.constructs.operator_alarm import OperatorAlarm
from stacks.control_plane_stack import SWEEP_EVERY
from stacks.naming import Names

# A forecast is stale when this many scheduled ones in a row did not arrive.
MISSED_FORECASTS = 3
# Nobody looks for leftovers when this many looks in a row did not come: a quarter of an hour.
MISSED_SWEEPS = 5
# What drains, ends and is deleted in the ordinary way is gone in half of that.
LEFTOVERS_MAY_LAST = Duration.hours(1)
WIDGET_WIDTH = 12


class ObservabilityStack(Stack):
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        state_machines: list[str],
        topic: sns.ITopic | None,
        **stack: object,
    ) -> None:
        super().__init__(scope, construct_id, **stack)  # type: ignore[arg-type]
        self._names = names
        self._topic = topic
        dashboard = cloudwatch.Dashboard(self, "Dashboard", dashboard_name=names.prefix)
        for cluster in names.environment.clusters:
            self._cluster_alarms(cluster)
            dashboard.add_widgets(*self._cluster_widgets(cluster))
        dashboard.add_widgets(*self._workflow_widgets(state_machines))
        dashboard.add_widgets(*self._function_widgets())

    def _cluster_alarms(self, cluster: Cluster) -> None:
        period = Duration.minutes(cluster.forecast.schedule_minutes)
        OperatorAlarm(
            self,
            f"{cluster.name}ForecastDegraded",
            name=self._names.cluster_alarm(cluster.name, "forecast-degraded"),
            summary=f"The forecast of {cluster.name} rests on too little or too old data.",
            runbook="forecast-degraded",
            metric=self._metric(cluster, Metric.FORECAST_DEGRADED, "Maximum", period),
            topic=self._topic,
        )
        OperatorAlarm(
            self,
            f"{cluster.name}ForecastStale",
            name=self._names.cluster_alarm(cluster.name, "forecast-stale"),
            summary=f"No forecast of {cluster.name} was published {MISSED_FORECASTS} times in a row.",
            runbook="forecast-stale",
            metric=self._metric(cluster, Metric.FORECAST_DEGRADED, "SampleCount", period),
            threshold=1,
            comparison=cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
            evaluation_periods=MISSED_FORECASTS,
            missing_data=cloudwatch.TreatMissingData.BREACHING,
            topic=self._topic,
        )
        OperatorAlarm(
            self,
            f"{cluster.name}RulesCannotBeMet",
            name=self._names.cluster_alarm(cluster.name, "rules-cannot-be-met"),
            summary=f"The load of {cluster.name} cannot be served within its rules, or cannot be read.",
            runbook="rules-cannot-be-met",
            metric=self._metric(cluster, Metric.DECISION_ALARM, "Maximum", period),
            evaluation_periods=2,
            topic=self._topic,
        )
        OperatorAlarm(
            self,
            f"{cluster.name}UndoIncomplete",
            name=self._names.cluster_alarm(cluster.name, "undo-incomplete"),
            summary=f"What a run of {cluster.name} left behind resists since an hour; it is tried again and again.",
            runbook="undo-incomplete",
            metric=self._sweep_metric(cluster, Metric.LEFTOVER_SECONDS, "Maximum"),
            threshold=LEFTOVERS_MAY_LAST.to_seconds(),
            topic=self._topic,
        )
        OperatorAlarm(
            self,
            f"{cluster.name}SweepSilent",
            name=self._names.cluster_alarm(cluster.name, "sweep-silent"),
            summary=f"Nobody looks for what stopped runs of {cluster.name} leave behind.",
            runbook="sweep-silent",
            metric=self._sweep_metric(cluster, Metric.LEFTOVERS, "SampleCount"),
            threshold=1,
            comparison=cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
            evaluation_periods=MISSED_SWEEPS,
            missing_data=cloudwatch.TreatMissingData.BREACHING,
            topic=self._topic,
        )

        OperatorAlarm(
            self,
            f"{cluster.name}ReplicasHeldByFloor",
            name=self._names.cluster_alarm(cluster.name, "replicas-held-by-floor"),
            summary=f"Too few replicas of {cluster.name} are good: some serve although they lag.",
            runbook="replicas-held-by-floor",
            metric=self._replica_metric(cluster, Metric.REPLICAS_HELD_BY_FLOOR, "Maximum"),
            topic=self._topic,
        )

    def _cluster_widgets(self, cluster: Cluster) -> list[cloudwatch.IWidget]:
        period = Duration.minutes(cluster.forecast.schedule_minutes)
        load = cluster.load_metric
        measured = cloudwatch.Metric(
            namespace=load.namespace,
            metric_name=load.name,
            dimensions_map=dict(load.dimensions),
            statistic=load.statistic,
            period=Duration.seconds(load.period_seconds),
            label="measured",
        )
        return [
            cloudwatch.GraphWidget(
                title=f"{cluster.name}: load, measured and forecast within the lead time",
                left=[measured, self._metric(cluster, Metric.FORECAST_LOAD, "Maximum", period)],
                width=WIDGET_WIDTH,
            ),
            cloudwatch.GraphWidget(
                title=f"{cluster.name}: replicas short (scale_out) and surplus (scale_in)",
                left=[
                    self._metric(cluster, Metric.REPLICA_SHORTAGE, "Maximum", period),
                    self._metric(cluster, Metric.REPLICA_SURPLUS, "Maximum", period),
                ],
                width=WIDGET_WIDTH,
            ),
            cloudwatch.GraphWidget(
                title=f"{cluster.name}: replicas required and serving",
                left=[
                    self._metric(cluster, Metric.REQUIRED_REPLICAS, "Maximum", period),
                    self._metric(cluster, Metric.SERVING_REPLICAS, "Minimum", period),
                ],
                width=WIDGET_WIDTH,
            ),
            cloudwatch.GraphWidget(
                title=f"{cluster.name}: lead time, and how often the forecast covered the load",
                left=[self._metric(cluster, Metric.LEAD_TIME_SECONDS, "Maximum", period)],
                right=[self._metric(cluster, Metric.FORECAST_COVERAGE, "Minimum", period)],
                width=WIDGET_WIDTH,
            ),
            cloudwatch.GraphWidget(
                title=f"{cluster.name}: replicas that serve, are held by the floor, or do not report; greatest lag",
                left=[
                    self._replica_metric(cluster, Metric.REPLICAS_SERVING, "Minimum"),
                    self._replica_metric(cluster, Metric.REPLICAS_HELD_BY_FLOOR, "Maximum"),
                    self._replica_metric(cluster, Metric.REPLICAS_UNREPORTED, "Maximum"),
                ],
                right=[self._replica_metric(cluster, Metric.REPLICA_LAG_SECONDS_MAX, "Maximum")],
                width=WIDGET_WIDTH,
            ),
        ]

    def _workflow_widgets(self, state_machines: list[str]) -> list[cloudwatch.IWidget]:
        return [
            cloudwatch.GraphWidget(
                title=f"{name}: executions",
                left=[
                    cloudwatch.Metric(
                        namespace="AWS/States",
                        metric_name=metric,
                        dimensions_map={"StateMachineArn": self._names.state_machine_arn(name)},
                        statistic="Sum",
                        period=Duration.minutes(5),
                    )
                    for metric in ("ExecutionsStarted", "ExecutionsSucceeded", "ExecutionsFailed")
                ],
                width=24 // max(1, len(state_machines)),
            )
            for name in state_machines
        ]

    def _function_widgets(self) -> list[cloudwatch.IWidget]:
        def series(metric: str, statistic: str) -> list[cloudwatch.IMetric]:
            return [
                cloudwatch.Metric(
                    namespace="AWS/Lambda",
                    metric_name=metric,
                    dimensions_map={"FunctionName": self._names.function(definition.name)},
                    statistic=statistic,
                    period=Duration.minutes(5),
                    label=definition.name,
                )
                for definition in FUNCTIONS
            ]

        return [
            cloudwatch.GraphWidget(
                title="Functions: errors", left=series("Errors", "Sum"), width=WIDGET_WIDTH
            ),
            cloudwatch.GraphWidget(
                title="Functions: longest duration", left=series("Duration", "Maximum"), width=WIDGET_WIDTH
            ),
        ]

    def _replica_metric(self, cluster: Cluster, metric: Metric, statistic: str) -> cloudwatch.Metric:
        """A metric of check_replicas, written through Powertools, which adds the service."""
        return cloudwatch.Metric(
            namespace=self._names.metric_namespace,
            metric_name=metric.value,
            dimensions_map={CLUSTER_DIMENSION: cluster.name, SERVICE_DIMENSION: SERVICE},
            statistic=statistic,
            period=Duration.minutes(cluster.health.check_minutes),
        )

    def _sweep_metric(self, cluster: Cluster, metric: Metric, statistic: str) -> cloudwatch.Metric:
        """A metric of sweep_orphans, written through Powertools, which adds the service."""
        return cloudwatch.Metric(
            namespace=self._names.metric_namespace,
            metric_name=metric.value,
            dimensions_map={CLUSTER_DIMENSION: cluster.name, SERVICE_DIMENSION: SERVICE},
            statistic=statistic,
            period=SWEEP_EVERY,
        )

    def _metric(
        self, cluster: Cluster, metric: Metric, statistic: str, period: Duration
    ) -> cloudwatch.Metric:
        return cloudwatch.Metric(
            namespace=self._names.metric_namespace,
            metric_name=metric.value,
            dimensions_map={CLUSTER_DIMENSION: cluster.name},
            statistic=statistic,
            period=period,
        )
