"""The commands that make a replica of restored volumes, and end it."""

from __future__ import annotations

from typing import Any, Dict

from peaker_host.health.commands import health_policy
from peaker_host.machine.command import (
    Command,
    Context,
    Parameter,
    count,
    host_name,
    positive,
    positive_int,
    server_id,
)
from peaker_host.machine.host_json import OF_THE_CLUSTER, settled


def _start_database(context: Context) -> Dict[str, Any]:
    from peaker_host.replicate import launch

    arguments = context.arguments
    return launch.start_database(
        settled(context),
        arguments.run_id,
        arguments.server_id,
        arguments.health,
        arguments.timeout_seconds,
        context.say,
    )


def _start_replication(context: Context) -> Dict[str, Any]:
    from peaker_host.replicate import replication

    return replication.start_replication(context.machine, context.arguments.source_host, context.say)


def _wait_for_catch_up(context: Context) -> Dict[str, Any]:
    from peaker_host.replicate import replication

    arguments = context.arguments
    return replication.wait_for_catch_up(
        context.machine,
        arguments.lag_gate_seconds,
        arguments.lag_samples,
        arguments.timeout_seconds,
        context.say,
    )


def _drain_replica(context: Context) -> Dict[str, Any]:
    from peaker_host.health.responder import mark_draining
    from peaker_host.replicate import replication

    mark_draining(context.machine)
    return replication.client_activity(context.machine)


def _stop_database(context: Context) -> Dict[str, Any]:
    from peaker_host.replicate import launch

    timeout_seconds = context.arguments.timeout_seconds
    return launch.stop_database(context.machine, timeout_seconds, context.say)


def _check_mounts(context: Context) -> Dict[str, Any]:
    from peaker_host.replicate import launch

    return launch.check_mounts(context.machine, context.arguments.run_id)


COMMANDS = (
    Command(
        "check_mounts",
        "Say whether each volume is mounted at its place and takes writes",
        "--run-id R",
        _check_mounts,
    ),
    Command(
        "start_database",
        "Mount, take an own identity, start the server read-only",
        "--run-id R --server-id 3141",
        _start_database,
        (
            Parameter("--server-id", "unique in the cluster, 1 to 4294967295", server_id),
            Parameter("--health", "what the health responder goes by, JSON", health_policy, {}),
            Parameter("--timeout-seconds", "until it answers", positive, 1800.0),
            *OF_THE_CLUSTER,
        ),
        fenced=True,
        alone=True,
    ),
    Command(
        "start_replication",
        "Join the source by GTID",
        "--run-id R --source-host 10.77.0.10",
        _start_replication,
        (Parameter("--source-host", "address of the source", host_name),),
        fenced=True,
        alone=True,
    ),
    Command(
        "wait_for_catch_up",
        "Wait until the lag stays under its gate",
        "--run-id R --lag-gate-seconds 5 --lag-samples 3 --timeout-seconds 3600",
        _wait_for_catch_up,
        (
            Parameter("--lag-gate-seconds", "highest lag that passes", count, 5),
            Parameter("--lag-samples", "good samples in a row", positive_int, 3),
            Parameter("--timeout-seconds", "then it fails", positive, 3600.0),
        ),
    ),
    Command(
        "drain_replica",
        "Count client connections and transactions now",
        "--run-id R",
        _drain_replica,
        fenced=True,
    ),
    Command(
        "stop_database",
        "Shut the server down cleanly and unmount",
        "--run-id R",
        _stop_database,
        (Parameter("--timeout-seconds", "then it fails", positive, 1800.0),),
        fenced=True,
        alone=True,
    ),
)
