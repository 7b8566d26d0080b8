"""The commands about the host's volumes."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Dict

from peaker_host.machine.arguments import positive
from peaker_host.machine.command import Command, Context, Parameter


def _assemble_storage(context: Context) -> Dict[str, Any]:
    from peaker_host.machine import manifest

    arguments = context.arguments
    members = manifest.parse_volumes(arguments.volumes)
    made = manifest.assemble(context.settings, arguments.run_id, members, arguments.wait_seconds, context.say)
    return {
        "members": [asdict(member) for member in made.members],
        "bytes": sum(member.size_bytes for member in made.members),
    }


COMMANDS = (
    Command(
        "assemble_storage",
        "Wait for the volumes and check that they are the right ones",
        '--run-id R --volumes \'[{"name":"data","volume_id":"vol-0a1b2c3d4e5f60718",'
        '"device":"/dev/sdf","mount_point":"/var/lib/mysql","filesystem":"xfs"}]\'',
        _assemble_storage,
        (
            Parameter("--volumes", "JSON list of name, volume_id, device, mount_point, filesystem"),
            Parameter("--wait-seconds", "how long a volume may take to appear", positive, 120.0),
        ),
    ),
)
