"""Filesystem maps give the directories of an unmounted XFS or ext4, and the extents of its files.

The filesystem's own debugger reads them (xfs_db, debugfs), read-only. It does not see what is in the log only:
log_replay comes first.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import Dict, Iterable, List, Sequence, Tuple

from peaker_host.machine.devices import Superblock, read_superblock
from peaker_host.machine.errors import NoFilesystem, UnreadableFilesystem, understood
from peaker_host.machine.settings import Processes

FileExtents = List[Tuple[int, int, int]]
"""(offset in the file, offset on the device, length), bytes, ascending by file offset."""

_READ_TIMEOUT_SECONDS = 1800.0
_ASKED_PER_CALL = 200
_XFS_BMAP_LINE = re.compile(r"data offset (\d+) startblock \d+ \((\d+)/(\d+)\) count (\d+)")
_XFS_ENTRY_LINE = re.compile(
    r"^\s*\d+\s+(\d+)\s+(directory|regular)\s+0x[0-9a-f]+\s+\d+\s+(.+?)(?: \((?:good|corrupt)\))?$"
)
_EXT_LEAF_LINE = re.compile(
    r"^\s*(\d+)/\s*(\d+)\s+\d+/\s*\d+\s+(\d+)\s*-\s*\d+\s+(\d+)\s*-\s*\d+\s+(\d+)(?:\s+(\w+))?\s*$"
)
_EXT_ENTRY_LINE = re.compile(r"^/(\d+)/(\d+)/\d*/\d*/(.*)/(\d*)/$")


@dataclass(frozen=True)
class FileEntry:
    """A file found in the filesystem: path from its root without a leading slash, and inode number."""

    path: str
    inode: int


@dataclass(frozen=True)
class Listing:
    """Directories and regular files right in a directory, by their paths from the root."""

    directories: List[FileEntry] = field(default_factory=list)
    files: List[FileEntry] = field(default_factory=list)


class FilesystemMap:
    """What one unmounted filesystem holds. `unreadable`: answers that the debugger could not give."""

    unreadable = 0

    def listings(self, directories: Sequence[str]) -> List[Listing]:
        """Lists each directory, in their order, many at once: a server has one directory for each schema."""
        found: List[Listing] = []
        for start in range(0, len(directories), _ASKED_PER_CALL):
            found += self._listings(directories[start : start + _ASKED_PER_CALL])
        return found

    def _listings(self, directories: Sequence[str]) -> List[Listing]:
        raise NotImplementedError

    def files(self, listing: Listing) -> List[FileEntry]:
        """Regular files of a directory and of the directories right in it."""
        below = self.listings([entry.path for entry in listing.directories])
        return [*listing.files, *(entry for one in below for entry in one.files)]

    def file_extents(self, entries: Iterable[FileEntry]) -> Dict[str, FileExtents]:
        """Returns the files' extents by path. Holes have no extent, nor has a file whose map is not written out."""
        raise NotImplementedError


def open_map(kind: str, path: str, processes: Processes) -> FilesystemMap:
    if kind == "xfs":
        return XfsMap(path, processes)
    if kind == "ext4":
        return ExtMap(path, processes)
    raise UnreadableFilesystem(f"{path}: no reader for the maps of {kind}")


def _can_be_asked_for(name: str) -> bool:
    """Tells whether a name means only itself in a debugger's command: these have some that write files of this host."""
    return name.isprintable() and not set(name) & set("\"'\\;|")


class XfsMap(FilesystemMap):
    """XFS through xfs_db."""

    def __init__(self, path: str, processes: Processes) -> None:
        self._path = path
        self._processes = processes
        superblock = _geometry("xfs", path)
        self._block_bytes, self._group_blocks = superblock.block_bytes, superblock.group_blocks

    def file_extents(self, entries: Iterable[FileEntry]) -> Dict[str, FileExtents]:
        wanted = list(entries)
        result: Dict[str, FileExtents] = {}
        for start in range(0, len(wanted), _ASKED_PER_CALL):
            batch = wanted[start : start + _ASKED_PER_CALL]
            queries = []
            for position, entry in enumerate(batch):
                queries += [f"echo @{position}", f"inode {entry.inode}", "bmap -d"]
            result.update(self._parse_extents(batch, self._query(queries)))
        return result

    @understood(UnreadableFilesystem, "a directory listed by xfs_db")
    def _listings(self, directories: Sequence[str]) -> List[Listing]:
        queries = []
        for position, directory in enumerate(directories):
            path = "/" + directory
            place = f'path "{path}"' if " " in path else f"path {path}"
            # A path that is not found leaves the debugger where it was: on the superblock, which lists nothing.
            queries += [f"echo @{position}", "sb 0", place, "ls"]
        found: List[Listing] = []
        for line in self._query(queries).splitlines():
            if line.rstrip() == f"@{len(found)}":
                found.append(Listing())
            elif found:
                self._add(found[-1], directories[len(found) - 1], line)
        if len(found) != len(directories):
            raise UnreadableFilesystem(
                f"{self._path}: xfs_db listed {len(found)} of {len(directories)} directories"
            )
        return found

    def _add(self, listing: Listing, directory: str, line: str) -> None:
        found = _XFS_ENTRY_LINE.match(line)
        if not found or found.group(3) in (".", ".."):
            return
        if not _can_be_asked_for(found.group(3)):
            self.unreadable += 1
            return
        target = listing.directories if found.group(2) == "directory" else listing.files
        target.append(FileEntry(os.path.join(directory, found.group(3)), int(found.group(1))))

    @understood(UnreadableFilesystem, "the block maps of xfs_db")
    def _parse_extents(self, batch: List[FileEntry], output: str) -> Dict[str, FileExtents]:
        result: Dict[str, FileExtents] = {}
        current: FileExtents = []
        for line in output.splitlines():
            if line.startswith("@"):
                current = result.setdefault(batch[int(line[1:])].path, [])
                continue
            found = _XFS_BMAP_LINE.search(line)
            if found:
                offset, group, block, count = (int(part) for part in found.groups())
                unit = self._block_bytes
                current.append((offset * unit, (group * self._group_blocks + block) * unit, count * unit))
        if len(result) != len(batch):
            raise UnreadableFilesystem(f"{self._path}: xfs_db listed {len(result)} of {len(batch)} files")
        return result

    def _query(self, commands: List[str]) -> str:
        """xfs_db's answers. Of a filesystem that was in use, single inodes may be in its log only: xfs_db says so,
        answers the rest, which is good enough, and fails in the end."""
        argv = ["xfs_db", "-r"]
        for command in commands:
            argv += ["-c", command]
        argv.append(os.path.realpath(self._path))
        done = self._processes.run(argv, timeout_seconds=_READ_TIMEOUT_SECONDS, check=False)
        self.unreadable += done.stderr.count("corruption detected")
        return done.stdout


class ExtMap(FilesystemMap):
    """ext4 through debugfs."""

    def __init__(self, path: str, processes: Processes) -> None:
        self._path = path
        self._processes = processes
        self._block_bytes = _geometry("ext4", path).block_bytes

    def file_extents(self, entries: Iterable[FileEntry]) -> Dict[str, FileExtents]:
        wanted = list(entries)
        commands = "".join(f"dump_extents <{entry.inode}>\n" for entry in wanted)
        if not wanted:
            return {}
        sections = self._query(commands)
        if len(sections) != len(wanted):
            raise UnreadableFilesystem(f"{self._path}: debugfs listed {len(sections)} of {len(wanted)} files")
        return {entry.path: self._leaves(section) for entry, section in zip(wanted, sections)}

    @understood(UnreadableFilesystem, "the extents of debugfs")
    def _leaves(self, section: List[str]) -> FileExtents:
        extents: FileExtents = []
        for line in section:
            found = _EXT_LEAF_LINE.match(line)
            if found and found.group(1) == found.group(2):
                logical, physical, length = int(found.group(3)), int(found.group(4)), int(found.group(5))
                unit = self._block_bytes
                extents.append((logical * unit, physical * unit, length * unit))
        return extents

    @understood(UnreadableFilesystem, "a directory listed by debugfs")
    def _listings(self, directories: Sequence[str]) -> List[Listing]:
        sections = self._query("".join(f'ls -p "/{directory}"\n' for directory in directories))
        return [self._listing(name, sections[number]) for number, name in enumerate(directories)]

    def _listing(self, directory: str, lines: List[str]) -> Listing:
        listing = Listing()
        for line in lines:
            found = _EXT_ENTRY_LINE.match(line)
            if not found or found.group(3) in (".", "..") or found.group(1) == "0":
                continue
            if not _can_be_asked_for(found.group(3)):
                self.unreadable += 1
                continue
            entry = FileEntry(os.path.join(directory, found.group(3)), int(found.group(1)))
            kind = int(found.group(2), 8) & 0o170000
            if kind == 0o040000:
                listing.directories.append(entry)
            elif kind == 0o100000:
                listing.files.append(entry)
        return listing

    def _query(self, commands: str) -> List[List[str]]:
        """The output lines of each command; debugfs repeats every command after its prompt."""
        done = self._processes.run(
            ["debugfs", "-f", "-", self._path], input_text=commands, timeout_seconds=_READ_TIMEOUT_SECONDS
        )
        sections: List[List[str]] = []
        for line in done.stdout.splitlines():
            if line.startswith("debugfs: "):
                sections.append([])
            elif sections:
                sections[-1].append(line)
        return sections


def _geometry(kind: str, path: str) -> Superblock:
    try:
        found = read_superblock(path)
    except NoFilesystem as error:
        raise UnreadableFilesystem(str(error)) from error
    if found.kind != kind:
        raise UnreadableFilesystem(f"{path}: no {kind} superblock")
    return found
