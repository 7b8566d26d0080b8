"""Cluster routes start runs and checks of one cluster: its two starting alarms, their rules, its schedules."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_events as events
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from constructs import Construct

from environments.schema import Cluster
from peaker_contract.metrics import Metric
from stacks.constructs.cluster_widgets import SWEEP_EVERY, ClusterMetrics
from stacks.constructs.event_route import EventRoute, SharedFunction, SharedWorkflow
from stacks.constructs.operator_alarm import runbook_description
from stacks.naming import Names

SCHEDULED_CHECK = Duration.hours(1)
# An alarm's event is still worth acting on after this long; the scheduled check covers the rest.
LONGEST_ALARM_EVENT_AGE_SECONDS = 3600


class ClusterRoutes(Construct):
    """Two alarms with their rules, and four schedules; they reach what is shared by its name."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        cluster: Cluster,
        topic: sns.ITopic | None,
        key: kms.IKey | None,
    ) -> None:
        super().__init__(scope, construct_id)
        self._names, self._cluster, self._topic, self._key = names, cluster, topic, key
        self._act_on_alarm(
            "replica-shortage", Metric.REPLICA_SHORTAGE, "scale_out", "fewer replicas than the load will need"
        )
        self._act_on_alarm(
            "replica-surplus", Metric.REPLICA_SURPLUS, "scale_in", "more replicas than the load needs"
        )
        self._call_on_schedule(
            "forecast",
            "forecast_load",
            f"Forecasts the load of {cluster.name}",
            Duration.minutes(cluster.forecast.schedule_minutes),
        )
        self._call_on_schedule(
            "replica-check",
            "check_replicas",
            f"Tells the replicas of {cluster.name} their peers, and hears how they stand",
            Duration.minutes(cluster.health.check_minutes),
        )
        self._call_on_schedule(
            "sweep",
            "sweep_orphans",
            f"Takes up what nobody works on any more in {cluster.name}: the event of an execution's end is best effort",
            SWEEP_EVERY,
        )
        self._route(
            "scheduled-check",
            target=SharedWorkflow("scale_out"),
            also=[SharedWorkflow("scale_in"), SharedFunction("maintain_snapshots")],
            description=f"Starts scale_out and scale_in for {cluster.name} hourly, and checks its snapshots",
            schedule=events.Schedule.rate(SCHEDULED_CHECK),
            payload={
                "cluster": cluster.name,
                "trigger": {"kind": "schedule", "at": events.EventField.time},
            },
            longest_age_seconds=int(SCHEDULED_CHECK.to_seconds()),
        )

    def _act_on_alarm(self, alarm: str, metric: Metric, workflow: str, finding: str) -> None:
        cluster = self._cluster
        name = self._names.cluster_alarm(cluster.name, alarm)
        cloudwatch.Alarm(
            self,
            metric.value,
            alarm_name=name,
            alarm_description=runbook_description(
                self, f"{cluster.name} has {finding}; starts {workflow}.", alarm
            ),
            metric=ClusterMetrics(self._names, cluster).forecast(metric),
            threshold=0,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            evaluation_periods=1,
            # I4: no answer from the forecast is no reason to add, and none to remove.
            treat_missing_data=cloudwatch.TreatMissingData.MISSING,
        )
        self._route(
            alarm,
            target=SharedWorkflow(workflow),
            description=f"Starts {workflow} when {cluster.name} has {finding}",
            pattern=events.EventPattern(
                source=["aws.cloudwatch"],
                detail_type=["CloudWatch Alarm State Change"],
                # A muted alarm says so in muteDetail; mute rules exist to keep actions from starting. `exists` looks
                # at leaves only: on the object itself it finds nothing, muted or not.
                detail={
                    "alarmName": [name],
                    "state": {"value": ["ALARM"]},
                    "muteDetail": {"mutedByArn": [{"exists": False}]},
                },
            ),
            payload={
                "cluster": cluster.name,
                "trigger": {
                    "kind": "alarm",
                    "alarm": events.EventField.from_path("$.detail.alarmName"),
                    "reason": events.EventField.from_path("$.detail.state.reason"),
                    "at": events.EventField.time,
                },
            },
            longest_age_seconds=LONGEST_ALARM_EVENT_AGE_SECONDS,
        )

    def _call_on_schedule(self, rule: str, function: str, description: str, every: Duration) -> None:
        self._route(
            rule,
            target=SharedFunction(function),
            description=description,
            schedule=events.Schedule.rate(every),
            payload={"cluster": self._cluster.name},
            longest_age_seconds=max(60, int(every.to_seconds())),
        )

    def _route(self, rule: str, **route: object) -> None:
        EventRoute(
            self,
            rule,
            names=self._names,
            rule_name=self._names.cluster_alarm(self._cluster.name, rule),
            topic=self._topic,
            key=self._key,
            **route,  # type: ignore[arg-type]
        )
