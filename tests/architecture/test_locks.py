"""What is fetched from elsewhere is named with its hash: Python's distributions, npm's packages."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
LOCKS = {
    name: ROOT / f"{name}.txt"
    for name in ("requirements", "requirements-local", "requirements-dev", "functions/requirements")
}
BLOCK = re.compile(r"^([^#\s].*?) \\\n((?:    --hash=.*\n?)+)", re.MULTILINE)


def locked(name: str) -> dict[str, str]:
    """Version by name of each distribution in a file."""
    found = [Requirement(line) for line, _ in BLOCK.findall(LOCKS[name].read_text(encoding="utf-8"))]
    return {canonicalize_name(one.name): str(one.specifier).removeprefix("==") for one in found}


def asked(path: Path) -> dict[str, str]:
    """What a short file asks for, and those that it includes."""
    lines = path.read_text(encoding="utf-8").splitlines()
    found: dict[str, str] = {}
    for line in lines:
        if line.startswith("-r "):
            found |= asked(path.parent / line.removeprefix("-r "))
        elif line and not line.startswith("#"):
            one = Requirement(line)
            found[canonicalize_name(one.name)] = str(one.specifier).removeprefix("==")
    return found


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_has_the_versions_that_its_short_file_asks_for(name: str) -> None:
    """After a change of a short file: `make requirements`."""
    wanted = asked(LOCKS[name].with_suffix(".in"))
    assert wanted == {one: locked(name).get(one) for one in wanted}


@pytest.mark.parametrize("name", LOCKS)
def test_all_locks_have_the_same_versions(name: str) -> None:
    everything = locked("requirements-dev")
    assert locked(name) == {one: everything.get(one) for one in locked(name)}


def test_every_package_of_npm_has_its_integrity_and_is_installed_by_it() -> None:
    packages = json.loads((ROOT / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    fetched = {name: package for name, package in packages.items() if name}
    assert fetched
    assert [name for name, one in fetched.items() if not one.get("integrity", "").startswith("sha512-")] == []
    assert "npm ci " in (ROOT / "scripts" / "setup").read_text(encoding="utf-8")


def test_the_set_up_installs_nothing_without_a_hash_but_this_checkout() -> None:
    text = (ROOT / "scripts" / "setup").read_text(encoding="utf-8")
    [by_pip] = re.findall(r"^.*-m pip install.*$", text, re.MULTILINE)
    assert by_pip.endswith('"$@"')
    installs = re.findall(r"^.*(?:install_with_pip --|uv pip install).*$", text, re.MULTILINE)
    assert [
        one for one in installs if "--require-hashes" not in one and "--no-build-isolation" not in one
    ] == []
    assert len(installs) == 4
