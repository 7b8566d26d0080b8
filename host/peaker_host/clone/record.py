"""What a clone publishes, as a prewarm does: prewarm.json and prewarm.jsonl of the run, for report_prewarm."""

from __future__ import annotations

import json
import os
import time
from typing import Any, Callable, Dict, Optional

from peaker_host.blocks.ranges import BLOCK_BYTES
from peaker_host.clone.recipient import Copied
from peaker_host.clone.request import METHOD
from peaker_host.machine.errors import HostError, UnreadableFile
from peaker_host.machine.files import read_json, write_json
from peaker_host.machine.settings import Settings
from peaker_host.machine.understanding import understood
from peaker_host.warm.progress import MIB, MeanRate, sentence

_LOG_SECONDS = 10.0


class CloneRecord:
    """Seconds over all engines of the run; of what is copied, that of this engine: a clone begins anew."""

    def __init__(self, settings: Settings, run_id: str, say: Callable[[str], None]) -> None:
        self._path = settings.run_path(run_id, "prewarm.json")
        self._log_path = settings.run_path(run_id, "prewarm.jsonl")
        self._run_id = run_id
        self._say = say
        self._started = self._logged = time.monotonic()
        self._rate = MeanRate(self._started)
        self._copied = Copied(0, 0)
        earlier = read_json(self._path) or {}
        with understood(UnreadableFile, self._path, "delete it"):
            self._elapsed_before = float(earlier.get("elapsed_seconds", 0.0))
            self._restarts = int(earlier.get("restarts", -1)) + 1

    def copied(self, found: Copied) -> None:
        """How far it is; published, and logged every ten seconds."""
        self._copied = found
        progress = self.publish("running")
        if time.monotonic() - self._logged >= _LOG_SECONDS:
            self.log(progress)

    def publish(self, state: str, error: Optional[HostError] = None) -> Dict[str, Any]:
        """Replace prewarm.json; returns what is in it."""
        progress = self._progress(state)
        if error is not None:
            progress["error"], progress["message"] = type(error).__name__, str(error)
        write_json(self._path, progress)
        return progress

    def log(self, progress: Dict[str, Any]) -> None:
        """One line for machines, one for people."""
        self._logged = time.monotonic()
        with open(self._log_path, "a", encoding="ascii") as log:
            log.write(json.dumps(dict(progress, at=round(time.time(), 3))) + "\n")
        self._say(sentence(progress))

    def _progress(self, state: str) -> Dict[str, Any]:
        now, copied = time.monotonic(), self._copied
        rate = self._rate.observe(now, copied.bytes_done)
        left = copied.bytes_total - copied.bytes_done
        eta = None if rate <= 0 or not copied.bytes_total else round(left / MIB / rate, 1)
        elapsed = now - self._started
        if state == "done":
            eta, rate = 0.0, copied.bytes_done / MIB / max(elapsed, 0.001)
        return {
            "state": state,
            "run_id": self._run_id,
            "method": METHOD,
            "pid": os.getpid(),
            "blocks_done": copied.bytes_done // BLOCK_BYTES,
            "blocks_total": -(-copied.bytes_total // BLOCK_BYTES),
            "bytes_read": copied.bytes_done,
            "rate_mib_per_s": round(rate, 1),
            "eta_seconds": eta,
            "elapsed_seconds": round(self._elapsed_before + elapsed, 3),
            # No database starts before all is there.
            "hot_unknown": "",
            "restarts": self._restarts,
        }
