"""FACTS is the table of what is compared between a donor, by its server, and a new host, by its image: a fact more is
a row more.
"""

from __future__ import annotations

import json
import os
import pwd
import re
from typing import Any, Callable, Dict, List, Sequence, Tuple

from peaker_host.layouts.image_logins import LOGINS
from peaker_host.layouts.image_sides import (
    ABSENT,
    ENCRYPTING,
    FITS,
    FORMATS,
    PATHS,
    Donor,
    Fact,
    Image,
    Words,
    within,
)
from peaker_host.machine.errors import ToolMissing
from peaker_host.machine.files import read_text

# Those that keep a queue of requests in one thread. Fedora and Amazon Linux have the first in a package of its own.
FIO_ENGINES = ("libaio", "io_uring")
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
    return [*written, *(target for origin, target in aliases if within(origin, written))]


def _profile_rule(donor: Any, image: Any) -> Words:
    if image == "none":
        return FITS
    outside = [path for path in donor if not within(path, image)]
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
    *LOGINS,
    Fact("SELinux", _label_of_donor, _selinux_of_image, _selinux_rule),
    Fact("AppArmor", lambda donor: donor.directories, _profile_of_image, _profile_rule),
    Fact("programs", None, _missing_programs, _programs_rule),
)
