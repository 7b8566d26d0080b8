"""The storage proof of one run: a sample of each volume, one after the other; then a load on all at once, as the
database's will be; the search for the knee last, for it asks for more than a device can give.

The database may be at work on the volumes meanwhile, and the applier with it. The sample is of what was live before it
began; reads go around every cache of the host, so that what the database has in memory makes no block look warm. What
may be warmed again before: the neighbourhoods of the blocks that were slow at the last look (cold), or every block that
must be warm (all); when that was done to the end, all of them are warm, however noisy the machine.
"""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import Any, Callable, Dict, List, Optional

from peaker_host.blocks import timed_reads
from peaker_host.blocks.live_blocks import LiveBlocks, kept_live_blocks, live_blocks_of
from peaker_host.blocks.log_replay import replay_log
from peaker_host.blocks.ranges import Range, difference, intersection, merged
from peaker_host.layouts.mounts import OpenFilesystem, let_resync, open_mounts
from peaker_host.machine.devices import BlockDevice, describe_device, mount_points
from peaker_host.machine.errors import (
    CommandFailed,
    HostError,
    ToolMissing,
    UnreadableFile,
    UnreadableFilesystem,
    understood,
    whole,
)
from peaker_host.machine.files import read_json, write_json
from peaker_host.machine.manifest import Member, load_manifest, note_proven
from peaker_host.machine.settings import Machine, Settings
from peaker_host.prove import knee
from peaker_host.prove.load_test import run_load_test
from peaker_host.prove.storage_proof import after_reading_all, sample_warmth
from peaker_host.warm.plan import urgent_blocks
from peaker_host.warm.reader_pool import RateLimiter, ReaderPool, requests_of

# 64 MiB on each side: what one lost stretch of a prewarm's requests may cover.
NEIGHBOURHOOD_BLOCKS = 128
_READ_SECONDS = 1500.0
_FILE = "slow_blocks.json"


def blocks_to_read(
    settings: Settings, run_id: str, volume_id: str, remedy: str, live: List[Range]
) -> List[Range]:
    if remedy == "all":
        return live
    if remedy == "none":
        return []
    path = settings.run_path(run_id, _FILE)
    with understood(UnreadableFile, path, "run verify_storage with remedy all"):
        slow = [whole(block, "a block") for block in (read_json(path) or {}).get(volume_id, [])]
    around = [
        (max(0, block - NEIGHBOURHOOD_BLOCKS), min(block, NEIGHBOURHOOD_BLOCKS) + NEIGHBOURHOOD_BLOCKS + 1)
        for block in slow
    ]
    return intersection(merged(around), live)


def read_again(device: BlockDevice, blocks: List[Range], seconds: float = _READ_SECONDS) -> bool:
    """Read the blocks whole. False when the time did not do or some could not be read."""
    if not blocks:
        return True
    stop = threading.Event()
    timer = threading.Timer(seconds, stop.set)
    timer.daemon = True
    timer.start()
    try:
        pool = ReaderPool(device.path, device.size_bytes, 1, RateLimiter(0), lambda *_: None, stop)
        pool.run(requests_of([blocks], lambda _: False, pool.blocks_per_read))
        return not stop.is_set() and not pool.progress.failed
    finally:
        timer.cancel()


@dataclass(frozen=True)
class ProofRequest:
    """A request names the volumes to prove and the loads' seconds. `scope`: used or hot; `remedy`: none, cold
    or all.

    A load or a search of 0 s is left out; `knee_seconds` are for all volumes together.
    """

    run_id: str
    sample_blocks: int
    await_ratio_limit: float
    scope: str
    remedy: str
    load_seconds: int
    knee_seconds: int


@dataclass
class _Proof:
    """One volume's proof while it is made."""

    device: BlockDevice
    used: List[Range]
    numbers: Dict[str, Any]


def verify_storage(machine: Machine, request: ProofRequest, say: Callable[[str], None]) -> Dict[str, Any]:
    """The worst volume's verdict and numbers, with those of each under `volumes`."""
    return _Verification(machine, request, say).run()


class _Verification:
    def __init__(self, machine: Machine, request: ProofRequest, say: Callable[[str], None]) -> None:
        self._machine, self._request, self._say = machine, request, say
        self._generator = random.SystemRandom()

    def run(self) -> Dict[str, Any]:
        request = self._request
        made = load_manifest(self._machine, request.run_id)
        mounts = open_mounts(self._machine, made)
        live = self._live(mounts)
        proofs = [
            self._sample(member, live[member.volume_id]) for mount in mounts for member in mount.members
        ]
        slow = {proof.numbers["volume_id"]: proof.numbers.pop("slow_blocks") for proof in proofs}
        write_json(self._machine.run_path(request.run_id, _FILE), slow)
        if request.load_seconds > 0:
            with ThreadPoolExecutor(len(proofs)) as loads:
                running = [loads.submit(self._load, proof) for proof in proofs]
                for proof, load in zip(proofs, running):
                    proof.numbers["load"] = load.result()
        for proof in proofs:
            proof.numbers["knee"] = self._knee(proof, request.knee_seconds / len(proofs))
        found = combined([proof.numbers for proof in proofs])
        mounted = all(mount.top.mount_point in mount_points(mount.device) for mount in mounts)
        if found["verdict"] == "warm":
            note_proven(self._machine, request.run_id)
            if mounted:
                # It was held back, for it would have been measured.
                let_resync(self._machine, made)
        return {**found, "mounted": mounted}

    def _live(self, mounts: List[OpenFilesystem]) -> Dict[str, LiveBlocks]:
        """Returns the live blocks by volume id: as kept before the database began, or as they are now."""
        run_id = self._request.run_id
        found = kept_live_blocks(self._machine, run_id)
        if found:
            return found
        for mount in mounts:
            used = replay_log(self._machine, run_id, mount.top)
            found.update(live_blocks_of(self._machine, run_id, used, mount.stack, mount.members))
        if self._request.scope != "hot":
            return found
        urgent = self._urgent_blocks(mounts)
        return {key: replace(one, urgent=urgent.get(key, [])) for key, one in found.items()}

    def _urgent_blocks(self, mounts: List[OpenFilesystem]) -> Dict[str, List[Range]]:
        """Returns the urgent blocks by volume; nothing where the files cannot be found."""
        try:
            return urgent_blocks(self._machine, mounts)
        except (UnreadableFilesystem, CommandFailed, ToolMissing) as error:
            self._say(f"all that is used is proven, because the hot blocks cannot be found: {error}")
            return {}

    def _sample(self, member: Member, live: LiveBlocks) -> _Proof:
        request = self._request
        device = describe_device(member.path)
        used = live.blocks
        if request.scope == "hot":
            used = intersection(list(live.urgent), used) or used
        probed = timed_reads.kept(self._machine, request.run_id).get(member.volume_id)
        if probed is not None:
            used = difference(used, [(block, 1) for block in probed.blocks])
        again = blocks_to_read(self._machine, request.run_id, member.volume_id, request.remedy, used)
        complete = read_again(device, again)
        warmth = sample_warmth(
            device.path,
            device.size_bytes,
            used,
            request.sample_blocks,
            request.await_ratio_limit,
            self._generator,
            lambda text: self._say(f"{member.name}: {text}"),
        )
        if request.remedy == "all" and complete:
            warmth = after_reading_all(warmth)
        facts = {"name": member.name, "volume_id": member.volume_id}
        cold = None if probed is None else probed.await_ms
        return _Proof(
            device, used, {**facts, "await_cold_ms": cold, **asdict(warmth), "load": None, "knee": None}
        )

    def _load(self, proof: _Proof) -> Dict[str, Any]:
        request = self._request
        load = run_load_test(
            self._machine.processes,
            proof.device,
            proof.used,
            request.load_seconds,
            self._generator,
        )
        seen = load["iostat"]
        self._say(f"{proof.numbers['name']}: r_await {seen['r_await']} ms at {seen['r/s']} reads/s")
        return load

    def _knee(self, proof: _Proof, seconds: float) -> Optional[Dict[str, Any]]:
        """The knee within the blocks that were proven warm, in short; None when it was not asked for."""
        if seconds <= 0:
            return None
        name = proof.numbers["name"]
        try:
            found = knee.find_knee(
                proof.device.path,
                knee.settings_for(seconds),
                self._machine.processes,
                lambda step: self._say(
                    f"{name}: {step.concurrency} at once, {step.requests_per_s:.0f}/s, {step.await_ms} ms"
                ),
                with_throughput=False,
                blocks=proof.used,
            )
        except HostError as error:
            return {"missing": f"{type(error).__name__}: {error}"}
        return knee.in_short(found)


def combined(volumes: List[Dict[str, Any]]) -> Dict[str, Any]:
    rank = {"warm": 0, "unknown": 1, "not_warm": 2}
    worst = max(volumes, key=lambda volume: (rank[volume["verdict"]], volume["cold_share_upper"] or 0.0))
    load = worst["load"] or {}
    named = (
        "await_cold_ms",
        "await_first_ms",
        "await_second_ms",
        "ratio",
        "cold_share_upper",
    )
    return {
        "verdict": worst["verdict"],
        "reason": f"{worst['name']}: {worst['reason']}",
        **{name: worst[name] for name in named},
        "blocks_sampled": sum(volume["blocks_sampled"] for volume in volumes),
        "iostat": load.get("iostat"),
        "volumes": volumes,
    }
