"""The commands about the host's volumes."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Dict

from peaker_host.machine.command import Command, Context, Parameter, absolute_paths, positive, typed
from peaker_host.machine.errors import parsed_json
from peaker_host.machine.host_json import OF_THE_CLUSTER, image_server, settled
from peaker_host.machine.manifest import stack_document
from peaker_host.machine.settings import refuse_without_login


def _facts_in(text: str) -> Any:
    found = parsed_json(text)
    if not isinstance(found, dict):
        raise ValueError(text)
    return found


_facts = typed(_facts_in, "a JSON object")


def _assemble_storage(context: Context) -> Dict[str, Any]:
    from peaker_host.layouts.assemble import assemble
    from peaker_host.layouts.image_fit import refuse_unfit
    from peaker_host.layouts.image_sides import Image
    from peaker_host.machine import manifest

    arguments = context.arguments
    stacks = manifest.parse_stacks(arguments.layout)
    members = manifest.parse_volumes(arguments.volumes, {one.mount_point for one in stacks})
    mount_points = [member.mount_point for member in members]
    machine = settled(context, mount_points)
    said = []
    if arguments.engine:
        image = Image(machine, image_server(machine), mount_points)
        said = refuse_unfit(image, arguments.donor)
    refuse_without_login(machine)
    made = assemble(machine, arguments.run_id, members, stacks, arguments.wait_seconds, context.say)
    return {
        "members": [asdict(member) for member in made.members],
        "bytes": sum(member.size_bytes for member in made.members),
        "layouts": {point: kind_at(made, point) for point in made.mount_points},
        "image": said,
    }


def kind_at(manifest: Any, mount_point: str) -> str:
    stack = manifest.stack_at(mount_point)
    return "single" if stack is None else str(stack.kind)


def _describe_storage(context: Context) -> Dict[str, Any]:
    from peaker_host.layouts.discover import discover

    found = discover(context.machine, context.arguments.mount_points)
    return {"layout": [stack_document(stack) for stack in found]}


COMMANDS = (
    Command(
        "assemble_storage",
        "Wait for the volumes and check that they are the right ones",
        '--run-id R --volumes \'[{"name":"data","volume_id":"vol-0a1b2c3d4e5f60718",'
        '"device":"/dev/sdf","mount_point":"/var/lib/mysql","filesystem":"xfs"}]\'',
        _assemble_storage,
        (
            Parameter(
                "--volumes",
                "JSON list of name, volume_id, device, mount_point, filesystem, and in a set source",
            ),
            Parameter(
                "--layout",
                "the set manifest that prepare_donor gave, JSON; empty for single volumes",
                default="",
            ),
            Parameter("--donor", "the donor's facts that prepare_donor gave, JSON", _facts, {}),
            Parameter("--wait-seconds", "how long a volume may take to appear", positive, 120.0),
            *OF_THE_CLUSTER,
        ),
        fenced=True,
        alone=True,
    ),
    Command(
        "describe_storage",
        "Say what the filesystems of this host stand on: volumes, arrays, logical volumes",
        "--mount-points /var/lib/mysql,/var/lib/mysql-log",
        _describe_storage,
        (Parameter("--mount-points", "where they are mounted, separated by commas", absolute_paths),),
        of_a_run=False,
    ),
)
