"""The prewarm engine of one run: plans the order per volume, reads all volumes in parallel, reports, resumes.

Files of a run in the state directory: prewarm.lock (held while the engine runs), prewarm.json (latest progress,
replaced at least once a second), prewarm.jsonl (one line per 10 s and at the end), blocks.json (the snapshots' block
list), prewarm.log. Journals are per volume: journals/<volume id>.journal.
"""

import signal
import threading
import time
from typing import Any, Callable, Dict, List

from peaker_host.machine.errors import HostError, Interrupted, ReadErrors
from peaker_host.machine.manifest import load_manifest
from peaker_host.machine.settings import Machine
from peaker_host.warm.plan import Planner
from peaker_host.warm.planned import PlannedVolume
from peaker_host.warm.progress import take_lock
from peaker_host.warm.reading_order import PrewarmRequest
from peaker_host.warm.record import Record
from peaker_host.warm.volume_work import VolumeWork

_TICK_SECONDS = 0.1
_PROGRESS_SECONDS = 0.5
_LOG_SECONDS = 10.0


class Engine:
    """Warms the volumes of one manifest; one engine per host at a time."""

    def __init__(self, machine: Machine, request: PrewarmRequest, say: Callable[[str], None]) -> None:
        self._machine = machine
        self._request = request
        self._stop = threading.Event()
        self._record = Record(machine, request, say)
        self._planner = Planner(machine, request, self._stop, say)
        self._planned: List[PlannedVolume] = []
        self._works: List[VolumeWork] = []
        self._threads: List[threading.Thread] = []
        self._crashes: List[BaseException] = []

    def stop(self) -> None:
        self._stop.set()

    def stop_on_signals(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.stop())

    def run(self) -> Dict[str, Any]:
        """Warm everything as the host's one engine; returns the final progress, also of one that was interrupted.

        Raises ReadErrors or what the checks raise.
        """
        lock = take_lock(self._machine, self._request.run_id)
        try:
            return self._run_locked()
        except Interrupted:
            return self._record.publish("dead")
        except HostError as error:
            self._record.publish("failed", error)
            raise
        except Exception as error:
            self._record.publish("failed", HostError(f"{type(error).__name__}: {error}"))
            raise
        finally:
            self._stop.set()
            for thread in self._threads:
                thread.join()
            for volume in self._planned:
                volume.journal.close()
            lock.close()

    def _run_locked(self) -> Dict[str, Any]:
        record, request = self._record, self._request
        record.publish("running")
        self._planned = self._planner.plan(load_manifest(self._machine, request.run_id))
        record.keep_probes(self._planned)
        self._works = [VolumeWork(self._machine, one, request, self._stop) for one in self._planned]
        bytes_read = sum(volume.bytes_read for volume in self._planned)
        record.planned(self._works, bytes_read, self._planner.hot_unknown)
        self._threads = [threading.Thread(target=self._warm, args=(work,)) for work in self._works]
        for thread in self._threads:
            thread.start()
        self._watch()
        if self._crashes:
            raise self._crashes[0]
        failed = [
            f"{work.planned.member.name}: blocks {block}+1 ({reason})"
            for work in self._works
            for block, reason in work.pool.progress.failed
        ]
        if failed:
            raise ReadErrors("could not be read after several tries: " + "; ".join(failed[:20]))
        progress = record.publish(self._end_state())
        record.log(progress)
        return progress

    def _end_state(self) -> str:
        """A signal is a host going down: dead, so that the run starts the engine again."""
        if not self._stop.is_set() or all(work.blocks_done == work.blocks_total for work in self._works):
            return "done"
        return "dead"

    def _warm(self, work: VolumeWork) -> None:
        try:
            work.warm()
        except BaseException as error:  # noqa: BLE001 - raised again by run()
            self._crashes.append(error)
            self._stop.set()

    def _watch(self) -> None:
        # The run learns whether a database may start before the first block is read.
        self._record.publish("running")
        logged, published = 0.0, time.monotonic()
        while any(thread.is_alive() for thread in self._threads):
            deadline = time.monotonic() + _TICK_SECONDS
            for thread in self._threads:
                thread.join(max(0.0, deadline - time.monotonic()))
            # The run waits for the hot set, or for all that is used: that is published at once.
            news = self._record.has_news()
            # Behind a database that serves, the host's own disk is left in peace.
            pause = _LOG_SECONDS if self._record.is_used_warm else _PROGRESS_SECONDS
            if time.monotonic() - published < pause and not news:
                continue
            published = time.monotonic()
            for volume in self._planned:
                volume.journal.sync()
            progress = self._record.publish("running")
            if time.monotonic() - logged >= _LOG_SECONDS:
                logged = time.monotonic()
                self._record.log(progress)
