"""Errors are read by people: each has a remedy, and an invariant is said in words before its number."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from peaker_contract import errors

ROOT = Path(__file__).resolve().parents[3]
SOURCES = [*(ROOT / "functions" / "peaker").rglob("*.py"), *(ROOT / "cli").rglob("*.py")]
FAMILIES = (errors.NotYet, errors.Retryable, errors.Refused, errors.Failed)
ERRORS = [
    one
    for one in vars(errors).values()
    if isinstance(one, type) and issubclass(one, FAMILIES) and one not in FAMILIES
]
INVARIANT = re.compile(r"\bI\d{1,2}\b")
WORDS_THEN_NUMBER = re.compile(r"[^;:(]*\w+ \w+[^;:(]*\(I\d{1,2}\)")


@pytest.mark.parametrize("error", ERRORS, ids=lambda one: one.__name__)
def test_every_error_says_what_to_do(error: type[errors.PeakerError]) -> None:
    assert error.remedy.endswith(".")
    assert error("it broke").sentence == f"it broke. {error.remedy}"
    assert error("it broke.").sentence == f"it broke. {error.remedy}"


def test_a_very_long_message_leaves_room_for_its_remedy() -> None:
    told = errors.HostCommandFailed("x" * 100_000).sentence
    assert len(told) < 9000
    assert told.endswith(errors.HostCommandFailed.remedy)


def texts(path: Path) -> Iterator[str]:
    """String literals of a module but docstrings; the parts of an f-string together, values as {}."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    inside: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            inside |= {id(part) for part in node.values}
            parts = [str(one.value) if isinstance(one, ast.Constant) else "{}" for one in node.values]
            yield "".join(parts)
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in docstrings | inside
        ):
            yield node.value


def test_an_invariant_is_said_in_words_with_its_number_after() -> None:
    cited = [text for path in SOURCES for text in texts(path) if INVARIANT.search(text)]
    assert len(cited) > 20, "the search finds the messages"
    bare = [text for text in cited if len(INVARIANT.findall(text)) != len(WORDS_THEN_NUMBER.findall(text))]
    assert bare == []
