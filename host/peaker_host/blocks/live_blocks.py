"""Live blocks must be warm: the filesystem uses them and the snapshot holds them.

A database that is at work changes what is used: it may allocate what the snapshot holds of deleted files, which nobody
had to read. What must be warm is what was live before it began, so that is kept (live_blocks.json of the run).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Dict, List, Mapping, Optional, Sequence

from peaker_host.blocks import block_list
from peaker_host.blocks.ranges import Range, blocks_of_bytes, intersection
from peaker_host.blocks.stack_places import on_volumes
from peaker_host.machine.errors import UnreadableFile, decoded, understood
from peaker_host.machine.files import read_json, write_json
from peaker_host.machine.manifest import Member, Stack
from peaker_host.machine.settings import Settings

_FILE = "live_blocks.json"


@dataclass(frozen=True)
class LiveBlocks:
    """Block ranges to prove. `urgent`: what a database needs before it may serve, where that was found out."""

    blocks: List[Range]
    urgent: Sequence[Range] = ()


def live_blocks_of(
    settings: Settings,
    run_id: str,
    used: Sequence[Range],
    stack: Optional[Stack],
    members: Sequence[Member],
) -> Dict[str, LiveBlocks]:
    """Returns the live blocks of one filesystem by volume id, from its used bytes.

    `stack` is None where it lies on its one member itself.
    """
    places = {members[0].volume_id: used} if stack is None else on_volumes(stack, used)
    lists = block_list.of_run(settings, run_id)
    found = {}
    for member in members:
        present = block_list.present_blocks(lists, member.volume_id, member.name, member.size_bytes)
        found[member.volume_id] = LiveBlocks(intersection(blocks_of_bytes(places[member.volume_id]), present))
    return found


def keep_live_blocks(settings: Settings, run_id: str, found: Mapping[str, LiveBlocks]) -> None:
    """Keeps the live blocks, by volume id, of the time before the database began."""
    content = {volume_id: asdict(one) for volume_id, one in found.items()}
    write_json(settings.run_path(run_id, _FILE), content)


def kept_live_blocks(settings: Settings, run_id: str) -> Dict[str, LiveBlocks]:
    """Returns the kept live blocks of this run by volume id; empty where none were kept. Raises UnreadableFile."""
    path = settings.run_path(run_id, _FILE)
    with understood(
        UnreadableFile, path, "build the replica again: what was live before its database is lost"
    ):
        return {name: decoded(LiveBlocks, one) for name, one in (read_json(path) or {}).items()}
