"""docs/aws-behaviours.md says which test holds each behaviour: the tests are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMED_TEST = re.compile(r"`((?:packages/\w+/)?tests/[^`]*)`")
PAGE = (ROOT / "docs" / "aws-behaviours.md").read_text(encoding="utf-8")
ROWS = [
    line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith(("| what ", "|---"))
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[2:60])
def test_a_behaviour_names_tests_that_there_are(row: str) -> None:
    named = NAMED_TEST.findall(row)
    assert named, "no test holds it"
    missing = [test for test in named if not _is_there(test)]
    assert not missing


def _is_there(test: str) -> bool:
    """As pytest finds it: a function of the module, or a method of the class that is named before it."""
    path, *names = test.split("::")
    file = Path(ROOT, path)
    if not names:
        return file.exists()
    inside: list[ast.stmt] = ast.parse(file.read_text(encoding="utf-8")).body
    for name in names:
        found = [
            one for one in inside if isinstance(one, ast.ClassDef | ast.FunctionDef) and one.name == name
        ]
        if not found:
            return False
        inside = found[0].body
    return True
