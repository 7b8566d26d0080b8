"""The blocks of one snapshot with their tokens, listed again when a token has expired.

In memory a block takes its token's length and 16 bytes: about 200 MB for each TiB that the snapshot holds.
"""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_left
from typing import Callable, List, Optional

from peaker_host.aws.direct_api import BlockPage
from peaker_host.blocks.ranges import Range
from peaker_host.machine.errors import BlockTokenRefused, DirectApiRefused

ListPage = Callable[[str], BlockPage]
"""The page that a token of a page names; the first one for an empty text."""


class BlockTokens:
    """`list_page` may be asked from several threads, by one at a time."""

    def __init__(self, list_page: ListPage) -> None:
        self._list_page = list_page
        self._lock = threading.Lock()
        self._generation = 0
        self._read()

    def _read(self) -> None:
        indices, ends, text = array("Q"), array("Q"), bytearray()
        page, last = "", -1
        while True:
            found = self._list_page(page)
            for index, token in found.blocks:
                if index <= last:
                    raise DirectApiRefused(f"the list of blocks is not ascending: {index} after {last}")
                last = index
                indices.append(index)
                text += token.encode("ascii")
                ends.append(len(text))
            self.volume_bytes = found.volume_bytes
            if not found.next_token:
                break
            if found.next_token == page:
                raise DirectApiRefused("a page of the list of blocks names itself as the next")
            page = found.next_token
        self._indices, self._ends, self._text = indices, ends, text

    @property
    def count(self) -> int:
        """Blocks that the snapshot holds."""
        return len(self._indices)

    def ranges(self) -> List[Range]:
        """The blocks as ascending ranges."""
        found: List[Range] = []
        for index in self._indices:
            if found and sum(found[-1]) == index:
                found[-1] = (found[-1][0], found[-1][1] + 1)
            else:
                found.append((index, 1))
        return found

    def token(self, index: int) -> "tuple[int, Optional[str]]":
        """(generation of the list, token); None where the snapshot has no such block: it reads as zeros."""
        with self._lock:
            place = bisect_left(self._indices, index)
            if place == len(self._indices) or self._indices[place] != index:
                return self._generation, None
            start = self._ends[place - 1] if place else 0
            return self._generation, self._text[start : self._ends[place]].decode("ascii")

    def renew(self, generation: int) -> None:
        """List again, unless another has since that generation. Raises BlockTokenRefused when that does not help."""
        with self._lock:
            if self._generation != generation:
                return
            before = self._indices
            self._read()
            if self._indices != before:
                raise BlockTokenRefused("the snapshot lists other blocks than before: it is another snapshot")
            self._generation += 1
