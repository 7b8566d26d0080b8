"""Which blocks of a volume must be warm: those that the filesystem uses and the snapshot holds.

The engine reads by the kernel's map of the filesystem after its log was replayed. The proof draws from that map and
from the one that the filesystem's debugger shows, and within the snapshot's block list: a block that only one of them
knows is sampled like any other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import List, Tuple

from peaker_host.blocks import block_list
from peaker_host.blocks.filesystem_maps import used_or_all
from peaker_host.blocks.log_replay import replay_log
from peaker_host.blocks.ranges import Range, blocks_of_bytes, intersection, merged
from peaker_host.machine.devices import describe_device
from peaker_host.machine.errors import ToolMissing
from peaker_host.machine.manifest import Member
from peaker_host.machine.processes import Processes
from peaker_host.machine.settings import Settings


@dataclass(frozen=True)
class LiveBlocks:
    """Block ranges to prove. `map_unreadable` says why no map took part.

    Without a map and without a block list `known` is False: the blocks are the whole device, and how many of them
    hold data is not known.
    """

    blocks: List[Range]
    map_unreadable: str
    known: bool


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


def live_blocks(settings: Settings, processes: Processes, run_id: str, member: Member) -> LiveBlocks:
    """What a proof must be about. Raises LogNotReplayed like `used_bytes`."""
    everything = blocks_of_bytes([(0, describe_device(member.path).size_bytes)])
    listed = block_list.of_volume(block_list.of_run(settings, run_id), member.volume_id, member.name)
    held = everything if listed is None else intersection(listed, everything)
    by_kernel, unreadable = used_bytes(settings, processes, run_id, member)
    if unreadable:
        return LiveBlocks(held, unreadable, listed is not None)
    by_debugger, debugger_unreadable = used_or_all(
        member.filesystem, member.path, member.size_bytes, processes
    )
    used = by_kernel if debugger_unreadable else merged([*by_kernel, *by_debugger])
    return LiveBlocks(intersection(blocks_of_bytes(used), held), "", True)
