"""The snapshot's block list as a compact file.

{"block_bytes": 524288, "volumes": {"<volume id or name>": "0-99,105,200-299"}}
"""

from __future__ import annotations

import json
import os
import re
import time
from typing import Any, Dict, List

from peaker_host.blocks.ranges import BLOCK_BYTES, Range, blocks_of_bytes, intersection, merged
from peaker_host.machine.errors import BlockListUnreadable, understood
from peaker_host.machine.settings import Settings

FILE = "blocks.json"
_TRY_TIMEOUT_SECONDS = 30
# No SDK is here that would ask S3 again; all tries end before the step does, also where each byte comes late.
_PAUSES_SECONDS = (1.0, 2.0, 4.0, 8.0)
_ALL_TRIES_SECONDS = 90.0
# Of 64 TiB, the largest volume, in runs of one block each.
_MOST_BYTES = 2 * 1024**3
# A hundred times that volume; larger numbers are no blocks.
_MOST_BLOCKS = 2**34
_RUN = re.compile(r"([0-9]{1,12})(?:-([0-9]{1,12}))?")


def fetch(url: str, path: str) -> None:
    """Store the list behind a (presigned) address as a local file. The address is never shown: it is a secret.

    A store that is busy and a connection that is cut are asked again, five times and for 90 s at most. Raises
    BlockListUnreadable.
    """
    from http.client import HTTPException

    until = time.monotonic() + _ALL_TRIES_SECONDS
    for pause_seconds in (*_PAUSES_SECONDS, None):
        try:
            _fetch_once(url, path, until)
        except (OSError, ValueError, HTTPException) as error:
            if pause_seconds is None or not _may_pass(error) or time.monotonic() > until:
                raise BlockListUnreadable(
                    f"the block list could not be fetched: {_error_kind(error)}"
                ) from error
            time.sleep(pause_seconds)
        else:
            return


def _fetch_once(url: str, path: str, until: float) -> None:
    import urllib.request  # costs more to import than the rest of an engine's start
    from http.client import IncompleteRead

    with urllib.request.urlopen(url, timeout=_TRY_TIMEOUT_SECONDS) as answer, open(path, "wb") as file:
        while piece := answer.read(64 * 1024):
            file.write(piece)
            if time.monotonic() > until:
                raise TimeoutError(f"not whole after {_ALL_TRIES_SECONDS:g} s")
            if file.tell() > _MOST_BYTES:
                raise ValueError("too long")
        missing_bytes = getattr(answer, "length", None)  # of HTTP
        if missing_bytes:
            # A read of a given size does not say itself that it was cut.
            raise IncompleteRead(b"", missing_bytes)


def _may_pass(error: Exception) -> bool:
    """Tells whether another try may succeed: an expired address stays refused."""
    status = getattr(error, "code", None)
    if isinstance(status, int):
        return status >= 500 or status == 429
    return not isinstance(error, ValueError)


def _error_kind(error: Exception) -> str:
    """Names an error by its kind alone: its text may hold the address."""
    status, reason = getattr(error, "code", None), getattr(error, "reason", None)
    if isinstance(status, int):
        return f"HTTPError {status}"
    return type(reason if isinstance(reason, Exception) else error).__name__


def load(path: str) -> Dict[str, List[Range]]:
    """Reads block ranges by volume. Raises BlockListUnreadable with the place named."""
    try:
        with open(path, encoding="utf-8") as file, understood(BlockListUnreadable, path):
            content = json.load(file)
    except OSError as error:
        raise BlockListUnreadable(f"{path}: {error}") from error
    if not isinstance(content, dict) or not isinstance(content.get("volumes"), dict):
        raise BlockListUnreadable(f"{path}: needs an object with the field volumes")
    if content.get("block_bytes", BLOCK_BYTES) != BLOCK_BYTES:
        raise BlockListUnreadable(f"{path}: block_bytes must be {BLOCK_BYTES}")
    return {str(name): _ranges(runs, f"volumes.{name}") for name, runs in content["volumes"].items()}


def of_run(settings: Settings, run_id: str) -> Dict[str, List[Range]]:
    """Returns the block list that start_prewarm fetched for the run; empty where it had none."""
    path = settings.run_path(run_id, FILE)
    return load(path) if os.path.exists(path) else {}


def present_blocks(lists: Dict[str, List[Range]], volume_id: str, name: str, size_bytes: int) -> List[Range]:
    """Returns the blocks that a volume's snapshot holds, listed by id or by name; all of them without its list."""
    everything = blocks_of_bytes([(0, size_bytes)])
    listed = lists.get(volume_id, lists.get(name))
    return everything if listed is None else intersection(listed, everything)


def _ranges(runs: Any, place: str) -> List[Range]:
    if not isinstance(runs, str):
        raise BlockListUnreadable(f"{place[:60]}: must be a text like 0-99,105")
    return merged(_run(run, place) for run in runs.replace(" ", "").split(",") if run)


def _run(run: str, place: str) -> Range:
    found = _RUN.fullmatch(run)
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
    if not first <= last < _MOST_BLOCKS:
        raise BlockListUnreadable(f"{place[:60]}: {run[:60]!r} is not a block or a range of blocks")
    return first, last - first + 1
