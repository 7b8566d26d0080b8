"""The server that this host's image brings: its unit, its program, and what it reads from its option files.

Nothing of it runs as a server here. `--print-defaults` says what a start would read; it needs no data directory.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Dict, Iterator, List, Optional, Sequence, Tuple

from peaker_host.machine.errors import ImageUnfit, ToolMissing
from peaker_host.machine.files import read_text, write_atomically
from peaker_host.machine.settings import Processes

# Debian's MySQL, the RPMs of Oracle and Percona, MariaDB; each may be an alias of another.
UNITS = ("mysql", "mysqld", "mariadb")
PROGRAMS = ("mysqld", "mariadbd")
# The first is Debian's, the second that of RPMs. Debian's packages read the other two after the first.
CONFIG_DIRS = ("/etc/mysql/conf.d", "/etc/my.cnf.d", "/etc/mysql/mysql.conf.d", "/etc/mysql/mariadb.conf.d")
# The RPMs of Oracle and Percona read no directory, but also this file, which they do not bring.
EXTRA_FILE, EXTRA_DIR = "/etc/mysql/my.cnf", "/etc/mysql/conf.d"
OPTIONS_FILE = "zz-peaker.cnf"

_PROBE = "peaker_reads_this"
_PROBE_TEXT = f"[mysqld]\nloose_{_PROBE} = 1\n"
_ASK_SECONDS = 60.0
_ARGUMENTS = re.compile(r"argv\[\]=(.*?) ;")
# They say which option files are read, so they come first on every command line.
_OF_FILES = ("--defaults-file", "--defaults-extra-file", "--defaults-group-suffix", "--no-defaults")
# What a replica that nobody has checked yet must be; the values that leave it so. A server_id is never another's.
_MUST_BE = {
    "server_id": frozenset({""}),
    **dict.fromkeys(
        ("read_only", "super_read_only", "skip_replica_start", "skip_slave_start"),
        frozenset({"", "1", "on", "true"}),
    ),
}

Options = List[Tuple[str, str]]


@dataclass(frozen=True)
class ServerUnit:
    """A unit by its own name, without `.service`, and how it starts its server."""

    name: str
    arguments: Tuple[str, ...] = ()


def known_units(processes: Processes, names: Sequence[str]) -> List[ServerUnit]:
    """The units of these names that systemd can start, each once, whatever aliases it has."""
    found: Dict[str, ServerUnit] = {}
    for name in names:
        argv = ["systemctl", "show", "--property=Id,LoadState,ExecStart", name]
        unit = _unit_shown(processes.run(argv, check=False).stdout)
        if unit is not None:
            found.setdefault(unit.name, unit)
    return list(found.values())


def _unit_shown(said: str) -> Optional[ServerUnit]:
    """Parses the output of `systemctl show`; None for a unit that is absent, masked or wrong."""
    shown = dict(line.partition("=")[::2] for line in said.splitlines())
    if shown.get("LoadState") != "loaded" or not shown.get("Id"):
        return None
    started = _ARGUMENTS.search(shown.get("ExecStart", ""))
    return ServerUnit(
        shown["Id"].rsplit(".service", 1)[0], tuple(started.group(1).split() if started else ())
    )


class ImageServer:
    """The server of one unit, asked for its version and its options."""

    def __init__(self, processes: Processes, unit: ServerUnit, programs: Sequence[str]) -> None:
        """`programs`: their names, the likeliest first, for a unit that starts a script. Raises ImageUnfit."""
        self._processes = processes
        own = [one for one in unit.arguments[:1] if os.path.basename(one) in PROGRAMS]
        self.program, self.version = self._found(unit, list(dict.fromkeys([*own, *programs])))
        self._of_files = [one for one in unit.arguments[1:] if one.startswith(_OF_FILES)]
        self._of_unit = _options(one for one in unit.arguments[1:] if not one.startswith(_OF_FILES))

    @property
    def engine(self) -> str:
        return "mariadb" if "mariadb" in self.version.lower() else "mysql"

    @property
    def option_file(self) -> str:
        """The only one that it reads; empty where it reads the usual ones."""
        given = [one.partition("=")[2] for one in self._of_files if one.startswith("--defaults-file=")]
        return given[-1] if given else ""

    def options(self) -> Options:
        """Name and value as a start would take them, the last of a name wins."""
        return [*self._of_option_files(), *self._of_unit]

    def reads(self, directory: str) -> Optional[List[str]]:
        """Returns the options that undo Peaker's file in this directory; None where the server does not read
        that file.

        The file is as it was afterwards.
        """
        path = os.path.join(directory, OPTIONS_FILE)
        before = read_text(path)
        write_atomically(path, f"{before or ''}{_PROBE_TEXT}")
        try:
            options = self.options()
        finally:
            if before is None:
                os.unlink(path)
            else:
                write_atomically(path, before)
        names = [name for name, _ in options]
        if _PROBE not in names:
            return None
        return undoing(options[names.index(_PROBE) + 1 :])

    def _found(self, unit: ServerUnit, programs: Sequence[str]) -> Tuple[str, str]:
        for program in programs:
            try:
                said = self._processes.run([program, "--version"], timeout_seconds=_ASK_SECONDS).stdout
            except ToolMissing:
                continue
            return program, said.strip()
        raise ImageUnfit(
            f"of the server of unit {unit.name}, none of {', '.join(programs)} is there: name its program as "
            "mysql_server in /etc/peaker/host.json of the image"
        )

    def _of_option_files(self) -> Options:
        argv = [self.program, *self._of_files, "--print-defaults"]
        # What lies in root's home directory is not the server's.
        said = self._processes.run(
            argv, timeout_seconds=_ASK_SECONDS, environment={"HOME": "/nonexistent"}
        ).stdout
        return _options(said.partition("\n")[2].split())


def undoing(options: Options) -> List[str]:
    """Those options that make of a new replica what it must not be, if they are read last."""
    return [
        f"{name}={value}"
        for name, value in options
        if name in _MUST_BE and value.strip("'\"").lower() not in _MUST_BE[name]
    ]


def last_of(options: Options, name: str) -> str:
    """The value that counts; empty where there is none."""
    return next((value for one, value in reversed(options) if one == name), "")


def _options(words: "Sequence[str] | Iterator[str]") -> Options:
    found = []
    for word in words:
        if word.startswith("--"):
            name, _, value = word[2:].partition("=")
            plain = name.replace("-", "_")
            found.append((plain[len("loose_") :] if plain.startswith("loose_") else plain, value))
    return found
