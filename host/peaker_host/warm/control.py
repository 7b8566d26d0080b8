"""Starts the engine of a run in the background, and says how far it is."""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any, Dict, Optional

from peaker_host.blocks import block_list
from peaker_host.blocks.log_replay import await_replays
from peaker_host.layouts.mounts import open_mounts
from peaker_host.machine.errors import BlockListUnreadable, PrewarmNotStarted, UnreadableFile
from peaker_host.machine.files import read_json, read_text
from peaker_host.machine.manifest import load_manifest
from peaker_host.machine.settings import Machine, Settings, package_command
from peaker_host.warm.progress import holder
from peaker_host.warm.reading_order import PrewarmRequest

_START_TIMEOUT_SECONDS = 10.0
_END_TIMEOUT_SECONDS = 10.0
_ENGINE_BEGINS = "--- an engine begins ---\n"
_LAST_WORDS_CHARACTERS = 500
KILLED = "it was killed, as by the kernel when memory runs out"


def start(
    machine: Machine, request: PrewarmRequest, block_list_url: str, settings_path: str
) -> Dict[str, Any]:
    """Check the devices, fetch the block list, start the engine in a session of its own.

    An engine of this run that has read all that is asked for, or still runs, is left alone. Raises what the checks
    raise, before any read.
    """
    finished = read_json(machine.run_path(request.run_id, "prewarm.json")) or {}
    if _covers(finished, request):
        return {"pid": finished.get("pid"), "already_running": False, "already_done": True}
    running = _await_end(machine, request.run_id, finished)
    if running is not None:
        return {"pid": running, "already_running": True}
    manifest = load_manifest(machine, request.run_id)
    await_replays(machine)
    open_mounts(machine, manifest)
    missing = _fetch_block_list(machine, request.run_id, block_list_url)
    log_path = machine.run_path(request.run_id, "prewarm.log")
    # A disk that is full is the engine's to name.
    with contextlib.suppress(OSError), open(log_path, "a", encoding="utf-8") as log:
        log.write(_ENGINE_BEGINS)
    argv = [*package_command(), *(["--settings", settings_path] if settings_path else [])]
    argv += ["prewarm", "--run-id", request.run_id]
    argv += ["--background-rate-mib-per-s", f"{request.background_rate_mib_per_s:g}"]
    argv += ["--remainder-rate-mib-per-s", f"{request.remainder_rate_mib_per_s:g}"]
    pid = machine.processes.start_detached(argv, log_path)
    _await_start(machine, request.run_id, pid, log_path)
    return {"pid": pid, "already_running": False, "block_list_missing": missing}


def report(settings: Settings, run_id: str) -> Dict[str, Any]:
    """The latest progress. State dead: the engine is gone without having ended; `message` has its last words."""
    progress = read_json(settings.run_path(run_id, "prewarm.json"))
    if progress is None:
        raise PrewarmNotStarted(f"no prewarm of run {run_id} is known on this host")
    if not isinstance(progress.get("state"), str):
        raise UnreadableFile(f"prewarm.json of run {run_id} has no state; start the prewarm again")
    if progress["state"] == "running" and holder(settings, run_id) is None:
        latest = read_json(settings.run_path(run_id, "prewarm.json")) or progress
        died = {"state": "dead", "message": _why_dead(settings.run_path(run_id, "prewarm.log"))}
        progress = dict(latest, **died) if latest.get("state") == "running" else latest
    return progress


def _covers(finished: Dict[str, Any], request: PrewarmRequest) -> bool:
    with_remainder = bool(finished.get("with_remainder"))
    return finished.get("state") == "done" and (with_remainder or not request.with_remainder)


def _await_end(settings: Settings, run_id: str, finished: Dict[str, Any]) -> Optional[int]:
    """Process id of the engine that runs; one that has published that it is done only has to leave its lock."""
    deadline = time.monotonic() + _END_TIMEOUT_SECONDS
    while True:
        running = holder(settings, run_id)
        ending = finished.get("state") == "done" and finished.get("pid") == running
        if running is None or not ending or time.monotonic() > deadline:
            return running
        time.sleep(0.05)


def _fetch_block_list(settings: Settings, run_id: str, url: str) -> str:
    """Fetches the block list, or returns the reason why there is none."""
    path = settings.run_path(run_id, block_list.FILE)
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
    return missing


def _await_start(settings: Settings, run_id: str, pid: int, log_path: str) -> None:
    deadline = time.monotonic() + _START_TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        progress = read_json(settings.run_path(run_id, "prewarm.json"))
        if progress and progress.get("pid") == pid:
            return
        time.sleep(0.05)
    raise PrewarmNotStarted(f"the engine (process {pid}) did not start: {_last_words(log_path)}")


def _why_dead(log_path: str) -> str:
    said = _last_words(log_path)
    return f"its log ends: {said} (if that is no error, {KILLED})" if said else f"its log is empty: {KILLED}"


def _last_words(log_path: str) -> str:
    """The end of what the newest engine of the run wrote; earlier ones have written into the same file."""
    return (read_text(log_path) or "").rpartition(_ENGINE_BEGINS)[2].strip()[-_LAST_WORDS_CHARACTERS:]
