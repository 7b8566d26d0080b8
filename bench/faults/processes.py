"""Work of a bench in a process for each processor."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

GivenT = TypeVar("GivenT")
ResultT = TypeVar("ResultT")


def each(work: Callable[[GivenT], ResultT], chosen: Sequence[GivenT], noun: str) -> Iterator[ResultT]:
    """The results in the order in which they come; prints how far it is."""
    began = told = time.monotonic()
    with multiprocessing.get_context("fork").Pool(os.cpu_count()) as pool:
        for done, result in enumerate(pool.imap_unordered(work, chosen, chunksize=8), start=1):
            yield result
            if time.monotonic() - told > 2:
                told = time.monotonic()
                print(f"\r{done} of {len(chosen)} {noun}, {told - began:.0f} s", end="", flush=True)
    print(f"\r{len(chosen)} {noun} in {time.monotonic() - began:.0f} s")
