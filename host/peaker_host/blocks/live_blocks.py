"""Live blocks must be warm: the filesystem uses them and the snapshot holds them.

The engine reads by the kernel's map of the filesystem after its log was replayed. The proof draws from that map and
from the one that the filesystem's debugger shows, and within the snapshot's block list: a block that only one of them
knows is sampled like any other.

A database that is at work changes both maps: it may allocate what the snapshot holds of deleted files, which nobody had
to read. What must be warm is what was live before it began, so that is kept (live_blocks.json of the run).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from peaker_host.blocks import block_list
from peaker_host.blocks.filesystem_maps import used_or_all
from peaker_host.blocks.log_replay import replay_log
from peaker_host.blocks.ranges import Range, blocks_of_bytes, intersection, merged
from peaker_host.blocks.stack_places import on_volumes
from peaker_host.machine.errors import ToolMissing, UnreadableFile, decoded, understood
from peaker_host.machine.files import read_json, write_json
from peaker_host.machine.manifest import Member, Stack
from peaker_host.machine.settings import Machine, Settings

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


def used_bytes(machine: Machine, run_id: str, member: Member) -> Tuple[List[Range], str]:
    """Allocated byte ranges after a replay of the log, or the whole device and the reason.

    Raises LogNotReplayed when the filesystem cannot be mounted.
    """
    try:
        by_kernel = replay_log(machine, run_id, member)
    except ToolMissing as error:
        return [(0, member.size_bytes)], f"ToolMissing: {error}"
    if by_kernel is not None:
        return by_kernel, ""
    return used_or_all(member.filesystem, member.path, member.size_bytes, machine.processes)


def live_blocks_of(
    machine: Machine, run_id: str, top: Member, stack: Optional[Stack], members: Sequence[Member]
) -> Dict[str, LiveBlocks]:
    """Returns the live blocks of one filesystem by volume id; `stack` is None where it lies on one volume.

    Raises LogNotReplayed.
    """
    used, unreadable = _used_by_both(machine, run_id, top)
    places = {top.volume_id: used} if stack is None else {} if unreadable else on_volumes(stack, used)
    found = {}
    for member in members:
        held, listed = _held(machine, run_id, member)
        blocks = held if unreadable else intersection(blocks_of_bytes(places[member.volume_id]), held)
        found[member.volume_id] = LiveBlocks(blocks, unreadable, listed or not unreadable)
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


def _held(settings: Settings, run_id: str, member: Member) -> Tuple[List[Range], bool]:
    """Blocks that the snapshot holds, or all; and whether its list is known."""
    everything = blocks_of_bytes([(0, member.size_bytes)])
    listed = block_list.of_volume(block_list.of_run(settings, run_id), member.volume_id, member.name)
    return (everything if listed is None else intersection(listed, everything)), listed is not None


def _used_by_both(machine: Machine, run_id: str, member: Member) -> Tuple[List[Range], str]:
    by_kernel, unreadable = used_bytes(machine, run_id, member)
    if unreadable:
        return by_kernel, unreadable
    by_debugger, debugger_unreadable = used_or_all(
        member.filesystem, member.path, member.size_bytes, machine.processes
    )
    return (by_kernel if debugger_unreadable else merged([*by_kernel, *by_debugger])), ""
