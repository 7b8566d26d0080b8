"""botocore's service models, read from their files once for all sessions of this process."""

from __future__ import annotations

import functools

from botocore.loaders import JSONFileLoader


def remember_service_models() -> None:
    """Nobody changes what a file of botocore holds: one reading serves every session."""
    read = JSONFileLoader.load_file
    remembered = functools.cache(lambda path: read(JSONFileLoader(), path))
    JSONFileLoader.load_file = lambda _, path: remembered(path)  # type: ignore[method-assign]
