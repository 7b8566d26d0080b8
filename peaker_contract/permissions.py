"""Rights of functions on AWS, by name, and the calls by which each right changes anything there.

Left out of the calls are Peaker's own records: ledger, metrics, events, prices. A test compares them with roles.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto


class Permission(Enum):
    """One entry per narrow right; stacks/rights/permissions.py writes its statements."""

    READ_CLUSTER_SETTINGS = auto()
    READ_LEDGER = auto()
    WRITE_LEDGER = auto()
    LIST_CLUSTERS = auto()
    FOLLOW_EXECUTIONS = auto()
    LIST_EXECUTIONS = auto()
    START_SCALE_OUT = auto()
    KEEP_FORECASTS = auto()
    DESCRIBE_INSTANCES = auto()
    DESCRIBE_INSTANCE_TYPES = auto()
    DESCRIBE_IMAGES = auto()
    DESCRIBE_VOLUMES = auto()
    DESCRIBE_SNAPSHOTS = auto()
    DESCRIBE_CAPACITY_RESERVATIONS = auto()
    DESCRIBE_TARGET_HEALTH = auto()
    DESCRIBE_MANAGED_HOSTS = auto()
    CANCEL_COMMANDS = auto()
    READ_METRICS = auto()
    PUBLISH_METRICS = auto()
    READ_HOST_PACKAGE = auto()
    LIST_SNAPSHOT_BLOCKS = auto()
    PUBLISH_RUN_FILES = auto()
    CREATE_SNAPSHOTS = auto()
    LAUNCH_INSTANCES = auto()
    CREATE_VOLUMES = auto()
    CHECK_VOLUME_KEYS = auto()
    ATTACH_VOLUMES = auto()
    REGISTER_TARGETS = auto()
    DEREGISTER_TARGETS = auto()
    SET_WEIGHTS = auto()
    STOP_INSTANCES = auto()
    START_INSTANCES = auto()
    TERMINATE_INSTANCES = auto()
    DELETE_VOLUMES = auto()
    DELETE_SNAPSHOTS = auto()
    READ_PRICES = auto()
    FETCH_PRICES = auto()
    READ_QUOTAS = auto()
    TELL_OPERATORS = auto()
    PUT_EVENTS = auto()


# Every command on a host; what documents a function may send stands in its row of the catalogue.
SEND_COMMAND = "ssm:SendCommand"
# Behind a load balancer and behind a DNS name, by the kind of the read endpoint.
_OF_ENDPOINT: Mapping[str, Mapping[Permission, tuple[str, ...]]] = {
    "nlb": {
        Permission.REGISTER_TARGETS: ("elasticloadbalancing:RegisterTargets",),
        Permission.DEREGISTER_TARGETS: ("elasticloadbalancing:DeregisterTargets",),
        Permission.SET_WEIGHTS: ("elasticloadbalancing:ModifyListener",),
    },
    "route53": {
        Permission.REGISTER_TARGETS: (
            "route53:CreateHealthCheck",
            "route53:ChangeTagsForResource",
            "route53:ChangeResourceRecordSets",
            "cloudwatch:PutMetricAlarm",
        ),
        Permission.DEREGISTER_TARGETS: (
            "route53:ChangeResourceRecordSets",
            "route53:DeleteHealthCheck",
            "cloudwatch:DeleteAlarms",
        ),
        Permission.SET_WEIGHTS: ("route53:ChangeResourceRecordSets",),
    },
}
_OF_ALL: Mapping[Permission, tuple[str, ...]] = {
    Permission.TELL_OPERATORS: ("sns:Publish",),
    # The look at the shortage after a run has given its lease back.
    Permission.START_SCALE_OUT: ("states:StartExecution",),
    Permission.CANCEL_COMMANDS: ("ssm:CancelCommand",),
    Permission.PUBLISH_RUN_FILES: ("s3:PutObject",),
    # It tags the snapshots with their volumes' names in calls of their own; what else is made gets its tags at once.
    Permission.CREATE_SNAPSHOTS: ("ec2:CreateSnapshots", "ec2:CreateTags"),
    Permission.LAUNCH_INSTANCES: ("ec2:RunInstances",),
    Permission.CREATE_VOLUMES: ("ec2:CreateVolume",),
    Permission.ATTACH_VOLUMES: ("ec2:AttachVolume",),
    Permission.STOP_INSTANCES: ("ec2:StopInstances",),
    # A stopped instance keeps the group of capacity reservations that it was launched with, until it is told otherwise.
    Permission.START_INSTANCES: ("ec2:StartInstances", "ec2:ModifyInstanceCapacityReservationAttributes"),
    Permission.TERMINATE_INSTANCES: ("ec2:TerminateInstances",),
    Permission.DELETE_VOLUMES: ("ec2:DeleteVolume",),
    Permission.DELETE_SNAPSHOTS: ("ec2:DeleteSnapshot",),
}
# What takes a call back; what is not here needs nothing, or goes with what it belongs to.
UNDONE_BY = {
    "ec2:CreateSnapshots": "ec2:DeleteSnapshot",
    "ec2:RunInstances": "ec2:TerminateInstances",
    "ec2:StartInstances": "ec2:StopInstances",
    "ec2:CreateVolume": "ec2:DeleteVolume",
    "elasticloadbalancing:RegisterTargets": "elasticloadbalancing:DeregisterTargets",
    "elasticloadbalancing:ModifyListener": "elasticloadbalancing:ModifyListener",
    "route53:CreateHealthCheck": "route53:DeleteHealthCheck",
    "route53:ChangeResourceRecordSets": "route53:ChangeResourceRecordSets",
    "cloudwatch:PutMetricAlarm": "cloudwatch:DeleteAlarms",
    SEND_COMMAND: "ssm:CancelCommand",
}


def changes(permission: Permission, endpoint_kind: str) -> tuple[str, ...]:
    """IAM's names of the calls by which this permission changes anything. Raises KeyError for an unknown kind."""
    return _OF_ENDPOINT[endpoint_kind].get(permission, ()) or _OF_ALL.get(permission, ())
