"""In which order the blocks of a volume are read: tiers of block ranges, each block in one tier only.

hot: blocks that hold pages of the donor's buffer pool, most pages first. recovery: redo, undo, system
tablespace, data dictionary: what mysqld touches before it answers. used: the rest that the filesystem has
allocated. remainder: what is left of the snapshot, when asked for.
"""

from __future__ import annotations

import os
import re
import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Callable, Dict, Iterable, Iterator, List, Optional, Tuple

from peaker_host.blocks.filesystem_maps import FileEntry, FileExtents, FilesystemMap
from peaker_host.blocks.ranges import (
    BLOCK_BYTES,
    Range,
    blocks_of_bytes,
    difference,
    each_block,
    intersection,
    merged,
    total,
)

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
_OWN_NAMES = frozenset((PAGE_LIST_FILE, "auto.cnf", "mysql.ibd", "#innodb_redo", "aria_log_control"))
_RECOVERY_PREFIXES_OF_ROOT = ("ib_logfile", "ibdata", "undo_", "undo00", "#ib_16384_")
_DEPTH = 4
_DIRECTORIES_AT_MOST = 256
_PIECE_BYTES = 4 * 1024 * 1024
_PAGE_LINE = re.compile(rb"(?m)^[ \t]*(\d+)[ \t]*,[ \t]*(\d+)[ \t\r]*$")


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


def pages_in(chunks: Iterable[bytes]) -> Iterator[Tuple[int, int]]:
    """(space id, page number) of each line of an ib_buffer_pool file; lines that are not pairs are left out.

    The file comes in pieces of any length: a list of 26 million pages is never in memory as a whole.
    """
    rest = b""
    for chunk in chunks:
        whole, newline, tail = (rest + chunk).rpartition(b"\n")
        rest = tail
        for space, page in _PAGE_LINE.findall(whole + newline):
            yield int(space), int(page)
    for space, page in _PAGE_LINE.findall(rest + b"\n"):
        yield int(space), int(page)


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
    return _coalesced(ordered)


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


def read_in_pieces(path: str, extents: FileExtents) -> Iterator[bytes]:
    """A file's content, read from the unmounted device without the zeros behind its end; holes are left out."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for _, device_offset, length in sorted(extents):
            for start in range(0, length, _PIECE_BYTES):
                piece = os.pread(descriptor, min(_PIECE_BYTES, length - start), device_offset + start)
                yield piece.rstrip(b"\0")
    finally:
        os.close(descriptor)


@dataclass(frozen=True)
class DatabaseFiles:
    """The files of a volume that matter to a server: by their paths in the data directory, wherever that lies."""

    entries: List[FileEntry]
    extents: Dict[str, FileExtents]

    @property
    def page_list(self) -> FileExtents:
        """Where the donor's list of hot pages lies; empty where there is none."""
        return self.extents.get(PAGE_LIST_FILE, [])


def find_database(filesystem: FilesystemMap) -> DatabaseFiles:
    """Look through the volume from its root; a data or log directory may lie some directories down."""
    entries: List[FileEntry] = []
    for root in _database_roots(filesystem):
        for entry in filesystem.files(root):
            relative = os.path.relpath(entry.path, root) if root else entry.path
            if _matters(relative):
                entries.append(FileEntry(relative, entry.inode))
    return DatabaseFiles(entries, filesystem.file_extents(entries))


def _database_roots(filesystem: FilesystemMap) -> List[str]:
    """Directories that a server keeps files in: the first on each way down that holds one of its own."""
    found: List[str] = []
    level = [""]
    for _ in range(_DEPTH):
        below: List[str] = []
        for directory in level[:_DIRECTORIES_AT_MOST]:
            directories, files = filesystem.entries(directory)
            names = {os.path.basename(entry.path) for entry in [*directories, *files]}
            if any(_is_own(name) for name in names):
                found.append(directory)
            else:
                below += [entry.path for entry in directories]
        level = below
    return found


def _is_own(name: str) -> bool:
    return name in _OWN_NAMES or name.startswith(_RECOVERY_PREFIXES_OF_ROOT) or name.endswith(".ibd")


def database_tiers(
    path: str,
    filesystem: FilesystemMap,
    engine: str,
    with_hot: bool = True,
    files: Optional[DatabaseFiles] = None,
    page_list: Optional[Callable[[], Iterable[bytes]]] = None,
) -> Tuple[List[Range], List[Range]]:
    """(hot blocks, recovery blocks) of a volume with data or log directories.

    `files` where they are known; `page_list` gives the list of another volume, where this one has none.
    """
    files = files or find_database(filesystem)
    recovery = recovery_blocks(files.entries, files.extents)
    if page_list is None and files.page_list:
        page_list = partial(read_in_pieces, path, files.page_list)
    if not with_hot or page_list is None:
        return [], recovery
    spaces = read_tablespaces(path, files.extents, engine)
    return hot_blocks(pages_in(page_list()), spaces) if spaces else [], recovery


def count_blocks(tiers: Iterable[Tier]) -> int:
    """Number of blocks in all tiers."""
    return sum(total(tier.ranges) for tier in tiers)


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
