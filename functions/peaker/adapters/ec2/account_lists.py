"""Lists of the whole account: a plan reads them as far as its function's time allows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from peaker.domain.reading import Unknown

# A plan reads up to three lists, and its function has 60 s.
SECONDS_AT_MOST = 10.0

PageT = TypeVar("PageT")
FoundT = TypeVar("FoundT")


def read_in_time(
    pages: Iterable[PageT],
    read: Callable[[PageT], Iterable[FoundT]],
    pages_at_most: int,
    of: str,
    seconds: Callable[[], float],
) -> list[FoundT] | Unknown:
    """All that `read` finds on the pages; Unknown of a list that has more pages or takes longer. `of` names it."""
    until = seconds() + SECONDS_AT_MOST
    found: list[FoundT] = []
    for number, page in enumerate(pages):
        if number == pages_at_most:
            return Unknown(f"the list of the account's {of} has more than {pages_at_most} pages")
        if seconds() > until:
            return Unknown(f"the list of the account's {of} took more than {SECONDS_AT_MOST:.0f} s")
        found += read(page)
    return found
