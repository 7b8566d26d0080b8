"""The command of a direct fill."""

from __future__ import annotations

from typing import Any, Dict

from peaker_host.fill.request import FillRequest, parse_fill
from peaker_host.machine.arguments import positive
from peaker_host.machine.command import Command, Context, Parameter
from peaker_host.machine.host_json import OF_THE_CLUSTER, settled
from peaker_host.machine.replication_login import refuse_without_login


def _request(context: Context) -> FillRequest:
    arguments = context.arguments
    return parse_fill(
        arguments.run_id,
        arguments.method,
        arguments.volumes,
        arguments.snapshots,
        arguments.requests_per_second,
        arguments.changed,
    )


def _start_fill(context: Context) -> Dict[str, Any]:
    from peaker_host.fill.control import start_fill

    arguments, request = context.arguments, _request(context)
    settings = settled(context, [member.mount_point for member in request.members])
    refuse_without_login(settings)
    return start_fill(
        settings,
        context.processes,
        request,
        arguments.volumes,
        arguments.snapshots,
        arguments.settings,
        arguments.changed,
    )


def _fill_volumes(context: Context) -> Dict[str, Any]:
    from peaker_host.fill.engine import FillEngine
    from peaker_host.warm.engine import stop_on_signals

    engine = FillEngine(context.settings, context.processes, _request(context), context.say)
    stop_on_signals(engine)
    return {**engine.run(), "blocks_compared": engine.compared}


_OF_A_FILL = (
    Parameter("--volumes", "JSON list of name, volume_id, device, mount_point, filesystem"),
    Parameter("--snapshots", "JSON object: the snapshot of each volume, by the volume's name"),
    Parameter(
        "--method",
        "which blocks come first; all that the snapshots hold come",
        default="hot",
        choices=("hot", "used"),
    ),
    Parameter(
        "--requests-per-second",
        "of GetSnapshotBlock, for each snapshot; AWS allows 1,000 to all who read it",
        positive,
        900.0,
    ),
    Parameter(
        "--changed",
        "of volumes that hold an older copy: JSON object, by the volume's name a list of [earlier, later] snapshots "
        "of one volume each; only blocks that differ between the two of a pair are written",
        default="",
    ),
)
_EXAMPLE = (
    '--run-id R --snapshots \'{"data":"snap-0a1b2c3d4e5f60718"}\' --volumes \'[{"name":"data",'
    '"volume_id":"vol-0a1b2c3d4e5f60718","device":"/dev/sdf","mount_point":"/var/lib/mysql",'
    '"filesystem":"xfs"}]\''
)

COMMANDS = (
    Command(
        "start_fill",
        "Start a direct fill in the background, or say that it runs; report_prewarm says how far it is",
        _EXAMPLE,
        _start_fill,
        (*_OF_A_FILL, *OF_THE_CLUSTER),
    ),
    Command(
        "fill_volumes",
        "Write empty volumes with what snapshots hold, or older copies with what has changed, by the EBS direct APIs "
        "and with this instance's role",
        _EXAMPLE,
        _fill_volumes,
        _OF_A_FILL,
    ),
)
