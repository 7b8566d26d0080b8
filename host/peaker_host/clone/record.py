"""What a clone publishes, as a prewarm does, for report_prewarm."""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Dict

from peaker_host.blocks.ranges import BLOCK_BYTES
from peaker_host.clone.recipient import Copied
from peaker_host.clone.request import METHOD
from peaker_host.machine.settings import Settings
from peaker_host.warm.progress import MIB, MeanRate
from peaker_host.warm.record import Record

_LOG_SECONDS = 10.0


class CloneRecord(Record):
    """Of what is copied, that of this engine: a clone begins anew."""

    def __init__(self, settings: Settings, run_id: str, say: Callable[[str], None]) -> None:
        super().__init__(settings, run_id, say)
        self._logged = self._started
        self._rate = MeanRate(self._started)
        self._copied = Copied(0, 0)

    def copied(self, found: Copied) -> None:
        """How far it is; published, and logged every ten seconds."""
        self._copied = found
        progress = self.publish("running")
        if time.monotonic() - self._logged >= _LOG_SECONDS:
            self._logged = time.monotonic()
            self.log(progress)

    def _progress(self, state: str) -> Dict[str, Any]:
        now, copied = time.monotonic(), self._copied
        rate = self._rate.observe(now, copied.bytes_done)
        left = copied.bytes_total - copied.bytes_done
        eta = None if rate <= 0 or not copied.bytes_total else round(left / MIB / rate, 1)
        if state == "done":
            eta, rate = 0.0, copied.bytes_done / MIB / max(now - self._started, 0.001)
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
            "elapsed_seconds": round(self._elapsed(), 3),
            "restarts": self._restarts,
        }
