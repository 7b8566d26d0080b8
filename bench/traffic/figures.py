"""From what the readers saw to the figures: pure functions of reads, attempts and windows of time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bench.traffic.clients import ConnectAttempt, Read

Window = tuple[float, float]
# Two bad looks, a second apart (BAD_SAMPLES of the health responder).
RESPONDER_SECONDS = 2.0

FAILED_QUERIES = "failed queries, joins, retirements and undos"


@dataclass(frozen=True)
class Detection:
    """How a fault showed to the readers. Times in seconds since the fault; `intervals` in health intervals.

    `in_flight` are failed queries on connections that were open to the faulted replica before the endpoint had
    stopped sending to it; `others` are all other failed queries.
    """

    fault: str
    seconds: float
    intervals: float
    in_flight: int
    others: int
    reads_too_stale: int


def p99_ms(reads: Iterable[Read], windows: Sequence[Window]) -> float:
    """99th percentile of the answered queries that were sent in the windows, in ms; nan without one."""
    inside = sorted(read.seconds for read in reads if read.error is None and _in(read.sent_at, windows))
    return 1000 * inside[min(len(inside) - 1, int(0.99 * len(inside)))] if inside else float("nan")


def first_to_answer(reads: Iterable[Read]) -> str:
    """The server of the first answer: the base replica, which serves alone when the bench begins."""
    return min((read for read in reads if read.error is None), key=lambda read: read.sent_at).server


def by_server(reads: Iterable[Read], base: str) -> tuple[list[Read], list[Read]]:
    """The reads that the base replica answered, and those of the replicas that come and go.

    In one window both meet the machine's shared processors; only the second meet a newcomer's own cold caches.
    """
    answered = list(reads)
    return [one for one in answered if one.server == base], [one for one in answered if one.server != base]


def failed(reads: Iterable[Read], windows: Sequence[Window]) -> list[Read]:
    """Failed queries that were sent in the windows."""
    return [read for read in reads if read.error is not None and _in(read.sent_at, windows)]


def last_sent_there(attempts: Iterable[ConnectAttempt], server: str, window: Window) -> ConnectAttempt | None:
    """The last new connection that the endpoint sent to that server: one that landed there, or one that failed."""
    there = [one for one in attempts if one.server in (None, server) and window[0] <= one.at <= window[1]]
    return max(there, key=lambda one: one.at, default=None)


def detect(
    fault: str,
    server: str,
    window: Window,
    reads: Sequence[Read],
    attempts: Sequence[ConnectAttempt],
    interval_seconds: float,
    lag_gate_seconds: float,
) -> Detection:
    """What a fault that began at window[0] did until window[1]."""
    last = last_sent_there(attempts, server, window)
    seconds = 0.0 if last is None else last.at - window[0]
    # The last connection was open from here on; a millisecond for the rounding of epoch seconds.
    stopped_at = window[0] if last is None else last.at + last.seconds + 0.001
    bad = failed(reads, [window])
    in_flight = [read for read in bad if read.server == server and read.connected_at <= stopped_at]
    return Detection(
        fault,
        seconds,
        seconds / interval_seconds,
        len(in_flight),
        len(bad) - len(in_flight),
        len(too_stale(reads, window, interval_seconds, lag_gate_seconds)),
    )


def too_stale(
    reads: Sequence[Read], window: Window, interval_seconds: float, lag_gate_seconds: float
) -> list[Read]:
    """Reads from a server that was beyond the gate for longer than one interval and the time to detect it.

    That time is two intervals of the endpoint, and in real seconds, whatever the cloud's clock, the responder's.
    """
    allowed_seconds = 3 * interval_seconds + RESPONDER_SECONDS
    found: list[Read] = []
    beyond_since: dict[str, float] = {}
    for read in sorted((one for one in reads if _in(one.sent_at, [window])), key=lambda one: one.sent_at):
        if read.stale_seconds is None:
            continue
        if read.stale_seconds <= lag_gate_seconds:
            beyond_since.pop(read.server, None)
            continue
        since = beyond_since.setdefault(read.server, read.sent_at)
        if read.sent_at - since > allowed_seconds:
            found.append(read)
    return found


def _in(moment: float, windows: Sequence[Window]) -> bool:
    return any(start <= moment <= end for start, end in windows)
