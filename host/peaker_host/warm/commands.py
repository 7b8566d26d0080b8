"""The commands of the prewarm."""

from __future__ import annotations

from typing import Any, Dict

from peaker_host.machine.command import Command, Context, Parameter, not_negative
from peaker_host.warm.reading_order import PrewarmRequest


def _request(context: Context) -> PrewarmRequest:
    given = context.arguments
    return PrewarmRequest(given.run_id, given.background_rate_mib_per_s, given.remainder_rate_mib_per_s)


def _start_prewarm(context: Context) -> Dict[str, Any]:
    from peaker_host.warm import control

    url, path = context.arguments.block_list_url, context.arguments.settings
    return control.start(context.machine, _request(context), url, path)


def _prewarm(context: Context) -> Dict[str, Any]:
    from peaker_host.warm.engine import Engine

    engine = Engine(context.machine, _request(context), context.say)
    engine.stop_on_signals()
    return engine.run()


def _report_prewarm(context: Context) -> Dict[str, Any]:
    from peaker_host.warm import control

    return control.report(context.machine, context.arguments.run_id)


_OF_A_PREWARM = (
    Parameter(
        "--background-rate-mib-per-s",
        "per volume, once its hot and recovery blocks are read; 0 goes on as before",
        not_negative,
        0.0,
    ),
    Parameter(
        "--remainder-rate-mib-per-s",
        "per volume, for the rest of the snapshot, once the volume is mounted; 0 leaves it out",
        not_negative,
        0.0,
    ),
)
COMMANDS = (
    Command(
        "start_prewarm",
        "Start the prewarm engine in the background, or say that it runs",
        "--run-id R --remainder-rate-mib-per-s 8",
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
        "--run-id R",
        _prewarm,
        _OF_A_PREWARM,
    ),
    Command("report_prewarm", "Say how far the prewarm is", "--run-id R", _report_prewarm),
)
