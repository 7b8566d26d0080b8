"""The dashboard over all clusters: it finds them by their metrics, so that a cluster comes and goes without it."""

from __future__ import annotations

from aws_cdk import Duration, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from peaker_contract.catalogue import FUNCTIONS
from peaker_contract.metrics import CLUSTER_DIMENSION, SERVICE_DIMENSION, Metric
from stacks.constructs.cluster_widgets import WIDGET_WIDTH
from stacks.naming import Names
from statemachines.expansion import workflow_names


class ObservabilityStack(Stack):
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        **stack: object,
    ) -> None:
        super().__init__(scope, construct_id, **stack)  # type: ignore[arg-type]
        self._names = names
        dashboard = cloudwatch.Dashboard(self, "Dashboard", dashboard_name=names.prefix)
        dashboard.add_widgets(*self._widgets_of_all_clusters())
        dashboard.add_widgets(*self._workflow_widgets())
        dashboard.add_widgets(*self._function_widgets())

    def _widgets_of_all_clusters(self) -> list[cloudwatch.IWidget]:
        """A search finds up to 500 time series (CloudWatch User Guide, "Search expression"): one per cluster."""
        return [
            self._searched("Replicas short, by cluster", Metric.REPLICA_SHORTAGE, "Maximum"),
            self._searched("Replicas to spare, by cluster", Metric.REPLICA_SURPLUS, "Maximum"),
            self._searched("Replicas serving, by cluster", Metric.SERVING_REPLICAS, "Minimum"),
            self._searched("Lead time, by cluster", Metric.LEAD_TIME_SECONDS, "Maximum"),
            self._searched(
                "Greatest lag of a replica, by cluster", Metric.REPLICA_LAG_SECONDS_MAX, "Maximum", True
            ),
            self._searched("What stopped runs left behind, by cluster", Metric.LEFTOVERS, "Maximum", True),
        ]

    def _searched(
        self, title: str, metric: Metric, statistic: str, by_powertools: bool = False
    ) -> cloudwatch.IWidget:
        """Makes a graph by a search, which names all dimensions of a metric: Powertools adds the service to
        those it writes.
        """
        dimensions = f"{CLUSTER_DIMENSION},{SERVICE_DIMENSION}" if by_powertools else CLUSTER_DIMENSION
        schema = f'{{"{self._names.metric_namespace}",{dimensions}}}'
        search = f"SEARCH('{schema} MetricName=\"{metric.value}\"', '{statistic}')"
        return cloudwatch.GraphWidget(
            title=title,
            left=[
                cloudwatch.MathExpression(
                    expression=search, label="", period=Duration.minutes(5), using_metrics={}
                )
            ],
            width=WIDGET_WIDTH,
        )

    def _workflow_widgets(self) -> list[cloudwatch.IWidget]:
        workflows = workflow_names()
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
                width=24 // len(workflows),
            )
            for name in workflows
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
