"""Pythons of this machine that are older than what Peaker needs on a host."""

from __future__ import annotations

from pathlib import Path

import pytest

# RHEL 8 has 3.6, Amazon Linux 2 has 3.7, Ubuntu 20.04 has 3.8.
TOO_OLD = ("3.6", "3.7", "3.8")


def python_of(version: str) -> Path:
    """Its interpreter; skips the test where this machine has none."""
    installed = [
        *Path("/root/.pyenv/versions").glob(f"{version}.*/bin/python{version}"),
        Path(f"/usr/bin/python{version}"),
    ]
    found = [path for path in installed if path.exists()]
    if not found:
        pytest.skip(f"no Python {version} on this machine")
    return found[0]
