"""Data paths are the places that a copy of a server needs, by its own word, and those that no snapshot would
hold.

Temporary files (tmpdir, innodb_temp_tablespaces_dir) may be anywhere: a copy starts without them.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import Dict, Iterable, List, Optional, Sequence

from peaker_host.database.mysql_client import MysqlClient
from peaker_host.machine.devices import read_mounts
from peaker_host.machine.errors import DataOutsideVolumes, UnclearAnswer, understood
from peaker_host.machine.files import read_text

_DIRECTORIES = (
    "innodb_data_home_dir",
    "innodb_log_group_home_dir",
    "innodb_undo_directory",
    "innodb_doublewrite_dir",
    "aria_log_dir_path",
    "rocksdb_datadir",
    "rocksdb_wal_dir",
)
_FILES = ("log_bin_basename", "log_bin_index", "relay_log_basename", "relay_log_index")
TEMPORARY = ("tmpdir", "innodb_tmpdir", "innodb_temp_tablespaces_dir")
_ASKED = ("datadir", "innodb_data_file_path", *_DIRECTORIES, *_FILES, *TEMPORARY)
# Of all InnoDB kinds: system, per table, general and undo. In the data directory they are "./..." or below it.
_TABLESPACES_OUTSIDE = (
    "SELECT FILE_NAME FROM information_schema.FILES WHERE FILE_TYPE <> 'TEMPORARY'"
    " AND FILE_NAME LIKE '/%' AND LEFT(FILE_NAME, CHAR_LENGTH(@@GLOBAL.datadir)) <> @@GLOBAL.datadir"
)
_MOST_NAMED = 10


@dataclass(frozen=True)
class DataPath:
    """A path that a copy needs, by the variable that names it, or `tablespace` or `link`."""

    what: str
    path: str
    is_directory: bool = False


@dataclass(frozen=True)
class Misplaced:
    """A path that is on none of the volumes, and the mount point of the filesystem that it is on."""

    what: str
    path: str
    mount_point: str


@understood(UnclearAnswer, "where the server keeps its files")
def refuse_outside(
    client: MysqlClient, engine: str, volumes: Sequence[str], mounts: Optional[Sequence[str]] = None
) -> None:
    """Refuses a server with data outside the snapshotted volumes, given by their mount points.

    Raises DataOutsideVolumes that names each path. `mounts` are all mount points of this host.
    """
    variables = _variables(client)
    paths = data_paths(variables)
    paths += [DataPath("tablespace", path) for path in _tablespaces_outside(client, engine)]
    paths += [DataPath("link", path) for path in links_in(paths[0].path)]
    temporary = [_absolute(paths[0].path, variables[name]) for name in TEMPORARY if variables.get(name)]
    wrong = misplaced(
        paths, volumes, [one.point for one in read_mounts()] if mounts is None else mounts, temporary
    )
    if not wrong:
        return
    named = "; ".join(f"{one.what}: {one.path} is on {one.mount_point}" for one in wrong[:_MOST_NAMED])
    more = f" and {len(wrong) - _MOST_NAMED} more" if len(wrong) > _MOST_NAMED else ""
    raise DataOutsideVolumes(
        f"no snapshot would hold these, and no copy would start without them: {named}{more}. Move them to a volume of "
        f"the cluster (mounted at {', '.join(volumes)}), or name their volume in the cluster's `volumes`",
        {"misplaced": [vars(one) for one in wrong[:_MOST_NAMED]], "volumes": list(volumes)},
    )


def data_paths(variables: Dict[str, str]) -> List[DataPath]:
    """Directories and files out of the server's variables, the data directory first. What is empty is not used."""
    datadir = os.path.normpath(variables["datadir"])
    found = [DataPath("datadir", datadir, is_directory=True)]
    for name in _DIRECTORIES:
        if variables.get(name):
            found.append(DataPath(name, _absolute(datadir, variables[name]), is_directory=True))
    for name in _FILES:
        if variables.get(name):
            found.append(DataPath(name, _absolute(datadir, variables[name])))
    home = _absolute(datadir, variables.get("innodb_data_home_dir") or ".")
    for part in (variables.get("innodb_data_file_path") or "").split(";"):
        if part:
            found.append(DataPath("innodb_data_file_path", _absolute(home, part.split(":")[0])))
    return found


def data_mounts(client: MysqlClient) -> List[str]:
    """Returns the mount points of the filesystems that hold the server's files, that of the data directory first."""
    mounts = [one.point for one in read_mounts()]
    paths = [os.path.realpath(one.path) for one in data_paths(_variables(client))]
    return list(dict.fromkeys(_mount_of(path, mounts) for path in paths))


def misplaced(
    paths: Iterable[DataPath], volumes: Sequence[str], mounts: Sequence[str], temporary: Sequence[str] = ()
) -> List[Misplaced]:
    """The paths whose filesystem is none of the volumes', each path once, and filesystems mounted within directories.

    Paths count where they really are: links are followed.
    """
    roots = {os.path.normpath(volume) for volume in volumes}
    real_temporary = {os.path.realpath(path) for path in temporary}
    found: Dict[str, Misplaced] = {}
    for one in paths:
        real = os.path.realpath(one.path)
        mount = _mount_of(real, mounts)
        if mount not in roots:
            found.setdefault(one.path, Misplaced(one.what, one.path, mount))
        if one.is_directory:
            for inner in _mounted_below(real, mounts):
                if inner not in roots and inner not in real_temporary:
                    found.setdefault(inner, Misplaced(f"mounted in {one.what}", inner, inner))
    return list(found.values())


def links_in(datadir: str) -> List[str]:
    """Follows links and .isl files of the data directory and its databases (DATA DIRECTORY of a table)."""
    found = []
    for directory in [datadir, *_subdirectories(datadir)]:
        # The server may drop a database, or a table, at any time.
        with contextlib.suppress(FileNotFoundError), os.scandir(directory) as entries:
            for entry in entries:
                if entry.is_symlink():
                    found.append(os.path.realpath(entry.path))
                elif entry.name.endswith(".isl"):
                    found.append(_absolute(datadir, (read_text(entry.path) or "").strip()))
    return found


def _variables(client: MysqlClient) -> Dict[str, str]:
    """Reads the variables; SHOW leaves out unknown ones, where @@name would be an error."""
    names = ", ".join(f"'{name}'" for name in _ASKED)
    rows = client.rows(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})")
    return {row["Variable_name"] or "": row["Value"] or "" for row in rows}


def _tablespaces_outside(client: MysqlClient, engine: str) -> List[str]:
    if engine != "mysql":
        return []  # MariaDB: .isl files lead there
    return [row["FILE_NAME"] or "" for row in client.rows(_TABLESPACES_OUTSIDE, timeout_seconds=120.0)]


def _subdirectories(datadir: str) -> List[str]:
    with os.scandir(datadir) as entries:
        return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]


def _absolute(directory: str, path: str) -> str:
    return os.path.normpath(os.path.join(directory, path))


def _mount_of(path: str, mounts: Sequence[str]) -> str:
    holding = [mount for mount in mounts if mount == "/" or path == mount or path.startswith(mount + "/")]
    return max(holding, key=len, default="/")


def _mounted_below(directory: str, mounts: Sequence[str]) -> List[str]:
    return sorted({mount for mount in mounts if mount.startswith(directory.rstrip("/") + "/")})
