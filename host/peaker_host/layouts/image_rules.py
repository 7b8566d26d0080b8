"""FACTS is the table of what is compared between a donor, by its server, and a new host, by its image: a fact more is
a row more.
"""

from __future__ import annotations

import json
import os
import pwd
import re
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Protocol, Sequence, Tuple

from peaker_host.machine.errors import HostError, ToolMissing
from peaker_host.machine.files import read_text
from peaker_host.machine.image_server import ImageServer, last_of
from peaker_host.machine.settings import Machine

# Those that keep a queue of requests in one thread. Fedora and Amazon Linux have the first in a package of its own.
FIO_ENGINES = ("libaio", "io_uring")
PATHS = (
    "innodb_data_home_dir",
    "innodb_log_group_home_dir",
    "innodb_undo_directory",
    "innodb_doublewrite_dir",
)
# Empty, a directory is this other one; else the data directory.
_ELSE = {"innodb_doublewrite_dir": "innodb_data_home_dir"}
FORMATS = ("lower_case_table_names", "innodb_page_size", "innodb_data_file_path")
# MySQL 8.4 has it and is without it by default, later ones have none; MariaDB always has it.
NATIVE_PASSWORD = "mysql_native_password"
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
        on_volume = any(_within(place, self.mount_points) for place in places)
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


_DATA_LABEL = "mysqld_db_t"


# --- the version ----------------------------------------------------------------------------------------------


def _numbers(version: str) -> Tuple[int, int, int]:
    found = re.search(r"(?:Ver |^)(\d+)\.(\d+)\.(\d+)", version)
    if found is None:
        raise ValueError(version)
    return int(found.group(1)), int(found.group(2)), int(found.group(3))


def shown(numbers: Sequence[int]) -> str:
    return ".".join(map(str, numbers))


def _version_rule(donor: Any, image: Any) -> Words:
    theirs, ours = tuple(donor), tuple(image)
    both = f"the image's server is {shown(ours)}, the donor's {shown(theirs)}"
    if ours < theirs:
        return True, f"{both}: an older server does not open the files of a newer one"
    if ours[:2] != theirs[:2]:
        return (
            True,
            f"{both}: it would upgrade the copy to another series; take an image of {shown(theirs[:2])}",
        )
    return (False, f"{both}: newer within the series") if ours > theirs else FITS


# --- the formats ----------------------------------------------------------------------------------------------


def _format_of_image(name: str) -> Callable[[Image, Any], str]:
    return lambda image, _donor: _plain(image.option(name))


def _format_of_donor(name: str) -> Callable[[Donor], str]:
    return lambda donor: _plain(donor.variables[name]) if name in donor.variables else ABSENT


def _plain(value: str) -> str:
    """`16K` is 16384."""
    size = re.fullmatch(r"(\d+)[kK]", value)
    return str(int(size.group(1)) * 1024) if size else value


def _path_of_image(name: str) -> Callable[[Image, Any], str]:
    return lambda image, _donor: image.path(name)


def _path_of_donor(name: str) -> Callable[[Donor], str]:
    return lambda donor: donor.path(name) or ABSENT


def _same(name: str) -> Callable[[Any, Any], Words]:
    """The files of the copy were made with the donor's value: no server opens them with another one."""

    def rule(donor: Any, image: Any) -> Words:
        return FITS if donor == image else (True, f"{name} of the image is {image}, of the donor {donor}")

    return rule


# --- the owner ------------------------------------------------------------------------------------------------


def _owner_of_donor(donor: Donor) -> List[int]:
    facts = os.stat(donor.directories[0])
    return [facts.st_uid, facts.st_gid]


def _owner_of_image(image: Image, _donor: Any) -> List[Any]:
    try:
        account = pwd.getpwnam(image.user)
    except KeyError:
        return [image.user]
    return [account.pw_uid, account.pw_gid, image.user]


def _owner_rule(donor: Any, image: Any) -> Words:
    *ours, user = image
    if not ours:
        return (
            True,
            f"the image has no account {user}, the donor's files are of uid {donor[0]} gid {donor[1]}",
        )
    here = f"{user} has uid {ours[0]} gid {ours[1]} in the image"
    both = f"{here}, the donor's files are of uid {donor[0]} gid {donor[1]}"
    if ours[0] != donor[0]:
        return True, f"{both}: its server could not write them; give {user} the donor's uid and gid"
    return FITS if ours[1] == donor[1] else (False, both)


# --- encryption -----------------------------------------------------------------------------------------------


def _keyring_of_donor(donor: Donor) -> Any:
    if donor.engine != "mysql":
        return ABSENT
    rows = donor.server.rows(
        "SELECT STATUS_KEY, STATUS_VALUE FROM performance_schema.keyring_component_status"
    )
    status = {row["STATUS_KEY"]: row["STATUS_VALUE"] or "" for row in rows}
    if not status.get("Component_name"):
        return ABSENT
    asked = "SELECT COUNT(*) AS n FROM information_schema.INNODB_TABLESPACES WHERE ENCRYPTION = 'Y'"
    logs = [name for name in ENCRYPTING if donor.variables.get(name) == "ON"]
    if not logs and not int(donor.server.rows(asked)[0]["n"] or 0):
        return ABSENT
    return {"component": status["Component_name"], "key_file": status.get("Data_file", "")}


def _keyring_of_image(image: Image, donor: Any) -> Dict[str, Any]:
    """The manifest lies beside the program; it may pass on to the one in the data directory, which the copy has."""
    program = os.path.realpath(image.server.program)
    manifest = json.loads(image.text(os.path.join(os.path.dirname(program), "mysqld.my")) or "{}")
    named = [part.strip().split("file://")[-1] for part in str(manifest.get("components", "")).split(",")]
    key_file = donor["key_file"]
    return {
        "components": [one for one in named if one],
        "of_copy": bool(manifest.get("read_local_manifest")),
        "has_key_file": not key_file.startswith("/") or image.has(key_file),
    }


def _keyring_rule(donor: Any, image: Any) -> Words:
    component = donor["component"]
    if not image["of_copy"] and component not in image["components"]:
        has = ", ".join(image["components"]) or "none"
        return True, (
            f"the donor's files are encrypted with keys of {component}, the image's server loads {has}: name it in "
            "mysqld.my beside the server's program, and give the image its configuration and keys"
        )
    if not image["has_key_file"]:
        where = f"the donor's keys are in {donor['key_file']}, on none of its volumes"
        return True, f"{where}, and the image has no such file"
    return FITS


# --- who is let in --------------------------------------------------------------------------------------------


def _native_of_donor(donor: Donor) -> str:
    has_it = (
        "SELECT PLUGIN_NAME FROM information_schema.PLUGINS"
        " WHERE PLUGIN_NAME = 'mysql_native_password' AND PLUGIN_STATUS = 'ACTIVE'"
    )
    return "ON" if donor.engine == "mysql" and donor.server.rows(has_it) else ABSENT


def _native_rule(_donor: Any, image: Any) -> Words:
    """Given without a value, which is empty here, it is on."""
    if image.upper() not in ("OFF", "0", "FALSE"):
        return FITS
    return True, (
        f"the donor's server has {NATIVE_PASSWORD} on, the image's off: it would refuse the accounts that use it; put "
        f"{NATIVE_PASSWORD} = ON into the image's options"
    )


def _administrator_of_donor(donor: Donor) -> str:
    """A copy has its donor's accounts. The least login of an administrator may not read them."""
    without_password = (
        "SELECT plugin FROM mysql.user WHERE User = 'root' AND Host = 'localhost'"
        " AND (plugin = 'auth_socket' OR authentication_string = '')"
    )
    try:
        return ABSENT if donor.engine != "mysql" or donor.server.rows(without_password) else "password"
    except HostError:
        return "unknown"


def _login_of_image(image: Image, _donor: Any) -> bool:
    """An option file of all clients may give a password too, which the client shows as stars."""
    if image.has(image.machine.admin_defaults_file):
        return True
    argv = [image.machine.mysql_client, "--print-defaults"]
    return "--password=" in image.processes.run(argv, environment={"HOME": "/nonexistent"}).stdout


def _administrator_rule(donor: Any, image: Any) -> Words:
    if image:
        return FITS
    remedy = (
        "put an option file with its login into /etc/peaker/admin.cnf of the image, readable by root alone"
    )
    if donor == "password":
        return (
            True,
            f"root@localhost of the donor's server needs a password, and the image has none: {remedy}",
        )
    return (
        False,
        f"nobody may log in at the copy if root@localhost of the donor's server needs a password: {remedy}",
    )


def _channel_files_of_donor(donor: Donor) -> Any:
    """The files of the channel's encryption, or the key that takes its place; no directory is the data directory."""
    mysql = donor.engine == "mysql"
    rows = donor.server.rows("SHOW REPLICA STATUS" if mysql else "SHOW SLAVE STATUS")
    status = rows[0] if rows else {}
    is_encrypted = status.get("Source_SSL_Allowed" if mysql else "Master_SSL_Allowed") == "Yes"
    named = {
        value for name, value in status.items() if ("_SSL_" if is_encrypted else "_public_key_path") in name
    }
    return sorted(path for path in named if path and path.startswith("/")) or ABSENT


def _missing_of_channel(image: Image, donor: Any) -> List[str]:
    """A name that SSM does not carry as it is cannot be looked for."""
    return [path for path in donor if "?" not in path and not image.has(path)]


def _channel_rule(_donor: Any, image: Any) -> Words:
    if not image:
        return FITS
    return True, (
        f"replication needs {', '.join(image)}, which neither the image nor a volume has: put it into the image, "
        "readable by the server's account"
    )


def _channel_login_of_donor(donor: Donor) -> str:
    """Tells whether MySQL stores the channel's login; one with a client's certificate may be without a password."""
    stored = (
        "SELECT Channel_name FROM mysql.slave_master_info"
        " WHERE User_name <> '' AND (User_password <> '' OR Ssl_cert <> '')"
    )
    return ABSENT if donor.engine != "mysql" or donor.server.rows(stored) else "not stored"


def _channel_login_rule(_donor: Any, image: Any) -> Words:
    if image:
        return FITS
    return True, (
        "the donor's channel stores no password, and the image has no /etc/peaker/replication.json: put "
        '{"user": "...", "password": "..."} there, readable by root alone'
    )


# --- security modules -----------------------------------------------------------------------------------------


def _label_of_donor(donor: Donor) -> str:
    try:
        label = os.getxattr(donor.directories[0], "security.selinux").rstrip(b"\0").decode()
    except OSError:
        label = ""
    return f"enforced {label}" if (read_text("/sys/fs/selinux/enforce") or "").strip() == "1" else label


def _selinux_of_image(image: Image, _donor: Any) -> bool:
    return (image.text("/sys/fs/selinux/enforce") or "").strip() == "1"


def _selinux_rule(donor: Any, image: Any) -> Words:
    if not image or donor.startswith("enforced ") or f":{_DATA_LABEL}:" in f"{donor}:":
        return FITS
    return True, (
        f"SELinux is enforced in the image, the donor's data directory is labelled {donor or 'not at all'} instead of "
        f"{_DATA_LABEL}: label it on the donor (semanage fcontext, restorecon), or make SELinux permissive in the image"
    )


def _profile_of_image(image: Image, _donor: Any) -> Any:
    """The directories that the enforced profile of the server lets it write; None with a profile that is not found."""
    loaded = image.text("/sys/kernel/security/apparmor/profiles") or ""
    names = {"mysqld", "mariadbd", image.server.program, os.path.realpath(image.server.program)}
    enforced = [line.rpartition(" (")[0] for line in loaded.splitlines() if line.endswith("(enforce)")]
    mine = [name for name in enforced if name in names or os.path.basename(name) in ("mysqld", "mariadbd")]
    if not mine:
        return "none"
    texts = []
    for name in mine:
        plain = name.lstrip("/").replace("/", ".")
        for place in (plain, f"local/{plain}", os.path.basename(name)):
            texts.append(image.text(f"/etc/apparmor.d/{place}") or "")
    if not any(texts):
        return None
    written = re.findall(
        r"^\s*(?:owner\s+)?\"?(/[^\s\"]*?)/?\*\*\"?\s+[a-z]*w", "\n".join(texts), re.MULTILINE
    )
    aliases = re.findall(
        r"^\s*alias\s+(\S+?)/?\s+->\s+(\S+?)/?,",
        image.text("/etc/apparmor.d/tunables/alias") or "",
        re.MULTILINE,
    )
    return [*written, *(target for origin, target in aliases if _within(origin, written))]


def _within(path: str, directories: Sequence[str]) -> bool:
    return any(path == one or path.startswith(one.rstrip("/") + "/") for one in directories)


def _profile_rule(donor: Any, image: Any) -> Words:
    if image == "none":
        return FITS
    outside = [path for path in donor if not _within(path, image)]
    if not outside:
        return FITS
    return True, (
        f"the image's AppArmor profile lets the server write {', '.join(image) or 'nothing'}, the donor's files are in "
        f"{', '.join(outside)}: name that in /etc/apparmor.d/local of the image"
    )


# --- programs -------------------------------------------------------------------------------------------------


def _missing_programs(image: Image, _donor: Any) -> List[str]:
    missing = []
    try:
        image.processes.run(["iostat", "-V"], check=False)
    except ToolMissing:
        missing.append("sysstat")
    try:
        engines = [
            image.processes.run(["fio", f"--enghelp={engine}"], check=False).exit_code
            for engine in FIO_ENGINES
        ]
    except ToolMissing:
        return ["fio", *missing]
    return missing if 0 in engines else ["fio-engine-libaio", *missing]


def _programs_rule(_donor: Any, image: Any) -> Words:
    if not image:
        return FITS
    return True, f"the storage proof needs what the image lacks: install {', '.join(image)} in it"


FACTS: Tuple[Fact, ...] = (
    Fact(
        "server version",
        lambda donor: _numbers(donor.variables["version"]),
        lambda image, _donor: _numbers(image.server.version),
        _version_rule,
        essential=True,
    ),
    *(Fact(name, _format_of_donor(name), _format_of_image(name), _same(name)) for name in FORMATS),
    Fact(
        "datadir", lambda donor: donor.directories[0], lambda image, _donor: image.datadir, _same("datadir")
    ),
    *(Fact(name, _path_of_donor(name), _path_of_image(name), _same(name)) for name in PATHS),
    Fact("owner of the data", _owner_of_donor, _owner_of_image, _owner_rule),
    Fact("keyring component", _keyring_of_donor, _keyring_of_image, _keyring_rule),
    Fact(
        NATIVE_PASSWORD, _native_of_donor, lambda image, _donor: image.option(NATIVE_PASSWORD), _native_rule
    ),
    Fact("administrator", _administrator_of_donor, _login_of_image, _administrator_rule),
    Fact("files of the channel", _channel_files_of_donor, _missing_of_channel, _channel_rule),
    Fact(
        "login of the channel",
        _channel_login_of_donor,
        lambda image, _donor: image.has(image.machine.replication_credentials_file),
        _channel_login_rule,
    ),
    Fact("SELinux", _label_of_donor, _selinux_of_image, _selinux_rule),
    Fact("AppArmor", lambda donor: donor.directories, _profile_of_image, _profile_rule),
    Fact("programs", None, _missing_programs, _programs_rule),
)
