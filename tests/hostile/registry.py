"""Every entry point of the product, one table."""

from __future__ import annotations

import functools

from tests.hostile import of_functions, of_hosts, of_people
from tests.hostile.entry_point import EntryPoint

__all__ = ["EntryPoint", "entry_points"]


@functools.cache
def entry_points() -> tuple[EntryPoint, ...]:
    """In the order in which they are run."""
    return (*of_functions.entries(), *of_hosts.entries(), *of_people.entries())
