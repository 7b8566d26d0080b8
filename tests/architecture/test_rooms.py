"""Rooms: small, in one order, each with a word at its door that says who lives there and what it may touch."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (
    "peaker",
    "peaker_contract",
    "peaker_host",
    "peaker_cli",
    "peaker_backtest",
    "peaker_pages",
    "stacks",
    "statemachines",
    "ssm_documents",
    "environments",
    "localcloud",
    "lab",
    "demo",
    "sim",
    "bench",
)
MODULES_IN_A_ROOM = 15
LINES_OF_A_FILE = 400
# What is still longer. Nothing is added here; what has become shorter is taken off.
LONGER = {
    "packages/localcloud/localcloud/extensions/elbv2/balancers.py",
    "packages/localcloud/localcloud/hosts/service_control.py",  # copied into images as one file
    "peaker_contract/catalogue.py",  # a table, a row per function
}
LAYERS_WITH_ROOMS = ("usecases", "domain", "adapters")


def rooms() -> Iterator[Path]:
    """Every folder of modules of ours."""
    for place in (ROOT, *(ROOT / name for name in ("functions", "host", "cli", "packages/localcloud"))):
        for package in PACKAGES:
            if (place / package).is_dir():
                files = (place / package).rglob("*.py")
                yield from sorted({file.parent for file in files})


ROOMS = sorted({room.relative_to(ROOT).as_posix() for room in rooms()})


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_holds_no_more_than_one_sees_at_once(room: str) -> None:
    modules = [path.stem for path in Path(ROOT, room).glob("*.py") if path.stem != "__init__"]
    assert len(modules) <= MODULES_IN_A_ROOM


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_says_who_lives_there(room: str) -> None:
    text = (ROOT / room / "__init__.py").read_text(encoding="utf-8")
    said = ast.get_docstring(ast.parse(text)) or ""
    assert said
    if Path(room).parent.name in LAYERS_WITH_ROOMS:
        assert len([line for line in said.splitlines() if line]) >= 2, "and what it may touch"


@pytest.mark.parametrize("room", ROOMS)
def test_no_tool_passes_a_room_by(room: str) -> None:
    """git, ruff, pytest and setuptools leave out folders of these names, in silence."""
    assert not {"build", "dist", "venv", "node_modules", "site-packages"} & set(room.split("/"))


def test_no_file_is_too_long_to_be_read_at_once() -> None:
    files = [file for room in ROOMS for file in (ROOT / room).glob("*.py")]
    long = {
        file.relative_to(ROOT).as_posix()
        for file in files
        if len(file.read_text(encoding="utf-8").splitlines()) > LINES_OF_A_FILE
    }
    assert long - LONGER == set(), (
        f"cut it where one thing ends and another begins, at {LINES_OF_A_FILE} lines"
    )


def test_no_module_imports_itself_over_others() -> None:
    """Imports inside functions count too."""
    assert circles(imported(for_types_alone=False)) == []


def test_no_module_needs_itself_for_its_types() -> None:
    """Who reads one of a circle has to read all of it."""
    assert circles(imported(for_types_alone=True)) == []


def test_the_picture_of_the_house_shows_who_imports_whom() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    drawn = set(re.findall(r"^ +(\w+) --> (\w+)$", page, re.MULTILINE))
    there = {
        (module.split(".")[0], other.split(".")[0])
        for module, others in imported(for_types_alone=True).items()
        for other in others
    }
    assert drawn == {(one, other) for one, other in there if one != other}


@cache
def imported(for_types_alone: bool) -> dict[str, set[str]]:
    """Module to the modules that it imports, over the whole tree; with those that only its types need, or without."""
    graph = grimp.build_graph(*PACKAGES, exclude_type_checking_imports=not for_types_alone, cache_dir=None)
    return {module: set(graph.find_modules_directly_imported_by(module)) for module in graph.modules}


def circles(imports: dict[str, set[str]]) -> list[set[str]]:
    """Sets of modules of which each reaches each other."""
    reached = {module: _reached(imports, module) for module in imports}
    found: list[set[str]] = []
    for module in sorted(imports):
        if module in reached[module] and not any(module in circle for circle in found):
            found.append({other for other in reached[module] if module in reached[other]})
    return found


def _reached(imports: dict[str, set[str]], module: str) -> set[str]:
    seen: set[str] = set()
    waiting = [module]
    while waiting:
        for other in imports[waiting.pop()] - seen:
            seen.add(other)
            waiting.append(other)
    return seen


def test_no_two_test_modules_have_one_name() -> None:
    """pytest imports them by their names alone; a second one of a name ends the collection of both."""
    files = [
        path
        for folder in ("tests", "packages/localcloud/tests")
        for path in (ROOT / folder).rglob("test_*.py")
    ]
    names = [path.name for path in files]
    assert {name for name in names if names.count(name) > 1} == set()
