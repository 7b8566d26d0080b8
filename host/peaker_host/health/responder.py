"""Answers the load balancer's question: may this replica get connections?

200 after enough good samples in a row, 503 after enough bad ones or without a recent one, 404 while maintenance is on.
A sample that could not be taken, a lag that is NULL and a source that was not heard of are bad: unknown is not healthy.
While the server has no place for one more connection, what it was before counts, for a time.
The body says why. A replica that only lags goes on with 200 while too few of its peers are good (serving_floor).
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import asdict, replace
from typing import Any, Callable, Dict, Optional, Tuple

from peaker_host.database.mysql_client import MysqlClient
from peaker_host.health.policy import (
    FloorDecision,
    HealthPolicy,
    ask_peers,
    load_policy,
    may_keep_serving,
    read_health,
    store_policy,
)
from peaker_host.health.sample import FAULT, FULL, LAG, Sample, SourceSilence, free_disk_percents, take_sample
from peaker_host.health.unit import UNIT, install_health_service
from peaker_host.machine.errors import MISFITS, HostError, ResponderUnreachable
from peaker_host.machine.files import write_atomically
from peaker_host.machine.settings import Machine, Settings

# Files of the state directory: while the first is there the answer is 404; a look of drain_replica touches the second.
MAINTENANCE, _DRAINING = "maintenance", "draining"
SAMPLE_SECONDS = 1.0
# So many in a row turn the answer: one slow answer takes no replica out, and one quick answer brings none back.
GOOD_SAMPLES, BAD_SAMPLES = 3, 2
STALE_SECONDS = 5.0
# A peak fills servers. One that is taken out for it loses its clients' connections, and they come to the next. Longer
# than a burst lasts nobody knows whether it still follows its source.
FULL_SECONDS = 60.0
# How long after drain_replica asked last the body still says `draining`.
DRAINING_SECONDS = 120.0
_RESPONDER_START_SECONDS = 10.0
_LOCAL_TIMEOUT_SECONDS = 3.0
_LOOK_SECONDS = 0.2


class HealthState:
    """Samples in a row, the latest one, and whether the floor keeps this replica; times in monotonic seconds. Pure."""

    def __init__(self, good_samples: int = GOOD_SAMPLES, bad_samples: int = BAD_SAMPLES) -> None:
        self._needed = {True: good_samples, False: bad_samples}
        self._is_good = False
        self._only_lag = False
        self._in_a_row = {True: 0, False: 0}
        self._latest: Optional[Sample] = None
        self._floor: Optional[FloorDecision] = None
        self._taken_at = 0.0
        self._judged_at: Optional[float] = None
        self._lock = threading.Lock()

    def asks_for_floor(self, sample: Sample) -> bool:
        """Tells whether lag is the only fault, now or lately."""
        if sample.kind == LAG:
            return True
        with self._lock:
            return not sample.problem and self._only_lag and not self._is_good

    def add(self, sample: Sample, floor: Optional[FloorDecision], now: float) -> None:
        """Take in a sample; it turns the answer when enough of its kind came in a row. A full server's turns nothing
        until it is the only kind for FULL_SECONDS; then it is bad like others."""
        with self._lock:
            if sample.kind != FULL:
                self._judged_at = now
            elif self._judged_at is not None and now - self._judged_at <= FULL_SECONDS:
                self._latest, self._taken_at = _standing(sample, now - self._judged_at), now
                return
            kind = not sample.problem
            self._in_a_row = {kind: self._in_a_row[kind] + 1, not kind: 0}
            if self._in_a_row[kind] >= self._needed[kind]:
                self._is_good = kind
            if sample.problem:
                self._only_lag = sample.kind == LAG
            elif self._is_good:
                self._only_lag = False
            self._latest, self._floor, self._taken_at = sample, floor, now

    def answer(self, maintenance: bool, now: float) -> Tuple[int, Dict[str, Any]]:
        with self._lock:
            latest, floor, age, is_good = self._latest, self._floor, now - self._taken_at, self._is_good
            only_lag, in_a_row = self._only_lag, dict(self._in_a_row)
        if maintenance:
            return 404, {"state": "maintenance", "why": "maintenance is on"}
        if latest is None:
            return 503, {"state": "bad", "why": "no sample yet"}
        stale = age > STALE_SECONDS
        kept = floor is not None and floor.keep and only_lag and not is_good and not stale
        body: Dict[str, Any] = {
            "state": "good" if is_good and not stale else "bad",
            "why": self._why(latest, floor, age, is_good, kept, in_a_row[True]),
            "kept_by_floor": kept,
            "only_lag": only_lag and not stale,
            "floor": None if floor is None else {"reason": floor.reason, **floor.numbers},
            "good_samples": in_a_row[True],
            "bad_samples": in_a_row[False],
            "sample_age_seconds": round(age, 1),
            **{name: value for name, value in asdict(latest).items() if name not in ("problem", "kind")},
        }
        return 200 if body["state"] == "good" or kept else 503, body

    def _why(
        self, latest: Sample, floor: Optional[FloorDecision], age: float, is_good: bool, kept: bool, good: int
    ) -> str:
        if age > STALE_SECONDS:
            return f"the last sample is {age:.1f} s old"
        if is_good:
            once = f" (the last sample was not: {latest.problem})" if latest.problem else ""
            role = (
                "the source, which may serve reads" if latest.is_source else "read only, replicating, in time"
            )
            return role + once
        problem = latest.problem or f"{good} of {self._needed[True]} good samples"
        if kept and floor is not None:
            return f"{problem}; goes on serving: {floor.reason}"
        return problem


def _standing(sample: Sample, seconds: float) -> Sample:
    counts = f"what was seen {seconds:.0f} s ago counts, for {FULL_SECONDS:g} s at most"
    return replace(sample, problem=f"{sample.problem}; {counts}")


class Sampler:
    """Looks at the replica once a second, asks the peers when lag is all that is wrong, and tells the state."""

    def __init__(
        self,
        settings: Settings,
        client: MysqlClient,
        state: HealthState,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings, self._client, self._state, self._clock = settings, client, state, clock
        self._silence = SourceSilence()

    def look(self) -> None:
        """One sample. Whatever goes wrong in taking it is a bad sample, never the end of sampling."""
        policy, floor = HealthPolicy(), None
        try:
            policy = load_policy(self._settings)
            sample = self._sample(policy)
            if self._state.asks_for_floor(sample):
                peers = ask_peers(policy.peers, self._settings.health_port)
                floor = may_keep_serving(sample.staleness_seconds or 0.0, peers, policy.floor_replicas)
        except (OSError, HostError, *MISFITS) as error:
            sample, floor = Sample(f"no sample could be taken: {type(error).__name__}: {error}", FAULT), None
        self._state.add(sample, floor, self._clock())

    def _sample(self, policy: HealthPolicy) -> Sample:
        free = free_disk_percents(self._settings)
        return take_sample(self._client, self._settings.engine, policy, free, self._silence, self._clock())

    def forever(self, stop: threading.Event) -> None:
        """A sample a second, sooner after one that took long, until told to stop."""
        while not stop.is_set():
            started = self._clock()
            self.look()
            stop.wait(max(0.0, SAMPLE_SECONDS - (self._clock() - started)))


def answer_now(state: HealthState, settings: Settings) -> Tuple[int, Dict[str, Any]]:
    """HTTP status and body of this moment, with what people have set on this host."""
    status, body = state.answer(os.path.exists(settings.state_path(MAINTENANCE)), time.monotonic())
    return status, {**body, "draining": is_draining(settings, time.time())}


def report_health(machine: Machine, policy: Dict[str, Any]) -> Dict[str, Any]:
    """Store what the responder goes by, and say what it answers now. Starts it when it does not run.

    Raises ResponderUnreachable when it does not answer.
    """
    changed = store_policy(machine, policy)
    try:
        status, body = await_responder(machine, 0.0)
    except ResponderUnreachable:
        install_health_service(machine)
        status, body = await_responder(machine, _RESPONDER_START_SECONDS)
    return {**body, "http_status": status, "policy_changed": changed}


def await_responder(settings: Settings, wait_seconds: float) -> Tuple[int, Dict[str, Any]]:
    """Waits for the responder on this host and returns its HTTP status and JSON body, good or bad.

    Its unit counts as started before it listens. Raises ResponderUnreachable when it does not answer in time.
    """
    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            return read_health("127.0.0.1", settings.health_port, _LOCAL_TIMEOUT_SECONDS)
        except (OSError, ValueError) as error:
            if time.monotonic() >= deadline:
                raise ResponderUnreachable(
                    f"the health responder does not answer on port {settings.health_port}: {error}; "
                    f"journalctl -u {UNIT} has its own words"
                ) from error
        time.sleep(_LOOK_SECONDS)


def mark_draining(settings: Settings) -> None:
    write_atomically(settings.state_path(_DRAINING), "draining\n")


def is_draining(settings: Settings, now: float) -> bool:
    """Tells whether drain_replica asked within the last two minutes. `now` in seconds since the epoch."""
    try:
        return now - os.path.getmtime(settings.state_path(_DRAINING)) < DRAINING_SECONDS
    except FileNotFoundError:
        return False


def set_maintenance(settings: Settings, on: bool) -> Dict[str, Any]:
    """Turn maintenance on or off; saying it twice changes nothing."""
    path = settings.state_path(MAINTENANCE)
    was = os.path.exists(path)
    if on and not was:
        write_atomically(path, "on\n")
    elif not on and was:
        os.unlink(path)
    return {"maintenance": "on" if on else "off", "changed": on != was}
