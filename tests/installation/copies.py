"""Copies of what is installed here, so that a test's person installs without the network.

What a requirements file leaves out is missing in the copy too. The byte code that is here comes along: compiling the
CDK takes longer than all else that a person does here.
"""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).resolve().parents[2]


def copy_installed(packages: Path, *requirements: str) -> None:
    """Put there what these require, and what that requires in turn."""
    for one in _closure(requirements):
        for path in one.files or ():
            source, target = Path(str(one.locate_file(path))), packages / path
            if path.parts[0] != ".." and source.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)
        give_byte_code(packages, one.name)


def give_byte_code(packages: Path, name: str) -> list[Path]:
    """Put the byte code that is here beside the same sources of a package there; returns the folders with it."""
    made: dict[Path, None] = {}
    for path in distribution(name).files or ():
        here, there = Path(str(distribution(name).locate_file(path))), packages / path
        compiled = Path(importlib.util.cache_from_source(str(here)))
        if path.suffix == ".py" and compiled.is_file() and there.is_file():
            # Byte code is good for a source of that size and time.
            shutil.copystat(here, there)
            target = Path(importlib.util.cache_from_source(str(there)))
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(compiled, target)
            made[target.parent] = None
    return list(made)


def _closure(requirements: tuple[str, ...]) -> Iterator[Distribution]:
    done: set[tuple[str, frozenset[str]]] = set()
    waiting = list(map(Requirement, requirements))
    while waiting:
        wanted = waiting.pop()
        key = (canonicalize_name(wanted.name), frozenset(wanted.extras))
        if key in done:
            continue
        done.add(key)
        installed = distribution(wanted.name)
        yield installed
        for line in installed.requires or ():
            needed = Requirement(line)
            extras = wanted.extras or {""}
            if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in extras):
                waiting.append(needed)
