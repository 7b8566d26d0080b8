"""Read endpoints: target groups and listeners by the environment's name, DNS records, health checks, their alarms."""

from __future__ import annotations

from collections.abc import Callable

from stacks.naming import Names
from stacks.rights.reach import Reach
from stacks.rights.statement import Statement, listed, read_only

NO_HEALTH_CHECK = "AWS offers no resource-level permission for making and listing health checks."
UNTAGGED_CHECKS = "Route 53 gives a health check its id, and its permissions know no condition on tags."
MADE_BY_THE_STACKS = "The load balancer's ARN ends in an id that AWS gives; its name is the environment's."
ONE_PER_REPLICA = "One alarm per replica of these clusters, whose instance id ends its name."


def describe_target_health(names: Names) -> list[Statement]:
    described = read_only("elasticloadbalancing:DescribeTargetHealth")(names)
    return [
        *(described if names.reach.balanced else []),
        *_read_records(names),
        *_of_names(names, _describe_replica_alarms),
    ]


def register_targets(names: Names) -> list[Statement]:
    return [
        *_on_balancers(names, "RegisterTargets", "targetgroup"),
        *_change_records(names, "CREATE", "DELETE"),
        *_of_names(names, _find_addresses, _make_health_checks),
    ]


def deregister_targets(names: Names) -> list[Statement]:
    return [
        *_on_balancers(names, "DeregisterTargets", "targetgroup"),
        *_change_records(names, "DELETE"),
        *_of_names(names, _delete_health_checks),
    ]


def set_weights(names: Names) -> list[Statement]:
    return [
        *_on_balancers(names, "ModifyListener", "listener"),
        *_change_records(names, "CREATE", "DELETE"),
    ]


def _on_balancers(names: Names, action: str, *kinds: str) -> list[Statement]:
    """Allows an action on the load balancers of this environment's clusters, whose names begin with the
    environment's.
    """
    prefix = names.prefix
    named = {"targetgroup": f"targetgroup/{prefix}-*", "listener": f"listener/net/{prefix}-*"}
    arns = tuple(names.arn("elasticloadbalancing", named[kind]) for kind in kinds)
    granted = Statement((f"elasticloadbalancing:{action}",), arns, wildcard_reason=MADE_BY_THE_STACKS)
    return [granted] if names.reach.balanced else []


def _of_names(names: Names, *parts: Callable[[Names], list[Statement]]) -> list[Statement]:
    """Returns the rights that only environments with a cluster behind a DNS name need."""
    return [statement for part in parts for statement in part(names)] if names.reach.by_name else []


def _hosted_zone_arns(names: Names) -> tuple[str, ...]:
    return tuple(names.hosted_zone_arn(zone) for zone in names.reach.hosted_zones)


def _read_records(names: Names) -> list[Statement]:
    zones = _hosted_zone_arns(names)
    return [listed(("route53:ListResourceRecordSets",), zones)] if zones else []


def _change_records(names: Names, *actions: str) -> list[Statement]:
    """Allows changes of the clusters' own names alone, and of A records alone."""
    if not names.reach.by_name:
        return []
    return [*_read_records(names), records_of_clusters(names, names.reach, *actions)]


def records_of_clusters(names: Names, reach: Reach, *actions: str) -> Statement:
    """Change A records of the names that clusters are read by, in their zones."""
    return listed(
        ("route53:ChangeResourceRecordSets",),
        tuple(names.hosted_zone_arn(zone) for zone in reach.hosted_zones),
        {
            "ForAllValues:StringLike": {
                "route53:ChangeResourceRecordSetsNormalizedRecordNames": list(reach.record_patterns)
            },
            "ForAllValues:StringEquals": {
                "route53:ChangeResourceRecordSetsRecordTypes": ["A"],
                "route53:ChangeResourceRecordSetsActions": list(actions),
            },
        },
    )


def _find_addresses(names: Names) -> list[Statement]:
    return read_only("ec2:DescribeInstances")(names)


def _replica_alarm_arns(names: Names) -> tuple[str, ...]:
    return (names.replica_alarm_arns("*"),)


def _describe_replica_alarms(names: Names) -> list[Statement]:
    by_prefix = "Describing alarms by the beginning of their names is authorized on all alarms of the region."
    return [
        Statement(
            ("cloudwatch:DescribeAlarms",),
            (names.arn("cloudwatch", "alarm:*"),),
            wildcard_reason=by_prefix,
        )
    ]


def _make_health_checks(names: Names) -> list[Statement]:
    return [
        *replica_alarms(_replica_alarm_arns(names)),
        Statement(
            ("route53:CreateHealthCheck", "route53:ListHealthChecks"), ("*",), wildcard_reason=NO_HEALTH_CHECK
        ),
        Statement(
            ("route53:ChangeTagsForResource",),
            (_any_health_check(names),),
            wildcard_reason=UNTAGGED_CHECKS,
        ),
    ]


def replica_alarms(arns: tuple[str, ...]) -> list[Statement]:
    """Alarms that act on nothing: an action of EC2's could stop or end a host."""
    without_actions = {"Null": {"cloudwatch:AlarmActions": "true"}}
    return [
        Statement(("cloudwatch:PutMetricAlarm",), arns, without_actions, ONE_PER_REPLICA),
        Statement(("cloudwatch:TagResource",), arns, wildcard_reason=ONE_PER_REPLICA),
    ]


def _delete_health_checks(names: Names) -> list[Statement]:
    return [
        Statement(("cloudwatch:DeleteAlarms",), _replica_alarm_arns(names), wildcard_reason=ONE_PER_REPLICA),
        Statement(("route53:ListHealthChecks",), ("*",), wildcard_reason=NO_HEALTH_CHECK),
        Statement(
            ("route53:DeleteHealthCheck",), (_any_health_check(names),), wildcard_reason=UNTAGGED_CHECKS
        ),
    ]


def _any_health_check(names: Names) -> str:
    return f"arn:{names.environment.partition}:route53:::healthcheck/*"
