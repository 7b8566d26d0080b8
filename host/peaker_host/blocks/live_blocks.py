"""Live blocks must be warm: the filesystem uses them and the snapshot holds them.

The engine reads by the kernel's map of the filesystem after its log was replayed. The proof draws from that map and
from the one that the filesystem's debugger shows, and within the snapshot's block list: a block that only one of them
knows is sampled like any other.

A database that is at work changes both maps: it may allocate what the snapshot holds of deleted files, which nobody had
to read. What must be warm is what was live before it began, so that is kept (live_blocks.json of the run).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from peaker_host.blocks import block_list
from peaker_host.blocks.filesystem_maps import used_or_all
from peaker_host.blocks.log_replay import replay_log
from peaker_host.blocks.ranges import Range, blocks_of_bytes, intersection, merged
from peaker_host.blocks.stack_places import on_volumes
from peaker_host.machine.devices import describe_device
from peaker_host.machine.errors import ToolMissing, UnreadableFile
from peaker_host.machine.files import read_json, write_json
from peaker_host.machine.manifest import Member
from peaker_host.machine.processes import Processes
from peaker_host.machine.settings import Settings
from peaker_host.machine.stacks import Stack
from peaker_host.machine.understanding import understood, whole

_FILE = "live_blocks.json"


@dataclass(frozen=True)
class LiveBlocks:
    """Block ranges to prove. `map_unreadable` says why no map took part.

    Without a map and without a block list `known` is False: the blocks are the whole device, and how many of them
    hold data is not known. `urgent`: what a database needs before it may serve, where that was found out.
    """

    blocks: List[Range]
    map_unreadable: str
    known: bool
    urgent: Sequence[Range] = ()


def used_bytes(
    settings: Settings, processes: Processes, run_id: str, member: Member
) -> Tuple[List[Range], str]:
    """Allocated byte ranges after a replay of the log, or the whole device and the reason.

    Raises LogNotReplayed when the filesystem cannot be mounted.
    """
    try:
        by_kernel = replay_log(settings, processes, run_id, member)
    except ToolMissing as error:
        return [(0, member.size_bytes)], f"ToolMissing: {error}"
    if by_kernel is not None:
        return by_kernel, ""
    return used_or_all(member.filesystem, member.path, member.size_bytes, processes)


def live_blocks_of(
    settings: Settings,
    processes: Processes,
    run_id: str,
    top: Member,
    stack: Optional[Stack],
    members: Sequence[Member],
) -> Dict[str, LiveBlocks]:
    """Returns the live blocks of one filesystem by volume id; `stack` is None where it lies on one volume.
    Raises LogNotReplayed.
    """
    if stack is None:
        return {top.volume_id: live_blocks(settings, processes, run_id, top)}
    return live_blocks_of_set(settings, processes, run_id, top, stack, members)


def keep_live_blocks(settings: Settings, run_id: str, found: Mapping[str, LiveBlocks]) -> None:
    """Keep, by volume id, what was live before the database began."""
    content = {
        volume_id: {
            "blocks": one.blocks,
            "map_unreadable": one.map_unreadable,
            "known": one.known,
            "urgent": list(one.urgent),
        }
        for volume_id, one in found.items()
    }
    write_json(settings.run_path(run_id, _FILE), content)


def kept_live_blocks(settings: Settings, run_id: str) -> Dict[str, LiveBlocks]:
    """Returns the kept live blocks of this run by volume id; empty where none were kept. Raises UnreadableFile."""
    path = settings.run_path(run_id, _FILE)
    with understood(
        UnreadableFile, path, "build the replica again: what was live before its database is lost"
    ):
        content: Dict[str, Any] = read_json(path) or {}
        return {
            str(volume_id): LiveBlocks(
                _ranges(one["blocks"]), str(one["map_unreadable"]), bool(one["known"]), _ranges(one["urgent"])
            )
            for volume_id, one in content.items()
        }


def _ranges(stored: Any) -> List[Range]:
    return [(whole(start, "a block"), whole(count, "a number of blocks")) for start, count in stored]


def live_blocks(settings: Settings, processes: Processes, run_id: str, member: Member) -> LiveBlocks:
    """Returns the live blocks that the proof of a single volume samples. Raises LogNotReplayed like `used_bytes`."""
    held, listed = _held(settings, run_id, member, describe_device(member.path).size_bytes)
    used, unreadable = _used_by_both(settings, processes, run_id, member)
    if unreadable:
        return LiveBlocks(held, unreadable, listed)
    return LiveBlocks(intersection(blocks_of_bytes(used), held), "", True)


def live_blocks_of_set(
    settings: Settings,
    processes: Processes,
    run_id: str,
    top: Member,
    stack: Stack,
    members: Sequence[Member],
) -> Dict[str, LiveBlocks]:
    """Returns the live blocks that the proof of each volume of a set samples, by volume id; `top` is the
    filesystem on all of them.
    """
    used, unreadable = _used_by_both(settings, processes, run_id, top)
    places = {} if unreadable else on_volumes(stack, used)
    found = {}
    for member in members:
        held, listed = _held(settings, run_id, member, member.size_bytes)
        if unreadable:
            found[member.volume_id] = LiveBlocks(held, unreadable, listed)
        else:
            blocks = intersection(blocks_of_bytes(places[member.volume_id]), held)
            found[member.volume_id] = LiveBlocks(blocks, "", True)
    return found


def _held(settings: Settings, run_id: str, member: Member, size_bytes: int) -> Tuple[List[Range], bool]:
    """Blocks that the snapshot holds, or all; and whether its list is known."""
    everything = blocks_of_bytes([(0, size_bytes)])
    listed = block_list.of_volume(block_list.of_run(settings, run_id), member.volume_id, member.name)
    return (everything if listed is None else intersection(listed, everything)), listed is not None


def _used_by_both(
    settings: Settings, processes: Processes, run_id: str, member: Member
) -> Tuple[List[Range], str]:
    by_kernel, unreadable = used_bytes(settings, processes, run_id, member)
    if unreadable:
        return by_kernel, unreadable
    by_debugger, debugger_unreadable = used_or_all(
        member.filesystem, member.path, member.size_bytes, processes
    )
    return (by_kernel if debugger_unreadable else merged([*by_kernel, *by_debugger])), ""
