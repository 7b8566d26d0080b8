"""Finds a database server's files on an unmounted volume: tablespaces, page list, and the blocks of hot pages."""

from __future__ import annotations

import os
import re
import struct
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Dict, Iterable, Iterator, List, Tuple

from peaker_host.blocks.filesystem_maps import FileEntry, FileExtents, FilesystemMap, Listing
from peaker_host.blocks.ranges import BLOCK_BYTES, Range, blocks_of_bytes, coalesced

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
_PAGE_LINE = re.compile(rb"(?m)^[ \t]*(\d{1,20})[ \t]*,[ \t]*(\d{1,20})[ \t\r]*$")


@dataclass(frozen=True)
class Tablespace:
    """A tablespace file: its id, the size of its pages on disk, and where it lies."""

    space_id: int
    page_bytes: int
    extents: FileExtents


@dataclass(frozen=True)
class DatabaseFiles:
    """A server's files on a volume, by their paths in the data directory."""

    entries: List[FileEntry]
    extents: Dict[str, FileExtents]

    @property
    def page_list(self) -> FileExtents:
        """Returns the extents of the donor's page list; empty where there is none."""
        return self.extents.get(PAGE_LIST_FILE, [])


def find_database(filesystem: FilesystemMap) -> DatabaseFiles:
    """Finds the server's files from the volume's root; a data or log directory may lie some directories down."""
    entries: List[FileEntry] = []
    for root, listing in _database_roots(filesystem):
        for entry in filesystem.files(listing):
            relative = os.path.relpath(entry.path, root) if root else entry.path
            if _matters(relative):
                entries.append(FileEntry(relative, entry.inode))
    return DatabaseFiles(entries, filesystem.file_extents(entries))


def _database_roots(filesystem: FilesystemMap) -> List[Tuple[str, Listing]]:
    """Directories that a server keeps files in: the first on each way down that holds one of its own."""
    found: List[Tuple[str, Listing]] = []
    level = [""]
    for _ in range(_DEPTH):
        below: List[str] = []
        asked = level[:_DIRECTORIES_AT_MOST]
        for directory, listing in zip(asked, filesystem.listings(asked)):
            names = {os.path.basename(entry.path) for entry in [*listing.directories, *listing.files]}
            if any(_is_own(name) for name in names):
                found.append((directory, listing))
            else:
                below += [entry.path for entry in listing.directories]
        level = below
    return found


def _is_own(name: str) -> bool:
    return name in _OWN_NAMES or name.startswith(_RECOVERY_PREFIXES_OF_ROOT) or name.endswith(".ibd")


def _matters(path: str) -> bool:
    return is_tablespace_file(path) or is_recovery_file(path) or path == PAGE_LIST_FILE


def recovery_blocks(entries: Iterable[FileEntry], extents: Dict[str, FileExtents]) -> List[Range]:
    """Blocks of the files that the server reads before it answers."""
    ranges = []
    for entry in entries:
        if is_recovery_file(entry.path):
            ranges += [(offset, length) for _, offset, length in extents.get(entry.path, [])]
    return blocks_of_bytes(ranges)


def is_recovery_file(path: str) -> bool:
    """Tells whether recovery reads the file: redo, doublewrite, undo, system tablespace, data dictionary."""
    if path.startswith("#innodb_redo/") and path.endswith(_SPARE_REDO_SUFFIX):
        return False
    return path in _RECOVERY_FILES or path.startswith(_RECOVERY_PREFIXES)


def is_tablespace_file(path: str) -> bool:
    """Tells whether the file holds InnoDB pages, the first of which names its space id."""
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
    places = [where for name, where in extents.items() if is_tablespace_file(name) and where]
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def read(where: FileExtents) -> Tablespace:
        header = os.pread(descriptor, _HEADER_BYTES, min(where)[1]).ljust(_HEADER_BYTES, b"\0")
        return Tablespace(*parse_tablespace_header(header, engine), where)

    try:
        with ThreadPoolExecutor(_HEADER_READERS) as readers:
            # One whose first block is a hole has no header.
            return list(readers.map(read, (where for where in places if min(where)[0] == 0)))
    finally:
        os.close(descriptor)


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
    return coalesced(ordered)


def _pages_of(space: Tablespace) -> int:
    offset, _, length = max(space.extents)
    return -(-(offset + length) // space.page_bytes)


def _count_pages(space: Tablespace, marked: bytearray, counts: Dict[int, int]) -> None:
    for offset, device_offset, length in space.extents:
        position, end = offset, offset + length
        while position < end:
            block = (device_offset + position - offset) // BLOCK_BYTES
            stop = min(end, position + (block + 1) * BLOCK_BYTES - (device_offset + position - offset))
            hot = marked.count(1, position // space.page_bytes, -(-stop // space.page_bytes))
            if hot:
                counts[block] = counts.get(block, 0) + hot
            position = stop
