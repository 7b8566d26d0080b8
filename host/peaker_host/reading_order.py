"""In which order the blocks of a volume are read: tiers of block ranges, each block in one tier only.

hot: blocks that hold pages of the donor's buffer pool, most pages first. recovery: redo, undo, system
tablespace, data dictionary: what mysqld touches before it answers. used: the rest that the filesystem has
allocated. remainder: what is left of the snapshot, when asked for.
"""

from __future__ import annotations

import os
import struct
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Dict, Iterable, List, Optional, Tuple

from peaker_host.block_ranges import (
    BLOCK_BYTES,
    Range,
    blocks_of_bytes,
    difference,
    each_block,
    intersection,
    merged,
    total,
)
from peaker_host.filesystem_maps import FileEntry, FileExtents, FilesystemMap, device_ranges

METHODS = ("hot", "used", "full", "blocks")
URGENT_TIERS = ("hot", "recovery")
"""What a database needs before it may serve."""
PAGE_LIST_FILE = "ib_buffer_pool"
_HEADER_BYTES = 4096
_HEADER_READERS = 32
_SPACE_ID_OFFSET = 34
_FLAGS_OFFSET = 54
_DEFAULT_PAGE_BYTES = 16384
# Written ahead as spares; the server reads them never.
_SPARE_REDO_SUFFIX = "_tmp"
_RECOVERY_PREFIXES = (
    "#innodb_redo/",
    "#innodb_undo/",
    "#ib_16384_",
    "ib_logfile",
    "ibdata",
    "undo_",
    "undo00",
    "aria_log",
)
_RECOVERY_FILES = ("mysql.ibd",)


@dataclass(frozen=True)
class Tier:
    """One step of the order: a name and block ranges in reading order."""

    name: str
    ranges: List[Range]


@dataclass(frozen=True)
class Tablespace:
    """A tablespace file: its id, the size of its pages on disk, and where it lies."""

    space_id: int
    page_bytes: int
    extents: FileExtents


def order_full(size_bytes: int) -> List[Tier]:
    """Every block of the device."""
    return [Tier("full", blocks_of_bytes([(0, size_bytes)]))]


def order_blocks(listed: List[Range], size_bytes: int) -> List[Tier]:
    """The blocks that the snapshot holds."""
    return [Tier("snapshot", intersection(listed, blocks_of_bytes([(0, size_bytes)])))]


def order_used(
    used: List[Range],
    listed: Optional[List[Range]],
    hot: List[Range],
    recovery: List[Range],
    with_remainder: bool,
    size_bytes: int,
) -> List[Tier]:
    """Hot, recovery, used and (when asked for) remainder; all but the last only where the filesystem has data.

    `used`, `hot` and `recovery` are block ranges; `listed` cuts all of them when the snapshot's list is known.
    """
    everything = blocks_of_bytes([(0, size_bytes)])
    present = everything if listed is None else intersection(listed, everything)
    wanted = intersection(used, present)
    tiers = []
    for name, ranges in (("hot", hot), ("recovery", recovery), ("used", wanted)):
        kept = _ordered_intersection(ranges, wanted)
        tiers.append(Tier(name, kept))
        wanted = difference(wanted, kept)
    if with_remainder:
        taken = [block_range for tier in tiers for block_range in tier.ranges]
        tiers.append(Tier("remainder", difference(present, taken)))
    return tiers


def parse_page_list(text: str) -> List[Tuple[int, int]]:
    """(space id, page number) of each line of an ib_buffer_pool file; lines that are not pairs are left out."""
    pages = []
    for line in text.splitlines():
        space, comma, page = line.partition(",")
        if comma and space.strip().isdigit() and page.strip().isdigit():
            pages.append((int(space), int(page)))
    return pages


def hot_blocks(pages: Iterable[Tuple[int, int]], tablespaces: Iterable[Tablespace]) -> List[Range]:
    """Blocks that hold hot pages, those with most of them first, equal ones in device order."""
    spaces = {space.space_id: _ExtentIndex(space) for space in tablespaces}
    counts: Counter[int] = Counter()
    for space_id, page in pages:
        if space_id in spaces:
            for block in spaces[space_id].blocks_of_page(page):
                counts[block] += 1
    ordered = sorted(counts, key=lambda block: (-counts[block], block))
    return _coalesced(ordered)


def recovery_blocks(entries: Iterable[FileEntry], extents: Dict[str, FileExtents]) -> List[Range]:
    """Blocks of the files that the server reads before it answers."""
    ranges = []
    for entry in entries:
        if is_recovery_file(entry.path):
            ranges += [(offset, length) for _, offset, length in extents.get(entry.path, [])]
    return blocks_of_bytes(ranges)


def is_recovery_file(path: str) -> bool:
    """Redo, doublewrite, undo, system tablespace, data dictionary."""
    if path.startswith("#innodb_redo/") and path.endswith(_SPARE_REDO_SUFFIX):
        return False
    return path in _RECOVERY_FILES or path.startswith(_RECOVERY_PREFIXES)


def is_tablespace_file(path: str) -> bool:
    """A file of InnoDB pages whose first page names its space id."""
    name = os.path.basename(path)
    return name.endswith((".ibd", ".ibu")) or name.startswith(("ibdata", "undo"))


def parse_tablespace_header(header: bytes, engine: str) -> Tuple[int, int]:
    """(space id, page size on disk) from the first bytes of a tablespace's page 0 (fil0fil.h, fsp0types.h)."""
    space_id = struct.unpack_from(">I", header, _SPACE_ID_OFFSET)[0]
    flags = struct.unpack_from(">I", header, _FLAGS_OFFSET)[0]
    if engine == "mariadb" and flags & 0x10:
        return space_id, 512 << (flags & 0xF)
    compressed, page_shift = (flags >> 1) & 0xF, (flags >> 6) & 0xF
    if compressed:
        return space_id, 512 << compressed
    return space_id, 512 << page_shift if page_shift else _DEFAULT_PAGE_BYTES


def read_tablespaces(path: str, extents: Dict[str, FileExtents], engine: str) -> List[Tablespace]:
    """The headers of all tablespace files, read from the device in parallel (each may be a cold block)."""
    files = [(name, where) for name, where in extents.items() if is_tablespace_file(name) and where]
    found: List[Tablespace] = []
    lock = threading.Lock()
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def read(where: FileExtents) -> None:
        first = min(where)
        if first[0] != 0:
            return
        space_id, page_bytes = parse_tablespace_header(os.pread(descriptor, _HEADER_BYTES, first[1]), engine)
        with lock:
            found.append(Tablespace(space_id, page_bytes, where))

    try:
        with ThreadPoolExecutor(_HEADER_READERS) as readers:
            for done in [readers.submit(read, where) for _, where in files]:
                done.result()
    finally:
        os.close(descriptor)
    return found


def read_file(path: str, extents: FileExtents) -> bytes:
    """A small file's content, read from the unmounted device; padded with zeros to its last block."""
    content = bytearray()
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for offset, device_offset, length in sorted(extents):
            content.extend(b"\0" * (offset - len(content)))
            content.extend(os.pread(descriptor, length, device_offset))
    finally:
        os.close(descriptor)
    return bytes(content)


def database_tiers(
    path: str, filesystem: FilesystemMap, engine: str, with_hot: bool = True
) -> Tuple[List[Range], List[Range]]:
    """(hot blocks, recovery blocks) of a volume with a data directory or logs in its root."""
    entries = [entry for entry in filesystem.files() if _matters(entry.path)]
    extents = filesystem.file_extents(entries)
    recovery = recovery_blocks(entries, extents)
    if not with_hot or PAGE_LIST_FILE not in extents:
        return [], recovery
    pages = parse_page_list(read_file(path, extents[PAGE_LIST_FILE]).rstrip(b"\0").decode("ascii", "replace"))
    wanted = {space for space, _ in pages}
    spaces = [space for space in read_tablespaces(path, extents, engine) if space.space_id in wanted]
    return hot_blocks(pages, spaces), recovery


def count_blocks(tiers: Iterable[Tier]) -> int:
    """Number of blocks in all tiers."""
    return sum(total(tier.ranges) for tier in tiers)


class _ExtentIndex:
    """Finds the blocks of one page after another in a tablespace."""

    def __init__(self, space: Tablespace) -> None:
        self._space = space

    def blocks_of_page(self, page: int) -> Iterable[int]:
        offset = page * self._space.page_bytes
        return each_block(blocks_of_bytes(device_ranges(self._near(offset), offset, self._space.page_bytes)))

    def _near(self, offset: int) -> FileExtents:
        """The extents that may hold the page: binary search for the last that starts at or before it."""
        extents = self._space.extents
        low, high = 0, len(extents)
        while low < high:
            middle = (low + high) // 2
            if extents[middle][0] <= offset:
                low = middle + 1
            else:
                high = middle
        end = offset + self._space.page_bytes
        stop = low
        while stop < len(extents) and extents[stop][0] < end:
            stop += 1
        return extents[max(0, low - 1) : stop]


def _matters(path: str) -> bool:
    return is_tablespace_file(path) or is_recovery_file(path) or path == PAGE_LIST_FILE


def _coalesced(blocks: Iterable[int]) -> List[Range]:
    """Neighbours that follow each other become one range; the order stays."""
    result: List[Range] = []
    for block in blocks:
        if result and block == result[-1][0] + result[-1][1]:
            result[-1] = (result[-1][0], result[-1][1] + 1)
        else:
            result.append((block, 1))
    return result


def _ordered_intersection(ranges: List[Range], allowed: List[Range]) -> List[Range]:
    """What of `ranges` is allowed, in the order of `ranges`, each block once."""
    if ranges == merged(ranges):
        return intersection(ranges, allowed)
    permitted = set(each_block(intersection(merged(ranges), allowed)))
    kept = []
    for block in each_block(ranges):
        if block in permitted:
            permitted.discard(block)
            kept.append(block)
    return _coalesced(kept)


def covers(byte_ranges: Iterable[Range], blocks: List[Range]) -> bool:
    """True when every byte of the ranges lies on one of the blocks."""
    return not difference(blocks_of_bytes(byte_ranges, BLOCK_BYTES), blocks)
