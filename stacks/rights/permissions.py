"""Permissions of functions on AWS, one entry each, as narrow as AWS allows."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from peaker_contract.permissions import Permission as P
from stacks.naming import Names
from stacks.rights import data, endpoint, hosts
from stacks.rights.statement import Statement, read_only, touch_owned

_BUILDERS: Mapping[P, Callable[[Names], list[Statement]]] = {
    P.READ_CLUSTER_SETTINGS: data.read_cluster_settings,
    P.READ_LEDGER: data.read_ledger,
    P.WRITE_LEDGER: data.write_ledger,
    P.LIST_CLUSTERS: data.list_clusters,
    P.FOLLOW_EXECUTIONS: data.follow_executions,
    P.LIST_EXECUTIONS: data.list_executions,
    P.START_SCALE_OUT: data.start_scale_out,
    P.KEEP_FORECASTS: data.keep_forecasts,
    P.DESCRIBE_INSTANCES: read_only("ec2:DescribeInstances"),
    P.DESCRIBE_INSTANCE_TYPES: read_only("ec2:DescribeInstanceTypes"),
    P.DESCRIBE_IMAGES: read_only("ec2:DescribeImages"),
    P.DESCRIBE_VOLUMES: read_only("ec2:DescribeVolumes"),
    P.DESCRIBE_SNAPSHOTS: read_only("ec2:DescribeSnapshots"),
    P.DESCRIBE_CAPACITY_RESERVATIONS: read_only("ec2:DescribeCapacityReservations"),
    P.DESCRIBE_TARGET_HEALTH: endpoint.describe_target_health,
    P.DESCRIBE_MANAGED_HOSTS: read_only("ssm:DescribeInstanceInformation"),
    P.CANCEL_COMMANDS: hosts.cancel_commands,
    P.READ_METRICS: read_only("cloudwatch:GetMetricData"),
    P.PUBLISH_METRICS: data.publish_metrics,
    P.READ_HOST_PACKAGE: data.read_host_package,
    P.LIST_SNAPSHOT_BLOCKS: hosts.list_snapshot_blocks,
    P.PUBLISH_RUN_FILES: data.publish_run_files,
    P.CREATE_SNAPSHOTS: hosts.create_snapshots,
    P.LAUNCH_INSTANCES: hosts.launch_instances,
    P.CREATE_VOLUMES: hosts.create_volumes,
    P.CHECK_VOLUME_KEYS: hosts.check_volume_keys,
    P.ATTACH_VOLUMES: hosts.attach_volumes,
    P.REGISTER_TARGETS: endpoint.register_targets,
    P.DEREGISTER_TARGETS: endpoint.deregister_targets,
    P.SET_WEIGHTS: endpoint.set_weights,
    P.STOP_INSTANCES: touch_owned("ec2:StopInstances", lambda names: names.ec2("instance")),
    P.START_INSTANCES: hosts.start_instances,
    P.TERMINATE_INSTANCES: touch_owned("ec2:TerminateInstances", lambda names: names.ec2("instance")),
    P.DELETE_VOLUMES: touch_owned("ec2:DeleteVolume", lambda names: names.ec2("volume")),
    P.DELETE_SNAPSHOTS: touch_owned("ec2:DeleteSnapshot", lambda names: names.any_snapshot),
    P.READ_PRICES: data.read_prices,
    P.FETCH_PRICES: data.fetch_prices,
    P.READ_QUOTAS: data.read_quotas,
    P.TELL_OPERATORS: data.tell_operators,
    P.PUT_EVENTS: data.put_events,
}


def statements(permission: P, names: Names) -> list[Statement]:
    """The IAM statements of a permission in one environment."""
    return _BUILDERS[permission](names)
