"""docs/aws-behaviours.md says which test holds each behaviour: the tests are there."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.aws import BEHAVIOURS, NAMED_TEST, behaviour_rows

ROOT = BEHAVIOURS.parents[1]
ROWS = list(behaviour_rows(BEHAVIOURS.read_text(encoding="utf-8")))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[2:60])
def test_a_behaviour_names_tests_that_there_are(row: str) -> None:
    named = NAMED_TEST.findall(row)
    assert named, "no test holds it"
    missing = [test for test in named if not _is_there(test)]
    assert not missing


def _is_there(test: str) -> bool:
    path, *names = test.split("::")
    file = Path(ROOT, path)
    if not names:
        return file.exists()
    text = file.read_text(encoding="utf-8")
    return all(f"def {name}(" in text or f"class {name}:" in text for name in names)
