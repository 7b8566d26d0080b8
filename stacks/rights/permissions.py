"""Permissions of functions on AWS, one entry each, as narrow as AWS allows."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from peaker_contract.permissions import Permission
from stacks.rights import data, endpoint, hosts
from stacks.rights.statement import Deployment, Statement, read_only, touch_owned


def statements(permission: Permission, deployment: Deployment) -> list[Statement]:
    """The IAM statements of a permission in one environment."""
    return _BUILDERS[permission](deployment)


def _builder(permission: Permission) -> Callable[[Deployment], list[Statement]]:
    match permission:
        case Permission.READ_CLUSTER_SETTINGS:
            return data.read_cluster_settings
        case Permission.READ_LEDGER:
            return data.read_ledger
        case Permission.WRITE_LEDGER:
            return data.write_ledger
        case Permission.LIST_CLUSTERS:
            return data.list_clusters
        case Permission.FOLLOW_EXECUTIONS:
            return data.follow_executions
        case Permission.LIST_EXECUTIONS:
            return data.list_executions
        case Permission.START_SCALE_OUT:
            return data.start_scale_out
        case Permission.KEEP_FORECASTS:
            return data.keep_forecasts
        case Permission.DESCRIBE_INSTANCES:
            return read_only("ec2:DescribeInstances")
        case Permission.DESCRIBE_INSTANCE_TYPES:
            return read_only("ec2:DescribeInstanceTypes")
        case Permission.DESCRIBE_IMAGES:
            return read_only("ec2:DescribeImages")
        case Permission.DESCRIBE_VOLUMES:
            return read_only("ec2:DescribeVolumes")
        case Permission.DESCRIBE_SNAPSHOTS:
            return read_only("ec2:DescribeSnapshots")
        case Permission.DESCRIBE_CAPACITY_RESERVATIONS:
            return read_only("ec2:DescribeCapacityReservations")
        case Permission.DESCRIBE_TARGET_HEALTH:
            return endpoint.describe_target_health
        case Permission.DESCRIBE_MANAGED_HOSTS:
            return read_only("ssm:DescribeInstanceInformation")
        case Permission.CANCEL_COMMANDS:
            return hosts.cancel_commands
        case Permission.READ_METRICS:
            return read_only("cloudwatch:GetMetricData")
        case Permission.PUBLISH_METRICS:
            return data.publish_metrics
        case Permission.READ_HOST_PACKAGE:
            return data.read_host_package
        case Permission.LIST_SNAPSHOT_BLOCKS:
            return hosts.list_snapshot_blocks
        case Permission.LIST_CHANGED_BLOCKS:
            return hosts.list_changed_blocks
        case Permission.PUBLISH_RUN_FILES:
            return data.publish_run_files
        case Permission.CREATE_SNAPSHOTS:
            return hosts.create_snapshots
        case Permission.LAUNCH_INSTANCES:
            return hosts.launch_instances
        case Permission.CREATE_VOLUMES:
            return hosts.create_volumes
        case Permission.CHECK_VOLUME_KEYS:
            return hosts.check_volume_keys
        case Permission.ATTACH_VOLUMES:
            return hosts.attach_volumes
        case Permission.REGISTER_TARGETS:
            return endpoint.register_targets
        case Permission.DEREGISTER_TARGETS:
            return endpoint.deregister_targets
        case Permission.SET_WEIGHTS:
            return endpoint.set_weights
        case Permission.STOP_INSTANCES:
            return touch_owned("ec2:StopInstances", lambda deployment: deployment.ec2("instance"))
        case Permission.START_INSTANCES:
            return hosts.start_instances
        case Permission.TERMINATE_INSTANCES:
            return touch_owned("ec2:TerminateInstances", lambda deployment: deployment.ec2("instance"))
        case Permission.DELETE_VOLUMES:
            return touch_owned("ec2:DeleteVolume", lambda deployment: deployment.ec2("volume"))
        case Permission.DELETE_SNAPSHOTS:
            return touch_owned("ec2:DeleteSnapshot", lambda deployment: deployment.any_snapshot)
        case Permission.READ_PRICES:
            return data.read_prices
        case Permission.FETCH_PRICES:
            return data.fetch_prices
        case Permission.READ_QUOTAS:
            return data.read_quotas
        case Permission.TELL_OPERATORS:
            return data.tell_operators
        case _:
            assert_never(permission)


_BUILDERS = {permission: _builder(permission) for permission in Permission}
