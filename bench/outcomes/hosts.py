"""Hosts whose documents take as long as their cluster, its bytes and its writes make them."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from bench.faults.workflows.virtual_time import VirtualTime
from bench.faults.world.account import Account, Record, attachment_at
from bench.faults.world.ssm import HostileCommands
from bench.outcomes import laws
from bench.outcomes.engine import Cold, Reading, read
from bench.outcomes.truth import GIB, Truth
from peaker_contract.tags import VOLUME_TAG

_PAGE_BYTES = 16_384
# What a proof of two gigabytes of blocks more takes beside its first look, and how often one look is not enough.
_UNSURE_SHARE, _NOT_WARM_SHARE, _LATER_LOOK = 0.08, 0.03, 1.8
_SAMPLE_SECONDS = 1.0
Answer = tuple[float, dict[str, Any]]


class LawfulCommands(HostileCommands):
    """Port CommandRunner."""

    def __init__(self, account: Account, time: VirtualTime, chance: random.Random, truth: Truth) -> None:
        super().__init__(account, time, chance)
        self._truth = truth
        self._looks: dict[str, int] = {}
        self._engines: dict[tuple[str, float], Reading] = {}
        self._speeds: dict[tuple[str, float], float] = {}
        self._laws: Mapping[str, Callable[[str, Mapping[str, str]], Answer]] = {
            "install_host_package": lambda *_: (self._about(6.0, 0.3), {}),
            "prepare_donor": self._prepare_donor,
            "assemble_storage": lambda *_: (self._about(self._truth.assemble_seconds, 0.25), {}),
            "start_prewarm": lambda *_: (self._about(2.0, 0.3), {}),
            "report_prewarm": self._report_prewarm,
            "verify_storage": self._verify_storage,
            "start_database": self._start_database,
            "start_replication": lambda *_: (self._about(3.0, 0.3), {}),
            "wait_for_catch_up": self._wait_for_catch_up,
            "load_buffer_pool": self._load_buffer_pool,
            "check_mounts": self._check_mounts,
            "measure_service": lambda _, given: (float(given["WindowSeconds"]), {}),
            "stop_database": lambda *_: (self._about(20.0, 0.4), {}),
        }

    def _answer(self, document: str, instance_id: str, parameters: Mapping[str, str]) -> Answer:
        took, result = super()._answer(document, instance_id, parameters)
        if not result.get("ok"):
            return took, result
        law = self._laws.get(document)
        work, own = (self._about(1.0, 0.4), {}) if law is None else law(instance_id, parameters)
        return laws.COMMAND_DELIVERED.draw(self._random) + work, {**result, **own}

    def _about(self, seconds: float, sigma: float) -> float:
        return seconds * laws.spread(self._random, sigma)

    def _prepare_donor(self, instance_id: str, given: Mapping[str, str]) -> Answer:
        truth, now = self._truth, self._time.seconds
        stacks = [self._stack(instance_id, one) for one in given["MountPoints"].split(",")]
        told = {
            "buffer_pool_pages": int(truth.pool_bytes / _PAGE_BYTES),
            "data_bytes": int(sum(truth.used_bytes(one, now) for one in truth.used)),
            "layout": stacks,
        }
        return self._about(truth.prepare_seconds, 0.2), told

    def _stack(self, instance_id: str, mount_point: str) -> dict[str, Any]:
        volumes = {one.name: one for one in self._truth.settings.volumes if one.mount_point == mount_point}
        found = {one["tags"][VOLUME_TAG]: one for one in self._attached(instance_id)}
        first = next(iter(volumes.values()))
        return {
            "mount_point": mount_point,
            "filesystem": first.filesystem,
            "kind": first.layout,
            "volumes": [
                {"volume_id": found[name]["id"], "size_bytes": int(self._truth.size_gib[name] * GIB)}
                for name in volumes
            ],
        }

    def _attached(self, instance_id: str) -> list[Record]:
        """Its data volumes."""
        now, names = self._time.seconds, self._truth.used
        return [
            one
            for one in self._account.volumes.values()
            if (attachment_at(one, now) or {}).get("instance") == instance_id
            and one["tags"].get(VOLUME_TAG) in names
        ]

    def _engine(self, instance_id: str) -> tuple[float, Reading] | None:
        """When its engine began, and what it reads when."""
        began = self._account.on_host(instance_id, "prewarm", self._time.seconds)
        if began is None or not began[1]:
            return None
        key = (instance_id, began[0])
        if key not in self._engines:
            truth, prewarm = self._truth, self._truth.settings.prewarm
            volumes = []
            for one in self._attached(instance_id):
                name = one["tags"][VOLUME_TAG]
                used = truth.used_bytes(name, self._account.snapshots[one["snapshot"]]["started"])
                hot = min(0.95, truth.hot_share * laws.spread(self._random, 0.06)) * used
                volumes.append(Cold(hot, used, one["fills_at"]))
            kind = self._account.instances[instance_id]["type"]
            slow = float(prewarm.background_rate_mib_per_s) if prewarm.serve_when == "hot" else None
            self._engines[key] = read(volumes, kind, self._about(truth.planning_seconds, 0.2), slow)
        return began[0], self._engines[key]

    def _report_prewarm(self, instance_id: str, _: Mapping[str, str]) -> Answer:
        engine = self._engine(instance_id)
        if engine is None:
            return 1.0, {}
        began, reading = engine
        return self._about(1.0, 0.3), reading.report(self._time.seconds - began)

    def _verify_storage(self, instance_id: str, given: Mapping[str, str]) -> Answer:
        look = self._looks[instance_id] = self._looks.get(instance_id, 0) + 1
        took = self._about(self._truth.proof_seconds, 0.12) * (_LATER_LOOK if look > 1 else 1.0)
        if look > 1:
            return took, {}
        odds = self._random.random()
        if odds < _UNSURE_SHARE:
            return took, {"verdict": "unknown", "reason": "other reads kept the device busy"}
        if odds < _UNSURE_SHARE + _NOT_WARM_SHARE:
            return took, {"verdict": "not_warm", "reason": "blocks are cold"}
        return took, {}

    def _start_database(self, instance_id: str, _: Mapping[str, str]) -> Answer:
        """A copy recovers what its redo log holds; one that was shut down has nothing to recover."""
        clean = self._account.on_host(instance_id, "stopped_database", self._time.seconds) is not None
        return self._about(6.0, 0.3) + (0.0 if clean else self._about(self._truth.recovery_seconds, 0.3)), {}

    def _load_buffer_pool(self, *_: Any) -> Answer:
        truth = self._truth
        seconds = truth.pool_bytes / (truth.pool_mib_per_s * 1024**2)
        return self._about(seconds, 0.12), {"pages": int(truth.pool_bytes / _PAGE_BYTES)}

    def _check_mounts(self, *_: Any) -> Answer:
        mounts = [
            {"name": one.name, "mount_point": one.mount_point, "problem": ""}
            for one in self._truth.settings.volumes
        ]
        return self._about(1.0, 0.3), {"mounts": mounts}

    def _wait_for_catch_up(self, instance_id: str, _: Mapping[str, str]) -> Answer:
        now, gates = self._time.seconds, self._truth.settings.gates
        began = self._account.on_host(instance_id, "replication", now)
        since = now if began is None else began[0]
        lag = self._lag(instance_id, since, now)
        left = 0.0
        while self._lag(instance_id, since, now + left) > gates.lag_seconds:
            left += 1.0
        last = [{"lag_seconds": 0, "running": True, "gtid_behind": 0}] * gates.lag_samples
        first = {"lag_seconds": round(lag), "running": True, "gtid_behind": 1}
        took = left + gates.lag_samples * _SAMPLE_SECONDS
        return took, {"samples": [first, *last], "caught_up_seconds": round(took, 1)}

    def _lag(self, instance_id: str, since: float, until: float) -> float:
        """Behind by what was written since its data were made, less what it has replayed; slower while it is read."""
        key = (instance_id, since)
        speed = self._speeds.setdefault(
            key, max(1.15, 1 + (self._truth.apply_speed - 1) * laws.spread(self._random, 0.08))
        )
        engine = self._engine(instance_id)
        cold_until = since if engine is None else max(since, engine[0] + engine[1].used_seconds)
        cold = max(0.0, min(until, cold_until) - since)
        replayed = cold * max(1.0, speed * self._truth.cold_apply) + (until - since - cold) * speed
        return max(0.0, until - self._made_at(instance_id, since) - replayed)

    def _made_at(self, instance_id: str, otherwise: float) -> float:
        """The instant of its data: when its database was shut down, else its snapshots."""
        stopped = self._account.on_host(instance_id, "stopped_database", self._time.seconds)
        if stopped is not None:
            return float(stopped[0])
        taken = [self._account.snapshots[one["snapshot"]]["started"] for one in self._attached(instance_id)]
        return min(taken, default=otherwise)

    def _effects(self, record: Record) -> None:
        super()._effects(record)
        if record["document"] == "stop_database":
            self._account.happened(record["instance"], record["done"], "stopped_database", True)
