"""An entry point: something of the product that is given what others wrote."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from hypothesis import strategies as st

from tests.hostile import mutations
from tests.hostile.payloads import NUMBERS, STRINGS


@dataclass(frozen=True)
class Form:
    """What a case is: how one is made of an example by the seeded mutator, and what hypothesis makes."""

    name: str
    mutate: Callable[[Any, Random], Any]
    strategy: st.SearchStrategy[Any]


_TEXTS = st.one_of(st.sampled_from(STRINGS), st.text(max_size=60))
_LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.sampled_from(NUMBERS), _TEXTS)
_DOCUMENTS = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(_TEXTS, inner, max_size=4)),
    max_leaves=8,
)
DOCUMENT = Form("document", mutations.hostile_document, _DOCUMENTS)
JSON_TEXT = Form("JSON", mutations.hostile_json, st.one_of(_TEXTS, _DOCUMENTS.map(mutations.dumped)))
TEXT = Form("text", mutations.hostile_text, _TEXTS)
BYTES = Form(
    "bytes",
    mutations.hostile_bytes,
    st.one_of(st.binary(max_size=300), _TEXTS.map(lambda text: text.encode("utf-8", "replace"))),
)
ROWS = Form(
    "rows",
    mutations.hostile_rows,
    st.lists(st.dictionaries(_TEXTS, st.one_of(st.none(), _TEXTS), max_size=5), max_size=3),
)
WORDS = Form(
    "words", mutations.hostile_words, st.lists(_TEXTS.filter(lambda text: "\x00" not in text), max_size=6)
)


def told_plainly(case: Any, answer: Any) -> None:
    """An error says something, in a length that a person and a log can bear."""
    if isinstance(answer, Exception):
        assert str(answer).strip(), "an error without a word"
        assert len(str(answer)) < 40_000, "an error as long as what it is about"


@dataclass(frozen=True)
class EntryPoint:
    """`call` takes one case and gives its answer, or raises one of `own`, the errors that name what is wrong.

    `covers` are the functions and models that decode what is given, by their dotted names. `after` looks at the case
    and its answer (or error) for what must not be there. `weight` is how many cases it gets, 1 being usual.
    """

    name: str
    form: Form
    call: Callable[[Any], Any]
    examples: Sequence[Any]
    own: tuple[type[BaseException], ...]
    covers: tuple[str, ...]
    after: Callable[[Any, Any], None] = told_plainly
    weight: float = 1.0

    def case(self, random: Random) -> Any:
        """The next case of the seeded mutator."""
        return self.form.mutate(random.choice(self.examples), random)
