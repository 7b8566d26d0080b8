"""The record publishes an engine's run, and reads an earlier engine's.

In the state directory: prewarm.json (latest progress), prewarm.jsonl (one line per look for the log).
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence

from peaker_host.blocks import timed_reads
from peaker_host.machine.errors import HostError, UnreadableFile, understood
from peaker_host.machine.files import read_json, write_json
from peaker_host.machine.settings import Settings
from peaker_host.warm.planned import PlannedVolume
from peaker_host.warm.progress import MIB, MeanRate, eta_seconds, sentence
from peaker_host.warm.reading_order import PrewarmRequest
from peaker_host.warm.volume_work import VolumeWork

_REMEDY = "delete it: the journal knows what was read"


class Record:
    """The record sums over all engines of the run; times in seconds."""

    def __init__(self, settings: Settings, request: PrewarmRequest, say: Callable[[str], None]) -> None:
        self._settings = settings
        self._request = request
        self._say = say
        self._started = time.monotonic()
        self._path = settings.run_path(request.run_id, "prewarm.json")
        earlier = read_json(self._path) or {}
        with understood(UnreadableFile, self._path, _REMEDY):
            self._elapsed_before = float(earlier.get("elapsed_seconds", 0.0))
            self._restarts = int(earlier.get("restarts", -1)) + 1
            self._bytes_before = int(earlier.get("bytes_read", 0))
            hot_warm = earlier.get("hot_warm_seconds")
            self._hot_warm_seconds = None if hot_warm is None else float(hot_warm)
        self._used_warm_seconds: Optional[float] = None
        self._planning_seconds = 0.0
        self._hot_unknown = ""
        self._rate = MeanRate(self._started)
        self._works: Sequence[VolumeWork] = ()

    def publish(self, state: str, error: Optional[HostError] = None) -> Dict[str, Any]:
        progress = self._progress(state)
        if error is not None:
            progress["error"], progress["message"] = type(error).__name__, str(error)
        elif state == "dead":
            progress["error"] = "Interrupted"
            progress["message"] = "stopped before the end; start again to resume"
        with self._despite_full_disk():
            write_json(self._path, progress)
        return progress

    def log(self, progress: Dict[str, Any]) -> None:
        kept = {key: value for key, value in progress.items() if key != "volumes"}
        path = self._settings.run_path(self._request.run_id, "prewarm.jsonl")
        with self._despite_full_disk(), open(path, "a", encoding="ascii") as log:
            log.write(json.dumps(dict(kept, at=round(time.time(), 3))) + "\n")
        self._say(sentence(progress))

    @contextlib.contextmanager
    def _despite_full_disk(self) -> Iterator[None]:
        """Ignores a full disk: progress files must not end hours of work."""
        try:
            yield
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            self._say(f"not written, the disk is full: {error.filename or self._settings.state_dir}")

    def planned(self, works: Sequence[VolumeWork], bytes_read: int, hot_unknown: str) -> None:
        """Begins to count the warming; `bytes_read` of the volumes were read for the plan."""
        self._works = works
        self._bytes_before += bytes_read
        self._hot_unknown = hot_unknown
        self._planning_seconds = round(time.monotonic() - self._started, 3)
        self._rate = MeanRate(time.monotonic())

    def keep_probes(self, planned: Sequence[PlannedVolume]) -> None:
        """Note how slow volumes were before anything warmed them."""
        probes = {one.member.volume_id: one.probe for one in planned if one.probe is not None}
        if probes:
            with self._despite_full_disk():
                timed_reads.keep(self._settings, self._request.run_id, probes)

    @property
    def is_used_warm(self) -> bool:
        """True once it was published that all but the remainder is read."""
        return self._used_warm_seconds is not None

    def has_news(self) -> bool:
        """Tells whether the hot set, or all but the remainder, has become warm since the last publication."""
        return self._hot_warm_now() or self._used_warm_now()

    def _progress(self, state: str) -> Dict[str, Any]:
        now, works = time.monotonic(), self._works
        bytes_here = sum(work.pool.progress.bytes_read for work in works)
        rate = self._rate.observe(now, bytes_here)
        left = [work.left(urgent_only=False) for work in works]
        rates = [work.mean_rate.observe(now, work.pool.progress.bytes_read) for work in works]
        elapsed = now - self._started
        self._note_ends(self._elapsed_before + elapsed)
        mean = bytes_here / MIB / max(elapsed - self._planning_seconds, 0.001)
        used = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "state": state,
            "run_id": self._request.run_id,
            "with_remainder": self._request.with_remainder,
            "pid": os.getpid(),
            "blocks_done": sum(work.blocks_done for work in works),
            "blocks_total": sum(work.blocks_total for work in works),
            "bytes_read": self._bytes_before + bytes_here,
            "rate_mib_per_s": round(mean if state == "done" else rate, 1),
            # Of what must be read before the replica goes on; the remainder follows at leisure.
            "eta_seconds": eta_seconds(zip(left, rates), state) if works or state == "done" else None,
            "elapsed_seconds": round(self._elapsed_before + elapsed, 3),
            "hot_warm_seconds": self._hot_warm_seconds,
            "hot_eta_seconds": self._hot_eta(rates),
            "hot_unknown": self._hot_unknown,
            "throttled": "; ".join(
                f"{work.planned.member.name}: {clause}"
                for work in works
                if (clause := work.throttling.clause())
            ),
            "used_warm_seconds": self._used_warm_seconds,
            "planning_seconds": self._planning_seconds,
            "cpu_seconds": round(used.ru_utime + used.ru_stime, 3),
            "restarts": self._restarts,
            "volumes": [work.progress() for work in works],
        }

    def _note_ends(self, elapsed_seconds: float) -> None:
        """Notes the ends of the urgent tiers of every volume, and of all but the remainder."""
        if self._hot_warm_now():
            self._hot_warm_seconds = round(elapsed_seconds, 3)
        if self._used_warm_now():
            self._used_warm_seconds = round(elapsed_seconds, 3)

    def _used_warm_now(self) -> bool:
        return bool(
            self._used_warm_seconds is None
            and self._works
            and not any(work.left(urgent_only=False) for work in self._works)
        )

    def _hot_warm_now(self) -> bool:
        """Tells whether the urgent tiers are read and that is not published yet."""
        return (
            self._hot_warm_seconds is None
            and self._knows_hot()
            and not any(work.left(urgent_only=True) for work in self._works)
        )

    def _knows_hot(self) -> bool:
        """Without a page list nothing is known to be hot."""
        return any(work.planned.knows_hot for work in self._works)

    def _hot_eta(self, rates_mib_per_s: List[float]) -> Optional[float]:
        """Seconds until the urgent tiers are read; None where nothing is known to be hot, or no rate.

        Until there is a rate, by the one that the look at the cold volume lets expect.
        """
        if self._hot_warm_seconds is not None:
            return 0.0
        if not self._knows_hot():
            return None
        left = [work.left(urgent_only=True) for work in self._works]
        now = time.monotonic()
        rates = [work.urgent_rate_mib_per_s(now, rate) for work, rate in zip(self._works, rates_mib_per_s)]
        return eta_seconds(zip(left, rates), "running")
