"""Whether the storage proof of a run has said warm: what would disturb it, or be measured by it, waits for that."""

from __future__ import annotations

import os

from peaker_host.machine.files import write_json
from peaker_host.machine.settings import Settings

_FILE = "proven.json"


def note_proven(settings: Settings, run_id: str) -> None:
    """The proof of the run said warm."""
    write_json(settings.run_path(run_id, _FILE), {"verdict": "warm"})


def is_proven(settings: Settings, run_id: str) -> bool:
    """Whether it has ever done so."""
    return os.path.exists(settings.run_path(run_id, _FILE))
