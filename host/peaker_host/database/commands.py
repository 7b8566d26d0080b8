"""The commands that ask the server for its memory and its clients."""

from __future__ import annotations

from typing import Any, Dict

from peaker_host.machine.command import Command, Context, Parameter, positive


def _load_buffer_pool(context: Context) -> Dict[str, Any]:
    from peaker_host.database.mysql_client import admin_client
    from peaker_host.database.page_load import load_buffer_pool

    client = admin_client(context.machine)
    return load_buffer_pool(client, context.machine, context.arguments.timeout_seconds, context.say)


def _measure_service(context: Context) -> Dict[str, Any]:
    from peaker_host.database import client_statements
    from peaker_host.database.mysql_client import admin_client

    client = admin_client(context.machine)
    return client_statements.measure_service(client, context.arguments.window_seconds)


COMMANDS = (
    Command(
        "load_buffer_pool",
        "Load the donor's hot pages into memory",
        "--run-id R",
        _load_buffer_pool,
        (Parameter("--timeout-seconds", "then it fails", positive, 1800.0),),
        fenced=True,
    ),
    Command(
        "measure_service",
        "Count what the server answers to clients, and how fast",
        "--run-id R --window-seconds 30",
        _measure_service,
        (Parameter("--window-seconds", "how long to count", positive, 30.0),),
    ),
)
