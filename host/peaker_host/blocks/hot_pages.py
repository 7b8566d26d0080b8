"""Hot pages map the donor's buffer pool to blocks of the volume. Pure."""

from __future__ import annotations

from typing import Dict, Iterable, List, Tuple

from peaker_host.blocks.database_files import Tablespace
from peaker_host.blocks.ranges import BLOCK_BYTES, Range, coalesced


def hot_blocks(pages: Iterable[Tuple[int, int]], tablespaces: Iterable[Tablespace]) -> List[Range]:
    """Blocks that hold hot pages, those with most of them first, equal ones in device order."""
    spaces = [space for space in tablespaces if space.extents]
    marks = {space.space_id: bytearray(_pages_of(space)) for space in spaces}
    for space_id, page in pages:
        marked = marks.get(space_id)
        if marked is not None and page < len(marked):
            marked[page] = 1
    counts: Dict[int, int] = {}
    for space in spaces:
        _count_pages(space, marks[space.space_id], counts)
    ordered = sorted(counts, key=lambda block: (-counts[block], block))
    return coalesced(ordered)


def _pages_of(space: Tablespace) -> int:
    offset, _, length = max(space.extents)
    return -(-(offset + length) // space.page_bytes)


def _count_pages(space: Tablespace, marked: bytearray, counts: Dict[int, int]) -> None:
    """Add the marked pages of one file to the blocks on which they lie."""
    for offset, device_offset, length in space.extents:
        position, end = offset, offset + length
        while position < end:
            block = (device_offset + position - offset) // BLOCK_BYTES
            stop = min(end, position + (block + 1) * BLOCK_BYTES - (device_offset + position - offset))
            hot = marked.count(1, position // space.page_bytes, -(-stop // space.page_bytes))
            if hot:
                counts[block] = counts.get(block, 0) + hot
            position = stop
