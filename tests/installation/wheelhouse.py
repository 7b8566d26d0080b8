"""Wheels of what is installed here, so that a test installs into an empty environment without the network.

An installed distribution is its wheel unpacked; packed again it has the same files and the same requirements. pip
resolves and installs them as it would from an index, so what a requirements file leaves out is missing here too.
"""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
import zipfile
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).resolve().parents[2]
# The build backend is no part of any environment: pip fetches it for each build.
BUILD_BACKEND = "setuptools>=77"


def fill(wheelhouse: Path, *requirements: str) -> Path:
    """Put wheels of these requirements there, of all that they require in turn, and of the build backend."""
    wheelhouse.mkdir(parents=True, exist_ok=True)
    for one in _closure(requirements):
        _pack(one, wheelhouse)
    command = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*command, "--dest", str(wheelhouse), BUILD_BACKEND], check=True)
    return wheelhouse


def requirements_in(name: str) -> list[str]:
    """The lines of a requirements file that name a distribution."""
    lines = (REPOSITORY / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and line[0] not in "#-"]


def _closure(requirements: tuple[str, ...]) -> list[Distribution]:
    found: dict[str, Distribution] = {}
    done: set[tuple[str, frozenset[str]]] = set()
    waiting = [Requirement(one) for one in requirements]
    while waiting:
        wanted = waiting.pop()
        key = (canonicalize_name(wanted.name), frozenset(wanted.extras))
        if key in done:
            continue
        done.add(key)
        installed = found.setdefault(key[0], distribution(wanted.name))
        for line in installed.requires or ():
            needed = Requirement(line)
            extras = wanted.extras or {""}
            if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in extras):
                waiting.append(needed)
    return list(found.values())


def _pack(installed: Distribution, wheelhouse: Path) -> None:
    record, info = [], ""
    name = canonicalize_name(installed.name).replace("-", "_")
    tags = [line for line in (installed.read_text("WHEEL") or "").splitlines() if line.startswith("Tag: ")]
    wheel = wheelhouse / f"{name}-{installed.version}-{tags[-1].removeprefix('Tag: ')}.whl"
    if wheel.is_file():
        return
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_STORED) as archive:
        for path in installed.files or ():
            if path.suffix == ".pyc" or path.parts[0] == ".." or path.name in {"INSTALLER", "REQUESTED"}:
                continue
            if path.name == "RECORD" and path.parent.name.endswith(".dist-info"):
                info = path.parent.name
                continue
            source = Path(str(installed.locate_file(path)))
            content = source.read_bytes()
            entry = zipfile.ZipInfo(path.as_posix())
            entry.external_attr = source.stat().st_mode << 16  # pip keeps what can be executed executable
            archive.writestr(entry, content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{path.as_posix()},sha256={digest},{len(content)}\n")
        archive.writestr(f"{info}/RECORD", "".join([*record, f"{info}/RECORD,,\n"]))
