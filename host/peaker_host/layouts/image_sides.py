"""The two sides of the comparison: a donor, asked through its server, and a new host, asked as its image."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Protocol, Sequence, Tuple

from peaker_host.machine.files import read_text
from peaker_host.machine.image_server import ImageServer, last_of
from peaker_host.machine.settings import Machine

PATHS = (
    "innodb_data_home_dir",
    "innodb_log_group_home_dir",
    "innodb_undo_directory",
    "innodb_doublewrite_dir",
)
# Empty, a directory is this other one; else the data directory.
_ELSE = {"innodb_doublewrite_dir": "innodb_data_home_dir"}
FORMATS = ("lower_case_table_names", "innodb_page_size", "innodb_data_file_path")
_NO_DEFAULT = "(No default value)"
_HELP_SECONDS = 60.0

Words = Tuple[bool, str]
FITS: Words = (False, "")
ENCRYPTING = ("innodb_redo_log_encrypt", "innodb_undo_log_encrypt", "binlog_encryption")
ABSENT = "(absent)"


class Rows(Protocol):
    """A server that answers statements."""

    def rows(self, statement: str) -> List[Dict[str, Optional[str]]]:
        """One mapping for each row."""


class Donor:
    """The donor's server; its directories are those of data, redo log and binary logs, the data directory first."""

    def __init__(self, server: Rows, engine: str, directories: Sequence[str]) -> None:
        self.server = server
        self.engine = engine
        self.directories = list(dict.fromkeys(map(os.path.realpath, directories)))
        names = ", ".join(f"'{name}'" for name in ("version", *PATHS, *FORMATS, *ENCRYPTING))
        rows = server.rows(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})")
        self.variables: Dict[str, str] = {row["Variable_name"] or "": row["Value"] or "" for row in rows}

    def path(self, name: str) -> Optional[str]:
        """A directory as an absolute path; None where the server does not know the variable."""
        if name not in self.variables:
            return None
        return absolute(
            self.directories[0], self.variables[name] or self.variables.get(_ELSE.get(name, ""), "")
        )


class Image:
    """The new host: its server as a start would find it, its accounts, programs and security modules.

    `root` is where the kernel's and the system's files are.
    """

    def __init__(
        self,
        machine: Machine,
        server: ImageServer,
        mount_points: Sequence[str],
        root: str = "/",
    ) -> None:
        self.machine = machine
        self.processes = machine.processes
        self.server = server
        self.datadir = os.path.realpath(machine.datadir)
        self.mount_points = mount_points
        self._root = root
        self._options = server.options()
        self.user = last_of(self._options, "user") or machine.mysql_user
        self._defaults: Optional[Dict[str, str]] = None

    def option(self, name: str) -> str:
        """The value that a start would take, from an option file or as built in. Raises KeyError."""
        given = [value for one, value in self._options if one == name]
        if given:
            return given[-1].strip("'\"")
        if self._defaults is None:
            argv = [self.server.program, "--no-defaults", "--verbose", "--help"]
            said = self.processes.run(argv, timeout_seconds=_HELP_SECONDS, check=False).stdout
            pairs = (line.split(None, 1) for line in said.splitlines() if line[:1].isalpha())
            self._defaults = {one[0].replace("-", "_"): one[1].strip() for one in pairs if len(one) == 2}
        found = self._defaults[name]
        return "" if found == _NO_DEFAULT else found

    def path(self, name: str) -> str:
        """A directory as an absolute path. Raises KeyError."""
        given = self.option(name) or (self.option(_ELSE[name]) if name in _ELSE else "")
        return absolute(self.datadir, given)

    def text(self, path: str) -> Optional[str]:
        """A file of the host; None where there is none. Raises OSError for one that may not be read."""
        return read_text(os.path.join(self._root, path.lstrip("/")))

    def has(self, path: str) -> bool:
        """Tells whether the path is there, or comes with a volume."""
        places = (path, os.path.realpath(path))
        on_volume = any(within(place, self.mount_points) for place in places)
        return on_volume or os.path.exists(os.path.join(self._root, path.lstrip("/")))


@dataclass(frozen=True)
class Fact:
    """`rule` gets the donor's value and the image's, neither None, and says whether it refuses, and why.

    `of_donor` is None for a fact of the image alone. `of_image` also gets the donor's value.
    """

    name: str
    of_donor: Optional[Callable[[Donor], Any]]
    of_image: Callable[[Image, Any], Any]
    rule: Callable[[Any, Any], Words]
    essential: bool = False


def absolute(datadir: str, path: str) -> str:
    """Links are followed: the same directory may have another name on the other host."""
    return os.path.realpath(os.path.join(datadir, path or "."))


def within(path: str, directories: Sequence[str]) -> bool:
    return any(path == one or path.startswith(one.rstrip("/") + "/") for one in directories)
