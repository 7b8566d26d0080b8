"""Wheels of what is installed here, so that a test installs into an empty environment without the network.

An installed distribution is its wheel unpacked; packed again it has the same files and the same requirements. pip
resolves and installs them as it would from an index, so what a requirements file leaves out is missing here too. The
byte code that is there comes along: compiling the CDK takes longer than all else that a person does here.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import subprocess
import sys
import zipfile
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).resolve().parents[2]
BUILD_BACKEND = "setuptools"
# PEP 552: magic number, flags, then time and size or a hash of the source. With the flag it is taken as it is.
_PYC_HEADER_BYTES = 16
_TAKEN_AS_IT_IS = (0b01).to_bytes(4, "little")


def fill(wheelhouse: Path, *requirements: str) -> Path:
    """Put wheels of these requirements there, of all that they require in turn, and the build backend's own."""
    wheelhouse.mkdir(parents=True, exist_ok=True)
    for one in _closure(requirements):
        _pack(one, wheelhouse)
    [backend] = [one for one in requirements_in("requirements.in") if Requirement(one).name == BUILD_BACKEND]
    command = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*command, "--dest", str(wheelhouse), backend], check=True)
    return wheelhouse


def requirements_in(name: str) -> list[str]:
    """The lines of a requirements file that name a distribution."""
    lines = (REPOSITORY / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and line[0] not in "#-"]


def _closure(requirements: tuple[str, ...]) -> list[Distribution]:
    found: dict[str, Distribution] = {}
    done: set[tuple[str, frozenset[str]]] = set()
    waiting = [one for one in map(Requirement, requirements) if one.name != BUILD_BACKEND]
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
            if path.suffix == ".py" and (compiled := _byte_code(source, content)):
                entry = f"{path.parent.as_posix()}/__pycache__/{path.stem}.{sys.implementation.cache_tag}.pyc"
                archive.writestr(entry, compiled)
                record.append(f"{entry},,\n")
        archive.writestr(f"{info}/RECORD", "".join([*record, f"{info}/RECORD,,\n"]))


def give_byte_code(packages: Path, name: str) -> list[Path]:
    """Put the byte code that is here beside the same sources of a package there; returns the folders with it."""
    made: dict[Path, None] = {}
    for path in distribution(name).files or ():
        source = packages / path
        if path.suffix == ".py" and source.is_file():
            here = Path(str(distribution(name).locate_file(path)))
            content = source.read_bytes()
            if here.read_bytes() == content and (compiled := _byte_code(here, content)):
                target = Path(importlib.util.cache_from_source(str(source)))
                target.parent.mkdir(exist_ok=True)
                target.write_bytes(compiled)
                made[target.parent] = None
    return list(made)


def _byte_code(source: Path, content: bytes) -> bytes | None:
    """The byte code beside a source, if there is any; it is good wherever the source is unpacked."""
    compiled = Path(importlib.util.cache_from_source(str(source)))
    if not compiled.is_file():
        return None
    found = compiled.read_bytes()
    header = importlib.util.MAGIC_NUMBER + _TAKEN_AS_IT_IS + importlib.util.source_hash(content)
    return header + found[_PYC_HEADER_BYTES:] if found.startswith(importlib.util.MAGIC_NUMBER) else None
