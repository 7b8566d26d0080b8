"""A run's storage is proven once its proof said warm; disturbing work waits for that."""

from __future__ import annotations

import os

from peaker_host.machine.files import write_json
from peaker_host.machine.settings import Settings

_FILE = "proven.json"


def note_proven(settings: Settings, run_id: str) -> None:
    """The proof of the run said warm."""
    write_json(settings.run_path(run_id, _FILE), {"verdict": "warm"})


def is_proven(settings: Settings, run_id: str) -> bool:
    """Tells whether the run's proof has ever said warm."""
    return os.path.exists(settings.run_path(run_id, _FILE))
