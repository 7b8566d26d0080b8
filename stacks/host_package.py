"""The package that Peaker installs on its hosts, built at synth so that its hash is in the template."""

from __future__ import annotations

import runpy
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
BUILDER = REPOSITORY / "host" / "build_package.py"


@dataclass(frozen=True)
class HostPackage:
    """A .pyz file and the SHA-256 of its bytes, in hex."""

    path: Path
    sha256: str


def build_host_package(directory: Path = REPOSITORY / "build" / "host") -> HostPackage:
    """Build the package with its own builder; two builds of the same sources are the same bytes."""
    build = runpy.run_path(str(BUILDER))["build"]
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "peaker_host.pyz"
    return HostPackage(path, str(build(path)))
