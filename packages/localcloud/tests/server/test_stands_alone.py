"""The package, its tests too, imports nothing of the repository around it: what it needs is in its project file."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((PACKAGE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OWN = {"localcloud", "cloud_rig"}
# Of the tests alone; the repository's requirements-dev.txt has them.
FOR_TESTS = {"pytest", "hypothesis", "pymysql", "cfnlint"}


def imported(path: Path) -> Iterator[str]:
    """The first word of each import of a file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name.split(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield str(node.module).split(".")[0]


def required() -> set[str]:
    """The modules of what the project file requires, and of what that requires in turn."""
    found: set[str] = set()
    waiting = [re.split(r"[\s<>=\[;]", line)[0] for line in PROJECT["dependencies"]]
    while waiting:
        name = waiting.pop().lower().replace("_", "-")
        if name in found:
            continue
        found.add(name)
        try:
            waiting += [
                re.split(r"[\s<>=!~\[;(]", line)[0] for line in importlib.metadata.requires(name) or ()
            ]
        except importlib.metadata.PackageNotFoundError:
            continue  # an extra that nothing here asked for
    modules = importlib.metadata.packages_distributions()
    return {
        module for module, names in modules.items() if found & {n.lower().replace("_", "-") for n in names}
    }


def test_it_imports_itself_and_what_its_project_file_requires() -> None:
    allowed = OWN | required() | FOR_TESTS | set(sys.stdlib_module_names)
    foreign = {
        f"{path.relative_to(PACKAGE)}: {name}"
        for path in PACKAGE.rglob("*.py")
        for name in imported(path)
        if name not in allowed and not (path.parent / f"{name}.py").is_file()
    }
    assert foreign == set()


def test_every_file_that_it_reads_is_in_the_wheel() -> None:
    data = tomllib.loads((PACKAGE / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"][
        "package-data"
    ]["localcloud"]
    top = PACKAGE / "localcloud"
    packed = {path for pattern in data for path in top.glob(pattern)}
    files = {path for path in top.rglob("*") if path.is_file() and path.suffix not in {".py", ".pyc"}}
    assert files <= packed
