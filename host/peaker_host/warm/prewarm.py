"""The prewarm engine of one run: plans the order per volume, reads all volumes in parallel, reports, resumes.

Files of a run in the state directory: prewarm.lock (held while the engine runs), prewarm.json (latest progress,
replaced at least once a second), prewarm.jsonl (one line per 10 s and at the end), blocks.json (the snapshots' block
list), prewarm.log. Journals are per volume: journals/<volume id>.journal.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import resource
import signal
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Iterator, List, Optional

from peaker_host.blocks import block_list, log_replay
from peaker_host.blocks.ranges import difference, merged, total
from peaker_host.machine.devices import mount_points
from peaker_host.machine.errors import (
    BlockListUnreadable,
    HostError,
    InvalidArgument,
    PrewarmNotStarted,
    ReadErrors,
)
from peaker_host.machine.files import read_json, write_json
from peaker_host.machine.manifest import load_manifest, open_member
from peaker_host.machine.processes import Processes, package_command
from peaker_host.machine.settings import Settings
from peaker_host.warm import cold_probe, reading_order
from peaker_host.warm.engine_lock import holder, take_lock
from peaker_host.warm.plan import MIB, PlannedVolume, Planner, PrewarmRequest
from peaker_host.warm.progress import MeanRate, eta_seconds, logged_samples, sentence
from peaker_host.warm.reader_pool import RateLimiter, ReaderPool, Request, requests_of

_TICK_SECONDS = 0.1
_PROGRESS_SECONDS = 0.5
_LOG_SECONDS = 10.0
_START_TIMEOUT_SECONDS = 10.0
_REMAINDER_READERS = 2
_MOUNT_POLL_SECONDS = 1.0
# A replica that is not at work a day after its volumes were warm will not be.
_MOUNT_WAIT_SECONDS = 86400.0
_CANCEL_FILE = "prewarm.cancel"


@dataclass
class _VolumeWork:
    """One volume while it is warmed."""

    planned: PlannedVolume
    limiter: RateLimiter
    pool: ReaderPool
    tier_done_before: List[int]
    mean_rate: MeanRate
    tier_blocks: List[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tier_blocks = [total(tier.ranges) for tier in self.planned.tiers]

    @property
    def blocks_total(self) -> int:
        """Blocks of all tiers."""
        return sum(self.tier_blocks)

    @property
    def blocks_done(self) -> int:
        """Of them, read by this engine or an earlier one."""
        return sum(self.tier_done_before) + self.pool.progress.blocks_read

    def left(self, urgent_only: bool) -> int:
        """Blocks that have not been read, of the urgent tiers or of all but the remainder."""
        progress = zip(
            self.planned.tiers, self.tier_blocks, self.tier_done_before, self.pool.progress.tier_blocks
        )
        return sum(
            blocks - before - done
            for tier, blocks, before, done in progress
            if (tier.name in reading_order.URGENT_TIERS if urgent_only else tier.name != "remainder")
        )


def check_request(request: PrewarmRequest) -> None:
    """Raise InvalidArgument with the field named."""
    if request.method not in reading_order.METHODS:
        raise InvalidArgument(
            f"method: must be one of {', '.join(reading_order.METHODS)}, not {request.method!r}"
        )
    rates = (
        request.rate_limit_mib_per_s,
        request.background_rate_mib_per_s,
        request.remainder_rate_mib_per_s,
    )
    if min(rates) < 0:
        raise InvalidArgument(
            "rate-limit-mib-per-s, background-rate-mib-per-s, remainder-rate-mib-per-s: must be 0 (no limit) or more"
        )


def start(
    settings: Settings, processes: Processes, request: PrewarmRequest, block_list_url: str, settings_path: str
) -> Dict[str, Any]:
    """Check the devices, fetch the block list, start the engine in a session of its own.

    An engine of this run that already runs is left alone. Raises what the checks raise, before any read.
    """
    check_request(request)
    running = holder(settings, request.run_id)
    if running is not None:
        return {"pid": running, "already_running": True}
    finished = read_json(settings.run_path(request.run_id, "prewarm.json"))
    if finished and _covers(finished, request):
        return {"pid": finished["pid"], "already_running": False, "already_done": True}
    members = load_manifest(settings, request.run_id).members
    log_replay.await_replays(settings)
    for member in members:
        open_member(settings, member)
    missing = _fetch_block_list(settings, request, block_list_url)
    argv = [*package_command(), *(["--settings", settings_path] if settings_path else [])]
    argv += ["prewarm", "--run-id", request.run_id, "--method", request.method]
    argv += ["--rate-limit-mib-per-s", f"{request.rate_limit_mib_per_s:g}"]
    argv += ["--background-rate-mib-per-s", f"{request.background_rate_mib_per_s:g}"]
    argv += ["--remainder", "on" if request.with_remainder else "off"]
    argv += ["--remainder-rate-mib-per-s", f"{request.remainder_rate_mib_per_s:g}"]
    log_path = settings.run_path(request.run_id, "prewarm.log")
    pid = processes.start_detached(argv, log_path)
    _await_start(settings, request.run_id, pid, log_path)
    return {"pid": pid, "already_running": False, "block_list_missing": missing}


def report(settings: Settings, run_id: str) -> Dict[str, Any]:
    """The latest progress. State dead means that the engine is gone without having ended.

    `samples` are the last lines of prewarm.jsonl: [age in s, elapsed s, bytes read, MiB/s, remaining s or null].
    """
    progress = read_json(settings.run_path(run_id, "prewarm.json"))
    if progress is None:
        raise PrewarmNotStarted(f"no prewarm of run {run_id} is known on this host")
    if progress["state"] == "running" and holder(settings, run_id) is None:
        latest = read_json(settings.run_path(run_id, "prewarm.json")) or progress
        progress = dict(latest, state="dead") if latest["state"] == "running" else latest
    return dict(progress, samples=logged_samples(settings.run_path(run_id, "prewarm.jsonl")))


def cancel(settings: Settings, run_id: str, wait_seconds: float = 20.0) -> Dict[str, Any]:
    """Ask the engine to stop and wait until it has; one that does not run is left as it is."""
    pid = holder(settings, run_id)
    if pid is not None:
        # Without this a signal means that the host goes down, and the run goes on afterwards.
        write_json(settings.run_path(run_id, _CANCEL_FILE), {"pid": pid})
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + wait_seconds
        while holder(settings, run_id) is not None and time.monotonic() < deadline:
            time.sleep(0.1)
    return dict(report(settings, run_id), cancelled=pid is not None)


def _covers(finished: Dict[str, Any], request: PrewarmRequest) -> bool:
    """True when an earlier engine of the run has read all that is asked for now."""
    return (
        finished.get("state") == "done"
        and finished.get("method") == request.method
        and (bool(finished.get("with_remainder")) or not request.with_remainder)
    )


class Engine:
    """Warms the volumes of one manifest; one engine per host at a time."""

    def __init__(
        self,
        settings: Settings,
        processes: Processes,
        request: PrewarmRequest,
        say: Callable[[str], None],
    ) -> None:
        check_request(request)
        self._settings = settings
        self._request = request
        self._say = say
        self._stop = threading.Event()
        self._started = time.monotonic()
        earlier = read_json(settings.run_path(request.run_id, "prewarm.json")) or {}
        self._elapsed_before = float(earlier.get("elapsed_seconds", 0.0))
        self._bytes_before = int(earlier.get("bytes_read", 0))
        self._restarts = int(earlier.get("restarts", -1)) + 1
        self._hot_warm_seconds: Optional[float] = earlier.get("hot_warm_seconds")
        # A restart goes on with the depth that was found, so that it does not probe the device again.
        self._depths: Dict[str, int] = dict(earlier.get("depths", {}))
        self._probes = cold_probe.kept(settings, request.run_id)
        self._used_warm_seconds: Optional[float] = None
        self._planner = Planner(settings, processes, request, self._stop, say)
        self._planning_seconds = 0.0
        self._rate = MeanRate(self._started)
        self._planned: List[PlannedVolume] = []
        self._works: List[_VolumeWork] = []
        self._threads: List[threading.Thread] = []
        self._crashes: List[BaseException] = []

    def stop(self) -> None:
        """End soon: reads under way are finished and journalled."""
        self._stop.set()

    def run(self) -> Dict[str, Any]:
        """Warm everything. Returns the final progress; raises ReadErrors or what the checks raise."""
        lock = take_lock(self._settings, self._request.run_id)
        try:
            return self._run_locked()
        except HostError as error:
            self._publish("failed", error)
            raise
        except Exception as error:
            self._publish("failed", HostError(f"{type(error).__name__}: {error}"))
            raise
        finally:
            self._stop.set()
            for thread in self._threads:
                thread.join()
            for volume in self._planned:
                volume.journal.close()
            lock.close()

    def _run_locked(self) -> Dict[str, Any]:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._cancel_path())
        self._publish("running")
        self._planned = self._planner.plan(load_manifest(self._settings, self._request.run_id))
        self._bytes_before += sum(volume.bytes_read for volume in self._planned)
        self._works = [self._work(volume) for volume in self._planned]
        for volume in self._planned:
            self._probe(volume)
        self._planning_seconds = round(time.monotonic() - self._started, 3)
        self._rate = MeanRate(time.monotonic())
        self._threads = [threading.Thread(target=self._warm, args=(work,)) for work in self._works]
        for thread in self._threads:
            thread.start()
        self._watch(self._threads)
        if self._crashes:
            raise self._crashes[0]
        failed = [
            f"{work.planned.member.name}: blocks {item.first_block}+{item.blocks} ({item.reason})"
            for work in self._works
            for item in work.pool.progress.failed
        ]
        if failed:
            raise ReadErrors("could not be read after several tries: " + "; ".join(failed[:20]))
        progress = self._publish(self._end_state())
        self._log(progress)
        return progress

    def _end_state(self) -> str:
        """A signal that nobody's cancel sent is a host going down: dead, so that the run starts the engine again."""
        if not self._stop.is_set() or all(work.blocks_done == work.blocks_total for work in self._works):
            return "done"
        return "failed" if os.path.exists(self._cancel_path()) else "dead"

    def _cancel_path(self) -> str:
        return self._settings.run_path(self._request.run_id, _CANCEL_FILE)

    def _work(self, volume: PlannedVolume) -> _VolumeWork:
        limiter = RateLimiter(self._request.rate_limit_mib_per_s * MIB)
        pool = ReaderPool(
            volume.device.path,
            volume.device.size_bytes,
            len(volume.tiers),
            limiter,
            volume.journal.append,
            self._stop,
            self._depths.get(volume.member.volume_id),
        )
        done = volume.journal.done
        before = [
            sum(1 for start, n in tier.ranges for b in range(start, start + n) if b in done)
            for tier in volume.tiers
        ]
        return _VolumeWork(volume, limiter, pool, before, MeanRate(time.monotonic()))

    def _warm(self, work: _VolumeWork) -> None:
        try:
            work.pool.run(self._requests(work, remainder=False))
            if work.planned.tiers[-1].name == "remainder":
                self._warm_remainder(work)
        except BaseException as error:  # noqa: BLE001 - raised again by run()
            self._crashes.append(error)
            self._stop.set()

    def _warm_remainder(self, work: _VolumeWork) -> None:
        """Behind the database that is at work on the volume by then, slowly: the first write into a block is fast."""
        rate = self._request.remainder_rate_mib_per_s
        if rate and not self._await_mount(work):
            return
        volume = work.planned
        work.pool = ReaderPool(
            volume.device.path,
            volume.device.size_bytes,
            len(volume.tiers),
            RateLimiter((rate or self._request.rate_limit_mib_per_s) * MIB),
            volume.journal.append,
            self._stop,
            _REMAINDER_READERS if rate else self._depths.get(volume.member.volume_id),
            work.pool.progress,
        )
        work.pool.run(self._requests(work, remainder=True))

    def _await_mount(self, work: _VolumeWork) -> bool:
        """So that the proof and the server's start have the volume to themselves. False when nobody mounts it."""
        deadline = time.monotonic() + _MOUNT_WAIT_SECONDS
        while work.planned.member.mount_point not in mount_points(work.planned.device):
            if time.monotonic() >= deadline or self._stop.wait(_MOUNT_POLL_SECONDS):
                return False
        return True

    def _probe(self, volume: PlannedVolume) -> None:
        """Before the first read of the volume's data: how slow it is while it is cold."""
        volume_id = volume.member.volume_id
        if volume_id in self._probes or not volume.untouched:
            return
        # The remainder stays cold for now, and blocks that the plan needed are warm.
        wanted = [one for tier in volume.tiers if tier.name != "remainder" for one in tier.ranges]
        blocks = difference(merged(wanted), volume.journal.done.ranges())
        found = cold_probe.probe(volume.device.path, volume.device.size_bytes, blocks, random.SystemRandom())
        if found is None:
            return
        self._probes[volume_id] = found
        with self._despite_full_disk():
            cold_probe.keep(self._settings, self._request.run_id, self._probes)

    def _requests(self, work: _VolumeWork, remainder: bool) -> Iterator[Request]:
        """What is left to be read, in order; slows down where the tiers stop being urgent."""
        background = 0.0 if remainder else self._request.background_rate_mib_per_s
        tiers = work.planned.tiers
        ranges = [tier.ranges if (tier.name == "remainder") is remainder else [] for tier in tiers]
        done = work.planned.journal.done.__contains__
        for request in requests_of(ranges, done, work.pool.blocks_per_read):
            if background and tiers[request[0]].name not in reading_order.URGENT_TIERS:
                work.limiter.change(background * MIB)
                background = 0.0
            yield request

    def _watch(self, threads: List[threading.Thread]) -> None:
        logged = published = 0.0
        while any(thread.is_alive() for thread in threads):
            deadline = time.monotonic() + _TICK_SECONDS
            for thread in threads:
                thread.join(max(0.0, deadline - time.monotonic()))
            # Who waits for the hot set, or for all that is used, is told at once.
            ends = self._hot_warm_now() or self._used_warm_now()
            # Behind a database that serves, the host's own disk is left in peace.
            pause = _PROGRESS_SECONDS if self._used_warm_seconds is None else _LOG_SECONDS
            if time.monotonic() - published < pause and not ends:
                continue
            published = time.monotonic()
            for volume in self._planned:
                volume.journal.sync()
            progress = self._publish("running")
            if time.monotonic() - logged >= _LOG_SECONDS:
                logged = time.monotonic()
                self._log(progress)

    def _log(self, progress: Dict[str, Any]) -> None:
        """One line for machines, one for people."""
        kept = {key: value for key, value in progress.items() if key != "volumes"}
        path = self._settings.run_path(self._request.run_id, "prewarm.jsonl")
        with self._despite_full_disk(), open(path, "a", encoding="ascii") as log:
            log.write(json.dumps(dict(kept, at=round(time.time(), 3))) + "\n")
        self._say(sentence(progress))

    @contextlib.contextmanager
    def _despite_full_disk(self) -> Iterator[None]:
        """What only informs must not end hours of reading."""
        try:
            yield
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            self._say(f"not written, the disk is full: {error.filename or self._settings.state_dir}")

    def _note_ends(self, elapsed_seconds: float) -> None:
        """When the urgent tiers of every volume were read, and when all but the remainder."""
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
        """True when the urgent tiers are read and nobody has been told."""
        return (
            self._hot_warm_seconds is None
            and self._knows_hot()
            and not any(work.left(urgent_only=True) for work in self._works)
        )

    def _knows_hot(self) -> bool:
        """Without a page list nothing is known to be hot."""
        return any(tier.name == "hot" and tier.ranges for volume in self._planned for tier in volume.tiers)

    def _hot_eta(self, rates_mib_per_s: List[float]) -> Optional[float]:
        """Seconds until the urgent tiers are read; None where nothing is known to be hot, or no rate yet."""
        if self._hot_warm_seconds is not None:
            return 0.0
        if not self._knows_hot():
            return None
        left = [work.left(urgent_only=True) for work in self._works]
        return eta_seconds(zip(left, rates_mib_per_s), "running")

    def _publish(self, state: str, error: Optional[HostError] = None) -> Dict[str, Any]:
        progress = self._progress(state)
        if error is not None:
            progress["error"], progress["message"] = type(error).__name__, str(error)
        elif state in ("failed", "dead"):
            progress["error"] = "Cancelled" if state == "failed" else "Interrupted"
            progress["message"] = "stopped before the end; start again to resume"
        with self._despite_full_disk():
            write_json(self._settings.run_path(self._request.run_id, "prewarm.json"), progress)
        return progress

    def _progress(self, state: str) -> Dict[str, Any]:
        now = time.monotonic()
        bytes_here = sum(work.pool.progress.bytes_read for work in self._works)
        rate = self._rate.observe(now, bytes_here)
        done = sum(work.blocks_done for work in self._works)
        wanted = sum(work.blocks_total for work in self._works)
        left = [work.left(urgent_only=False) for work in self._works]
        rates = [work.mean_rate.observe(now, work.pool.progress.bytes_read) for work in self._works]
        elapsed = now - self._started
        self._note_ends(self._elapsed_before + elapsed)
        mean = bytes_here / MIB / max(elapsed - self._planning_seconds, 0.001)
        used = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "state": state,
            "run_id": self._request.run_id,
            "method": self._request.method,
            "with_remainder": self._request.with_remainder,
            "pid": os.getpid(),
            "blocks_done": done,
            "blocks_total": wanted,
            "bytes_read": self._bytes_before + bytes_here,
            "rate_mib_per_s": round(mean if state == "done" else rate, 1),
            # Of what must be read before the replica goes on; the remainder follows at leisure.
            "eta_seconds": eta_seconds(zip(left, rates), state) if self._works or state == "done" else None,
            "elapsed_seconds": round(self._elapsed_before + elapsed, 3),
            "hot_warm_seconds": self._hot_warm_seconds,
            "hot_eta_seconds": self._hot_eta(rates),
            "hot_unknown": self._planner.hot_unknown,
            "used_warm_seconds": self._used_warm_seconds,
            "planning_seconds": self._planning_seconds,
            "cpu_seconds": round(used.ru_utime + used.ru_stime, 3),
            "restarts": self._restarts,
            "depths": self._depths_found(),
            "volumes": [
                dict(
                    _volume_progress(work),
                    map_unreadable=work.planned.note,
                    await_cold_ms=self._await_cold_ms(work.planned.member.volume_id),
                )
                for work in self._works
            ],
        }

    def _await_cold_ms(self, volume_id: str) -> Optional[float]:
        probe = self._probes.get(volume_id)
        return None if probe is None else probe.await_ms

    def _depths_found(self) -> Dict[str, int]:
        """Per volume, for the engine that may have to go on; kept while there is nothing newer."""
        settled = {
            work.planned.member.volume_id: work.pool.best_depth
            for work in self._works
            if work.pool.progress.bytes_read
        }
        return {**self._depths, **settled}


def stop_on_signals(engine: Engine) -> None:
    """SIGTERM and SIGINT end the engine in order."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: engine.stop())


def _volume_progress(work: _VolumeWork) -> Dict[str, Any]:
    progress = work.pool.progress
    return {
        "name": work.planned.member.name,
        "volume_id": work.planned.member.volume_id,
        "blocks_total": work.blocks_total,
        "blocks_done": work.blocks_done,
        "bytes_read": work.planned.bytes_read + progress.bytes_read,
        "depth": progress.depth,
        "retries": progress.retries,
        "failed_ranges": [[item.first_block, item.blocks, item.reason] for item in progress.failed[:50]],
        "tiers": [
            {"name": tier.name, "blocks": blocks, "done": before + done}
            for tier, blocks, before, done in zip(
                work.planned.tiers, work.tier_blocks, work.tier_done_before, progress.tier_blocks
            )
        ],
    }


def _fetch_block_list(settings: Settings, request: PrewarmRequest, url: str) -> str:
    """Why there is no list, or nothing. Only the method `blocks` cannot do without one and raises."""
    path = settings.run_path(request.run_id, block_list.FILE)
    missing = "" if os.path.exists(path) else "none was given"
    if url:
        fresh = path + ".new"
        try:
            block_list.fetch(url, fresh)
            block_list.load(fresh)
            os.replace(fresh, path)
            missing = ""
        except BlockListUnreadable as error:
            missing = str(error) if missing else ""
    if missing and request.method == "blocks":
        raise InvalidArgument(f"method blocks needs a block list (block-list-url): {missing}")
    return missing


def _await_start(settings: Settings, run_id: str, pid: int, log_path: str) -> None:
    """Return when the engine has published its first progress or ended."""
    deadline = time.monotonic() + _START_TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        progress = read_json(settings.run_path(run_id, "prewarm.json"))
        if progress and progress["pid"] == pid:
            return
        time.sleep(0.05)
    with open(log_path, encoding="utf-8", errors="replace") as log:
        tail = log.read()[-500:]
    raise PrewarmNotStarted(f"the engine (process {pid}) did not start: {tail.strip()}")


def say_on_stderr(text: str) -> None:
    """Progress for people and logs."""
    print(text, file=sys.stderr, flush=True)
