"""The command of a direct fill."""

from __future__ import annotations

from typing import Any, Dict

from peaker_host.machine.arguments import positive
from peaker_host.machine.command import Command, Context, Parameter


def _fill_volumes(context: Context) -> Dict[str, Any]:
    from peaker_host.fill.engine import FillEngine
    from peaker_host.fill.request import parse_fill
    from peaker_host.warm.engine import stop_on_signals

    arguments = context.arguments
    request = parse_fill(
        arguments.run_id,
        arguments.method,
        arguments.volumes,
        arguments.snapshots,
        arguments.requests_per_second,
    )
    engine = FillEngine(context.settings, context.processes, request, context.say)
    stop_on_signals(engine)
    return {**engine.run(), "blocks_compared": engine.compared}


COMMANDS = (
    Command(
        "fill_volumes",
        "Write empty volumes with what snapshots hold, by the EBS direct APIs and with this instance's role",
        '--run-id R --snapshots \'{"data":"snap-0a1b2c3d4e5f60718"}\' --volumes \'[{"name":"data",'
        '"volume_id":"vol-0a1b2c3d4e5f60718","device":"/dev/sdf","mount_point":"/var/lib/mysql",'
        '"filesystem":"xfs"}]\'',
        _fill_volumes,
        (
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
        ),
    ),
)
