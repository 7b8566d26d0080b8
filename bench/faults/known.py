"""Cells of the matrix that fail, each with its reason; what is named here is not in the sample of `make test`.

A pattern is a cell's name with `*`. `make faults` runs these too, and counts them as failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

KNOWN: Mapping[str, str] = {}


def why_known(name: str) -> str | None:
    """The reason for which a cell of this name may fail."""
    return next((why for pattern, why in KNOWN.items() if fnmatchcase(name, pattern)), None)
