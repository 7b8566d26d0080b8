"""What a function may be allowed to do on AWS, by name."""

from __future__ import annotations

from enum import Enum, auto


class Permission(Enum):
    """One entry per narrow right; stacks/rights/permissions.py writes its statements."""

    READ_CLUSTER_SETTINGS = auto()
    WRITE_LEDGER = auto()
    LIST_CLUSTERS = auto()
    FOLLOW_EXECUTIONS = auto()
    KEEP_FORECASTS = auto()
    DESCRIBE_INSTANCES = auto()
    DESCRIBE_INSTANCE_TYPES = auto()
    DESCRIBE_IMAGES = auto()
    DESCRIBE_VOLUMES = auto()
    DESCRIBE_SNAPSHOTS = auto()
    DESCRIBE_TARGET_HEALTH = auto()
    DESCRIBE_MANAGED_HOSTS = auto()
    CANCEL_COMMANDS = auto()
    READ_METRICS = auto()
    PUBLISH_METRICS = auto()
    READ_HOST_PACKAGE = auto()
    LIST_SNAPSHOT_BLOCKS = auto()
    LIST_CHANGED_BLOCKS = auto()
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
