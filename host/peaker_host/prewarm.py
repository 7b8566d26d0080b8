"""The prewarm engine of one run: plans the order per volume, reads all volumes in parallel, reports, resumes.

Files of a run in the state directory: prewarm.lock (held while the engine runs), prewarm.json (latest progress,
replaced at least once a second), prewarm.jsonl (one line per 10 s and at the end), blocks.json (the snapshots' block
list), prewarm.log. Journals are per volume: journals/<volume id>.journal.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import random
import resource
import signal
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import IO, Any, Callable, Dict, Iterator, List, Optional, Tuple

from peaker_host import block_list, cold_probe, reading_order
from peaker_host.block_ranges import Range, blocks_of_bytes, total
from peaker_host.devices import BlockDevice
from peaker_host.errors import (
    BlockListUnreadable,
    CommandFailed,
    HostError,
    InvalidArgument,
    PrewarmAlreadyRunning,
    PrewarmNotStarted,
    ReadErrors,
    ToolMissing,
    UnreadableFilesystem,
)
from peaker_host.files import read_json, write_json
from peaker_host.filesystem_maps import open_map, used_or_all
from peaker_host.journal import Journal
from peaker_host.manifest import Manifest, Member, load_manifest, open_member
from peaker_host.processes import Processes, package_command
from peaker_host.reader_pool import RateLimiter, ReaderPool, Request, requests_of
from peaker_host.reading_order import Tier
from peaker_host.settings import Settings

MIB = 1024 * 1024
_TICK_SECONDS = 0.1
_PROGRESS_SECONDS = 0.5
_LOG_SECONDS = 10.0
_SAMPLES_REPORTED = 70
_SAMPLE_BYTES_AT_MOST = 2048
_START_TIMEOUT_SECONDS = 10.0


@dataclass(frozen=True)
class PrewarmRequest:
    """What is to be warmed and how. A rate limit of 0 means none; it holds for each volume.

    The background rate, when there is one, replaces the rate limit of a volume whose urgent tiers (hot,
    recovery) are read: from then on a database may be at work on it.
    """

    run_id: str
    method: str
    rate_limit_mib_per_s: float = 0.0
    with_remainder: bool = False
    background_rate_mib_per_s: float = 0.0


@dataclass
class _VolumeWork:
    """One volume while it is warmed."""

    member: Member
    device: BlockDevice
    tiers: List[Tier]
    journal: Journal
    limiter: RateLimiter
    pool: ReaderPool
    blocks_total: int
    done_before: int
    tier_done_before: List[int]
    finished: bool = False
    tier_blocks: List[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tier_blocks = [total(tier.ranges) for tier in self.tiers]

    @property
    def urgent_left(self) -> int:
        """Blocks of the urgent tiers that have not been read."""
        progress = zip(self.tiers, self.tier_blocks, self.tier_done_before, self.pool.progress.tier_blocks)
        return sum(
            blocks - before - done
            for tier, blocks, before, done in progress
            if tier.name in reading_order.URGENT_TIERS
        )


def check_request(request: PrewarmRequest) -> None:
    """Raise InvalidArgument with the field named."""
    if request.method not in reading_order.METHODS:
        raise InvalidArgument(
            f"method: must be one of {', '.join(reading_order.METHODS)}, not {request.method!r}"
        )
    if request.rate_limit_mib_per_s < 0 or request.background_rate_mib_per_s < 0:
        raise InvalidArgument("rate-limit-mib-per-s, background-rate-mib-per-s: must be 0 (no limit) or more")


def start(
    settings: Settings, processes: Processes, request: PrewarmRequest, block_list_url: str, settings_path: str
) -> Dict[str, Any]:
    """Check the devices, fetch the block list, start the engine in a session of its own.

    An engine of this run that already runs is left alone. Raises what the checks raise, before any read.
    """
    check_request(request)
    running = _holder(settings, request.run_id)
    if running is not None:
        return {"pid": running, "already_running": True}
    finished = read_json(settings.run_path(request.run_id, "prewarm.json"))
    if finished and finished.get("state") == "done" and finished.get("method") == request.method:
        return {"pid": finished["pid"], "already_running": False, "already_done": True}
    for member in load_manifest(settings, request.run_id).members:
        open_member(settings, member)
    missing = _fetch_block_list(settings, request, block_list_url)
    argv = [*package_command(), *(["--settings", settings_path] if settings_path else [])]
    argv += ["prewarm", "--run-id", request.run_id, "--method", request.method]
    argv += ["--rate-limit-mib-per-s", f"{request.rate_limit_mib_per_s:g}"]
    argv += ["--background-rate-mib-per-s", f"{request.background_rate_mib_per_s:g}"]
    argv += ["--remainder", "on" if request.with_remainder else "off"]
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
    if progress["state"] == "running" and _holder(settings, run_id) is None:
        latest = read_json(settings.run_path(run_id, "prewarm.json")) or progress
        progress = dict(latest, state="dead") if latest["state"] == "running" else latest
    return dict(progress, samples=_samples(settings.run_path(run_id, "prewarm.jsonl")))


def cancel(settings: Settings, run_id: str, wait_seconds: float = 20.0) -> Dict[str, Any]:
    """Ask the engine to stop and wait until it has; one that does not run is left as it is."""
    pid = _holder(settings, run_id)
    if pid is not None:
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + wait_seconds
        while _holder(settings, run_id) is not None and time.monotonic() < deadline:
            time.sleep(0.1)
    return dict(report(settings, run_id), cancelled=pid is not None)


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
        self._processes = processes
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
        self._planning_seconds = 0.0
        self._window = (time.monotonic(), 0)
        self._rate = 0.0
        self._works: List[_VolumeWork] = []
        self._threads: List[threading.Thread] = []
        self._fallbacks: Dict[str, str] = {}
        self._crashes: List[BaseException] = []

    def stop(self) -> None:
        """End soon: reads under way are finished and journalled."""
        self._stop.set()

    def run(self) -> Dict[str, Any]:
        """Warm everything. Returns the final progress; raises ReadErrors or what the checks raise."""
        lock = _take_lock(self._settings, self._request.run_id)
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
            for work in self._works:
                work.journal.close()
            lock.close()

    def _run_locked(self) -> Dict[str, Any]:
        self._publish("running")
        manifest = load_manifest(self._settings, self._request.run_id)
        self._plan(manifest)
        for work in self._works:
            self._probe(work)
        self._planning_seconds = round(time.monotonic() - self._started, 3)
        self._threads = [threading.Thread(target=self._warm, args=(work,)) for work in self._works]
        for thread in self._threads:
            thread.start()
        self._watch(self._threads)
        if self._crashes:
            raise self._crashes[0]
        failed = [
            f"{work.member.name}: blocks {item.first_block}+{item.blocks} ({item.reason})"
            for work in self._works
            for item in work.pool.progress.failed
        ]
        if failed:
            raise ReadErrors("could not be read after several tries: " + "; ".join(failed[:20]))
        progress = self._publish("failed" if self._stop.is_set() and not self._all_done() else "done")
        self._log(progress)
        return progress

    def _plan(self, manifest: Manifest) -> None:
        devices = [open_member(self._settings, member) for member in manifest.members]
        lists = _load_block_list(self._settings, self._request)
        for member, device in zip(manifest.members, devices):
            listed = block_list.of_volume(lists, member.volume_id, member.name)
            tiers = self._order(member, device, listed)
            self._works.append(self._work(member, device, tiers))
            self._say(f"{member.name}: " + ", ".join(f"{tier.name} {total(tier.ranges)}" for tier in tiers))

    def _order(self, member: Member, device: BlockDevice, listed: Optional[List[Range]]) -> List[Tier]:
        if self._request.method == "full":
            return reading_order.order_full(device.size_bytes)
        if self._request.method == "blocks":
            if listed is None:
                raise InvalidArgument(f"method blocks: the block list has nothing about {member.volume_id}")
            return reading_order.order_blocks(listed, device.size_bytes)
        used_bytes, unreadable = used_or_all(
            member.filesystem, device.path, device.size_bytes, self._processes
        )
        hot: List[Range] = []
        recovery: List[Range] = []
        if unreadable:
            self._fallbacks[member.volume_id] = unreadable
            self._say(f"{member.name}: everything in the snapshot is read, because: {unreadable}")
        else:
            hot, recovery = self._database_tiers(member, device)
        used = blocks_of_bytes(used_bytes)
        return reading_order.order_used(
            used, listed, hot, recovery, self._request.with_remainder, device.size_bytes
        )

    def _database_tiers(self, member: Member, device: BlockDevice) -> Tuple[List[Range], List[Range]]:
        """(hot, recovery); both empty, and said, where the files of a filesystem in use cannot be found."""
        try:
            filesystem = open_map(member.filesystem, device.path, self._processes)
            with_hot = self._request.method == "hot"
            tiers = reading_order.database_tiers(device.path, filesystem, self._settings.engine, with_hot)
            if filesystem.unreadable:
                self._fallbacks[member.volume_id] = (
                    f"files: {filesystem.unreadable} answers are missing: the debugger is older than the "
                    "filesystem, or changes were in its log only"
                )
            return tiers
        except (UnreadableFilesystem, CommandFailed, ToolMissing) as error:
            self._fallbacks[member.volume_id] = f"files: {error}"
            self._say(f"{member.name}: read in plain order, because its files cannot be found: {error}")
            return [], []

    def _work(self, member: Member, device: BlockDevice, tiers: List[Tier]) -> _VolumeWork:
        blocks = (device.size_bytes + 524287) // 524288
        path = os.path.join(self._settings.state_dir, "journals", member.volume_id + ".journal")
        journal = Journal(path, member.volume_id, member.uuid, blocks)
        before = [
            sum(1 for start, n in tier.ranges for b in range(start, start + n) if b in journal.done)
            for tier in tiers
        ]
        limiter = RateLimiter(self._request.rate_limit_mib_per_s * MIB)
        pool = ReaderPool(
            device.path,
            device.size_bytes,
            len(tiers),
            limiter,
            journal.append,
            self._stop,
            self._depths.get(member.volume_id),
        )
        wanted = reading_order.count_blocks(tiers)
        return _VolumeWork(member, device, tiers, journal, limiter, pool, wanted, sum(before), before)

    def _warm(self, work: _VolumeWork) -> None:
        try:
            work.pool.run(self._requests(work))
            work.finished = True
        except BaseException as error:  # noqa: BLE001 - raised again by run()
            self._crashes.append(error)
            self._stop.set()

    def _probe(self, work: _VolumeWork) -> None:
        """Before the first read of the volume: how slow it is while it is cold."""
        volume_id = work.member.volume_id
        if volume_id in self._probes or work.journal.done.count:
            return
        blocks = [one for tier in work.tiers for one in tier.ranges]
        found = cold_probe.probe(work.device.path, work.device.size_bytes, blocks, random.SystemRandom())
        if found is None:
            return
        self._probes[volume_id] = found
        cold_probe.keep(self._settings, self._request.run_id, self._probes)

    def _requests(self, work: _VolumeWork) -> Iterator[Request]:
        """What is left to be read, in order; slows down where the tiers stop being urgent."""
        background = self._request.background_rate_mib_per_s
        tiers = [tier.ranges for tier in work.tiers]
        for request in requests_of(tiers, work.journal.done.__contains__, work.pool.blocks_per_read):
            if background and work.tiers[request[0]].name not in reading_order.URGENT_TIERS:
                work.limiter.change(background * MIB)
                background = 0.0
            yield request

    def _watch(self, threads: List[threading.Thread]) -> None:
        logged = published = 0.0
        while any(thread.is_alive() for thread in threads):
            deadline = time.monotonic() + _TICK_SECONDS
            for thread in threads:
                thread.join(max(0.0, deadline - time.monotonic()))
            # Who waits for the hot set is told at once.
            if time.monotonic() - published < _PROGRESS_SECONDS and not self._hot_warm_now():
                continue
            published = time.monotonic()
            for work in self._works:
                work.journal.sync()
            progress = self._publish("running")
            if time.monotonic() - logged >= _LOG_SECONDS:
                logged = time.monotonic()
                self._log(progress)

    def _log(self, progress: Dict[str, Any]) -> None:
        """One line for machines, one for people."""
        kept = {key: value for key, value in progress.items() if key != "volumes"}
        path = self._settings.run_path(self._request.run_id, "prewarm.jsonl")
        with open(path, "a", encoding="ascii") as log:
            log.write(json.dumps(dict(kept, at=round(time.time(), 3))) + "\n")
        self._say(_sentence(progress))

    def _all_done(self) -> bool:
        return all(
            work.done_before + work.pool.progress.blocks_read == work.blocks_total for work in self._works
        )

    def _note_hot_warm(self, elapsed_seconds: float) -> None:
        """Once the urgent tiers of every volume are read."""
        if self._hot_warm_now():
            self._hot_warm_seconds = round(elapsed_seconds, 3)

    def _hot_warm_now(self) -> bool:
        """True when the urgent tiers are read and nobody has been told."""
        return (
            self._hot_warm_seconds is None
            and self._knows_hot()
            and not any(work.urgent_left for work in self._works)
        )

    def _knows_hot(self) -> bool:
        """Without a page list nothing is known to be hot."""
        return any(tier.name == "hot" and tier.ranges for work in self._works for tier in work.tiers)

    def _hot_eta(self, rate_mib_per_s: float) -> Optional[float]:
        """Seconds until the urgent tiers are read; None where nothing is known to be hot, or no rate yet."""
        if self._hot_warm_seconds is not None:
            return 0.0
        if not self._knows_hot():
            return None
        return _eta(sum(work.urgent_left for work in self._works), rate_mib_per_s, "running")

    def _publish(self, state: str, error: Optional[HostError] = None) -> Dict[str, Any]:
        progress = self._progress(state)
        if error is not None:
            progress["error"], progress["message"] = type(error).__name__, str(error)
        elif state == "failed":
            progress["error"], progress["message"] = (
                "Cancelled",
                "stopped before the end; start again to resume",
            )
        write_json(self._settings.run_path(self._request.run_id, "prewarm.json"), progress)
        return progress

    def _progress(self, state: str) -> Dict[str, Any]:
        now = time.monotonic()
        bytes_here = sum(work.pool.progress.bytes_read for work in self._works)
        rate = self._measure_rate(now, bytes_here)
        done = sum(work.done_before + work.pool.progress.blocks_read for work in self._works)
        wanted = sum(work.blocks_total for work in self._works)
        elapsed = now - self._started
        self._note_hot_warm(self._elapsed_before + elapsed)
        mean = bytes_here / MIB / max(elapsed - self._planning_seconds, 0.001)
        used = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "state": state,
            "run_id": self._request.run_id,
            "method": self._request.method,
            "pid": os.getpid(),
            "blocks_done": done,
            "blocks_total": wanted,
            "bytes_read": self._bytes_before + bytes_here,
            "rate_mib_per_s": round(mean if state == "done" else rate, 1),
            "eta_seconds": _eta(wanted - done, rate, state),
            "elapsed_seconds": round(self._elapsed_before + elapsed, 3),
            "hot_warm_seconds": self._hot_warm_seconds,
            "hot_eta_seconds": self._hot_eta(rate),
            "planning_seconds": self._planning_seconds,
            "cpu_seconds": round(used.ru_utime + used.ru_stime, 3),
            "restarts": self._restarts,
            "depths": self._depths_found(),
            "volumes": [
                dict(
                    _volume_progress(work),
                    map_unreadable=self._fallbacks.get(work.member.volume_id, ""),
                    await_cold_ms=self._await_cold_ms(work.member.volume_id),
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
            work.member.volume_id: work.pool.best_depth
            for work in self._works
            if work.pool.progress.bytes_read
        }
        return {**self._depths, **settled}

    def _measure_rate(self, now: float, bytes_here: int) -> float:
        since, before = self._window
        if now - since >= 0.4:
            fresh = (bytes_here - before) / MIB / (now - since)
            self._rate = fresh if self._rate == 0 else 0.6 * self._rate + 0.4 * fresh
            self._window = (now, bytes_here)
        return self._rate


def stop_on_signals(engine: Engine) -> None:
    """SIGTERM and SIGINT end the engine in order."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: engine.stop())


def _volume_progress(work: _VolumeWork) -> Dict[str, Any]:
    progress = work.pool.progress
    return {
        "name": work.member.name,
        "volume_id": work.member.volume_id,
        "blocks_total": work.blocks_total,
        "blocks_done": work.done_before + progress.blocks_read,
        "bytes_read": progress.bytes_read,
        "depth": progress.depth,
        "retries": progress.retries,
        "failed_ranges": [[item.first_block, item.blocks, item.reason] for item in progress.failed[:50]],
        "tiers": [
            {"name": tier.name, "blocks": blocks, "done": before + done}
            for tier, blocks, before, done in zip(
                work.tiers, work.tier_blocks, work.tier_done_before, progress.tier_blocks
            )
        ],
    }


def _eta(blocks_left: int, rate_mib_per_s: float, state: str) -> Optional[float]:
    if state == "done":
        return 0.0
    return round(blocks_left * 0.5 / rate_mib_per_s, 1) if rate_mib_per_s > 0 else None


def _sentence(progress: Dict[str, Any]) -> str:
    eta = progress["eta_seconds"]
    return (
        f"{progress['blocks_done']} of {progress['blocks_total']} blocks, {progress['rate_mib_per_s']} MiB/s, "
        f"{'unknown time' if eta is None else f'{eta:g} s'} left"
    )


def _samples(path: str) -> List[List[Any]]:
    """The newest lines of the log, oldest first; a line that a kill cut short is left out."""
    try:
        with open(path, "rb") as log:
            size = os.fstat(log.fileno()).st_size
            log.seek(max(0, size - _SAMPLES_REPORTED * _SAMPLE_BYTES_AT_MOST))
            lines = log.read().splitlines()
    except FileNotFoundError:
        return []
    samples: List[List[Any]] = []
    now = time.time()
    for line in lines[-_SAMPLES_REPORTED:]:
        with contextlib.suppress(ValueError, KeyError):
            row = json.loads(line)
            numbers = [row["elapsed_seconds"], row["bytes_read"], row["rate_mib_per_s"], row["eta_seconds"]]
            samples.append([round(max(0.0, now - row["at"]), 1), *numbers])
    return samples


def _fetch_block_list(settings: Settings, request: PrewarmRequest, url: str) -> str:
    """Why there is no list, or nothing. Only the method `blocks` cannot do without one and raises."""
    path = settings.run_path(request.run_id, "blocks.json")
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


def _load_block_list(settings: Settings, request: PrewarmRequest) -> Dict[str, List[Range]]:
    path = settings.run_path(request.run_id, "blocks.json")
    return block_list.load(path) if os.path.exists(path) else {}


def _lock_path(settings: Settings) -> str:
    os.makedirs(settings.state_dir, exist_ok=True)
    return os.path.join(settings.state_dir, "prewarm.lock")


def _take_lock(settings: Settings, run_id: str) -> IO[str]:
    lock = open(_lock_path(settings), "a+", encoding="ascii")  # noqa: SIM115 - held until run() ends
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        raise PrewarmAlreadyRunning("another prewarm runs on this host") from error
    lock.truncate(0)
    lock.write(f"{os.getpid()} {run_id}\n")
    lock.flush()
    return lock


def _holder(settings: Settings, run_id: str) -> Optional[int]:
    """Process id of the engine that runs now. Raises PrewarmAlreadyRunning when it is another run's."""
    with open(_lock_path(settings), "a+", encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return None
        except OSError:
            lock.seek(0)
            pid, _, holder = lock.read().strip().partition(" ")
    if holder != run_id:
        raise PrewarmAlreadyRunning(f"the prewarm of run {holder or 'unknown'} runs on this host")
    return int(pid)


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
