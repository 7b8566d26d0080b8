"""A Route 53 health check per replica, on an alarm on what check_replicas hears of it.

Route 53's own checkers are on the public internet and reach no private replica; a CLOUDWATCH_METRIC health check
follows an alarm's metric instead (botocore, route53:HealthCheckConfig). Without data a replica is unhealthy (I4).
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, cast
from uuid import uuid4

from peaker.adapters.aws_errors import translated
from peaker.domain.replicas.inventory import TargetHealth, TargetState
from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import ResourceNotFound
from peaker_contract.metrics import (
    CLUSTER_DIMENSION,
    INSTANCE_DIMENSION,
    SERVICE,
    SERVICE_DIMENSION,
    Metric,
    namespace,
)
from peaker_contract.names import CLUSTER_TAG, OWNER_TAG, replica_alarm_prefix

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch import CloudWatchClient
    from mypy_boto3_route53 import Route53Client
    from mypy_boto3_route53.literals import CloudWatchRegionType
    from mypy_boto3_route53.type_defs import AlarmIdentifierTypeDef, TagTypeDef

_STATES = {"OK": TargetState.HEALTHY, "ALARM": TargetState.UNHEALTHY}
PERIODS_TO_ALARM = 2


class ReplicaHealthChecks:
    """Alarm and health check of each replica; both have the alarm's name."""

    def __init__(self, route53: Route53Client, cloudwatch: CloudWatchClient) -> None:
        self._route53 = route53
        self._cloudwatch = cloudwatch

    def ensure(self, settings: ClusterSettings, instance_id: str) -> str:
        """Make alarm and health check, or find them; returns the health check's id."""
        self._put_alarm(settings, instance_id)
        found = self._find(settings, instance_id)
        health_check_id = found[0] if found else self._create(settings, instance_id)
        tags = {**_tags(settings), "Name": alarm_name(settings, instance_id)}
        with translated("route53:ChangeTagsForResource"):
            self._route53.change_tags_for_resource(
                ResourceType="healthcheck", ResourceId=health_check_id, AddTags=_listed(tags)
            )
        return health_check_id

    def remove(self, settings: ClusterSettings, instance_id: str) -> None:
        """Delete its health checks, then the alarm. What is not there is not an error.

        There are two after a call whose answer was lost and that was repeated before the first showed in the list.
        """
        for health_check_id in self._find(settings, instance_id):
            with suppress(ResourceNotFound), translated("route53:DeleteHealthCheck"):
                self._route53.delete_health_check(HealthCheckId=health_check_id)
        with suppress(ResourceNotFound), translated("cloudwatch:DeleteAlarms"):
            self._cloudwatch.delete_alarms(AlarmNames=[alarm_name(settings, instance_id)])

    def states(self, settings: ClusterSettings) -> dict[str, TargetHealth]:
        """Returns the health that the alarms show, by instance id; an alarm without data yet is INITIAL."""
        prefix = alarm_prefix(settings)
        pages = self._cloudwatch.get_paginator("describe_alarms").paginate(AlarmNamePrefix=prefix)
        found: dict[str, TargetHealth] = {}
        with translated("cloudwatch:DescribeAlarms"):
            for page in pages:
                for alarm in page["MetricAlarms"]:
                    state = _STATES.get(alarm["StateValue"], TargetState.INITIAL)
                    instance_id = alarm["AlarmName"].removeprefix(prefix)
                    found[instance_id] = TargetHealth(state, alarm.get("StateReason", ""))
        return found

    def _put_alarm(self, settings: ClusterSettings, instance_id: str) -> None:
        """Put the alarm; one that is there keeps its state (cloudwatch:PutMetricAlarm)."""
        dimensions = {
            CLUSTER_DIMENSION: settings.name,
            INSTANCE_DIMENSION: instance_id,
            SERVICE_DIMENSION: SERVICE,
        }
        with translated("cloudwatch:PutMetricAlarm"):
            self._cloudwatch.put_metric_alarm(
                AlarmName=alarm_name(settings, instance_id),
                AlarmDescription=f"{instance_id} does not serve; its record leaves {settings.name}'s DNS answers.",
                Namespace=namespace(settings.environment),
                MetricName=Metric.REPLICA_SERVES.value,
                Dimensions=[{"Name": name, "Value": value} for name, value in dimensions.items()],
                Statistic="Minimum",
                Period=settings.health.check_minutes * 60,
                EvaluationPeriods=PERIODS_TO_ALARM,
                Threshold=1.0,
                ComparisonOperator="LessThanThreshold",
                TreatMissingData="breaching",
                Tags=[{"Key": key, "Value": value} for key, value in _tags(settings).items()],
            )

    def _find(self, settings: ClusterSettings, instance_id: str) -> list[str]:
        """The ids of the health checks that follow the replica's alarm."""
        wanted = _alarm_identifier(settings, instance_id)
        pages = self._route53.get_paginator("list_health_checks").paginate()
        with translated("route53:ListHealthChecks"):
            return [
                check["Id"]
                for page in pages
                for check in page["HealthChecks"]
                if check["HealthCheckConfig"].get("AlarmIdentifier") == wanted
            ]

    def _create(self, settings: ClusterSettings, instance_id: str) -> str:
        # A reference that a deleted health check had is refused for days, and a replica may come back:
        # each try has its own, and one whose answer was lost is found by its alarm.
        with translated("route53:CreateHealthCheck"):
            answer = self._route53.create_health_check(
                CallerReference=f"{instance_id}-{uuid4().hex}",
                HealthCheckConfig={
                    "Type": "CLOUDWATCH_METRIC",
                    "AlarmIdentifier": _alarm_identifier(settings, instance_id),
                    "InsufficientDataHealthStatus": "Unhealthy",
                },
            )
        return str(answer["HealthCheck"]["Id"])


def alarm_prefix(settings: ClusterSettings) -> str:
    """Returns the beginning of the alarms' names; the instance id follows."""
    return replica_alarm_prefix(settings.environment, settings.name)


def alarm_name(settings: ClusterSettings, instance_id: str) -> str:
    """The name of a replica's alarm."""
    return f"{alarm_prefix(settings)}{instance_id}"


def _alarm_identifier(settings: ClusterSettings, instance_id: str) -> AlarmIdentifierTypeDef:
    return {
        "Region": cast("CloudWatchRegionType", settings.region),
        "Name": alarm_name(settings, instance_id),
    }


def _tags(settings: ClusterSettings) -> dict[str, str]:
    return {OWNER_TAG: settings.environment, CLUSTER_TAG: settings.name}


def _listed(tags: dict[str, str]) -> list[TagTypeDef]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]
