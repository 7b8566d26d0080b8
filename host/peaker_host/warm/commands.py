"""The commands of the prewarm."""

from __future__ import annotations

from typing import Any, Dict

from peaker_host.machine.arguments import not_negative
from peaker_host.machine.command import Command, Context, Parameter
from peaker_host.warm.reading_orders import READING_ORDERS
from peaker_host.warm.request import PrewarmRequest, check_request


def _request(context: Context) -> PrewarmRequest:
    arguments = context.arguments
    request = PrewarmRequest(
        arguments.run_id,
        arguments.method,
        arguments.rate_limit_mib_per_s,
        arguments.remainder == "on",
        arguments.background_rate_mib_per_s,
        arguments.remainder_rate_mib_per_s,
    )
    check_request(request)
    return request


def _start_prewarm(context: Context) -> Dict[str, Any]:
    from peaker_host.warm import control

    arguments = context.arguments
    return control.start(
        context.settings,
        context.processes,
        _request(context),
        arguments.block_list_url,
        arguments.settings,
    )


def _prewarm(context: Context) -> Dict[str, Any]:
    from peaker_host.warm.engine import Engine, stop_on_signals

    engine = Engine(context.settings, context.processes, _request(context), context.say)
    stop_on_signals(engine)
    return engine.run()


def _report_prewarm(context: Context) -> Dict[str, Any]:
    from peaker_host.warm import control

    return control.report(context.settings, context.arguments.run_id)


_OF_A_PREWARM = (
    Parameter(
        "--method",
        "which blocks to read, in which order",
        default="used",
        choices=tuple(READING_ORDERS),
    ),
    Parameter("--rate-limit-mib-per-s", "per volume, 0 for none", not_negative, 0.0),
    Parameter(
        "--background-rate-mib-per-s",
        "per volume, once its hot and recovery blocks are read; 0 goes on as before",
        not_negative,
        0.0,
    ),
    Parameter(
        "--remainder",
        "read the rest of the snapshot afterwards",
        default="off",
        choices=("on", "off"),
        alone="on",
    ),
    Parameter(
        "--remainder-rate-mib-per-s",
        "per volume, for that rest, once the volume is mounted; 0 reads it at once",
        not_negative,
        0.0,
    ),
)

COMMANDS = (
    Command(
        "start_prewarm",
        "Start the prewarm engine in the background, or say that it runs",
        "--run-id R --method used --rate-limit-mib-per-s 0",
        _start_prewarm,
        (
            *_OF_A_PREWARM,
            Parameter(
                "--block-list-url",
                "where the snapshots' block list is; empty for none. A presigned address is a secret: give it as "
                "PEAKER_BLOCK_LIST_URL, for arguments are shown to every user of the host",
                default="",
                environment="PEAKER_BLOCK_LIST_URL",
            ),
        ),
        fenced=True,
        alone=True,
    ),
    Command(
        "prewarm",
        "Run the prewarm engine in the foreground",
        "--run-id R --method full",
        _prewarm,
        _OF_A_PREWARM,
    ),
    Command("report_prewarm", "Say how far the prewarm is", "--run-id R", _report_prewarm),
)
