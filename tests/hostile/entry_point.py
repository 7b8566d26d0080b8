"""An entry point: something of the product that is given what others wrote."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.hostile import mutations


@dataclass(frozen=True)
class Form:
    """The form of a case, and the mutator that makes one of an example."""

    name: str
    mutate: Callable[[Any, Random], Any]


DOCUMENT = Form("document", mutations.hostile_document)
JSON_TEXT = Form("JSON", mutations.hostile_json)
TEXT = Form("text", mutations.hostile_text)
BYTES = Form("bytes", mutations.hostile_bytes)
ROWS = Form("rows", mutations.hostile_rows)
WORDS = Form("words", mutations.hostile_words)


def told_plainly(case: Any, answer: Any) -> None:
    """An error says something, in a length that a person and a log can bear."""
    if isinstance(answer, Exception):
        assert str(answer).strip(), "an error without a word"
        assert len(str(answer)) < 40_000, "an error as long as what it is about"


@dataclass(frozen=True)
class EntryPoint:
    """`call` takes one case and gives its answer, or raises one of `own`, the errors that name what is wrong.

    `after` looks at the case and its answer (or error) for what must not be there. `weight` is how many cases it gets,
    1 being usual.
    """

    name: str
    form: Form
    call: Callable[[Any], Any]
    examples: Sequence[Any]
    own: tuple[type[BaseException], ...]
    after: Callable[[Any, Any], None] = told_plainly
    weight: float = 1.0

    def case(self, random: Random) -> Any:
        """The next case of the seeded mutator."""
        return self.form.mutate(random.choice(self.examples), random)
