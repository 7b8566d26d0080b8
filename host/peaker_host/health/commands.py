"""The commands about what the health responder answers, and the responder itself."""

from __future__ import annotations

import argparse
from typing import Any, Dict

from peaker_host.machine.command import Command, Context, Parameter, port
from peaker_host.machine.errors import InvalidArgument


def health_policy(text: str) -> Dict[str, Any]:
    """Reads the responder's policy from JSON; a wrong field is named."""
    from peaker_host.health.policy import parse_policy

    try:
        return parse_policy(text)
    except InvalidArgument as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _report_health(context: Context) -> Dict[str, Any]:
    from peaker_host.database.client_statements import measure_reads
    from peaker_host.database.mysql_client import admin_client
    from peaker_host.database.page_load import restore_dump_settings, temporary_capacities
    from peaker_host.health.responder import report_health

    client = admin_client(context.machine)
    restore_dump_settings(client, context.machine)
    temporary_capacities(context.machine).restore_of_killed(client)
    reported = report_health(context.machine, context.arguments.health)
    return {**reported, **measure_reads(context.machine, client)}


def _set_maintenance(context: Context) -> Dict[str, Any]:
    from peaker_host.health.responder import set_maintenance

    return set_maintenance(context.machine, context.arguments.maintenance == "on")


def _health(context: Context) -> Dict[str, Any]:
    from peaker_host.health import server
    from peaker_host.health.unit import health_client

    client = health_client(context.machine)
    return server.run(context.machine, client, context.arguments.port, context.say)


COMMANDS = (
    Command(
        "report_health",
        "Store what the health responder goes by, and say what it answers now",
        '--run-id R --health \'{"peers":[{"instance_id":"i-0a1b2c3d4e5f60718","address":"10.77.2.11"}]}\'',
        _report_health,
        (Parameter("--health", "what the health responder goes by, JSON", health_policy, {}),),
    ),
    Command(
        "set_maintenance",
        "Make the health responder answer 404",
        "--run-id R --maintenance on",
        _set_maintenance,
        (Parameter("--maintenance", "on: out of service; off: as its samples are", choices=("on", "off")),),
    ),
    Command(
        "health",
        "Answer health probes until stopped",
        "--port 9200",
        _health,
        (Parameter("--port", "where the load balancer and the peers ask", port, 9200),),
        of_a_run=False,
    ),
)
