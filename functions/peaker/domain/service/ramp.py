"""The ramp decides whether a newcomer may take a larger share of the reads, by comparison with serving replicas."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from peaker.domain.reading import Unknown
from peaker.domain.runs.ledger import RunPart
from peaker_contract.endpoint_settings import RampSettings

# Fewer errors than this on a newcomer prove nothing: clients cancel queries now and then.
LEAST_ERRORS = 3
# Of the reads that a share should bring, so much must arrive before a larger share is asked for.
LEAST_OF_EXPECTED = 0.5
# A neighbour's burst makes one window bad by accident, hardly two.
WORSE_AT_MOST = 2
# An hour of windows without an answer, at the usual step of 300 s.
UNANSWERED_AT_MOST = 12


class RampAction(StrEnum):
    """An action is the next step of the share."""

    ADVANCE = "advance"
    WAIT = "wait"
    HOLD = "hold"
    BACK = "back"


class Ramp(RunPart):
    """A ramp's state between two calls.

    `share_since` is when the present share was set, `since` that or the end of the last comparison. `endpoint_share` is
    what the endpoint was given last: the newcomers of a batch share one, the smallest that one of them has come to.
    """

    ledger_name = "ramp"

    since: datetime
    share_since: datetime
    index: int = 0
    round: int = 1
    backs: int = 0
    holds: int = 0
    promoted: bool = False
    endpoint_share: float | None = None
    history: tuple[dict[str, Any], ...] = ()


def share_now(policy: RampSettings, ramp: Ramp) -> float:
    """The share of the step that it has reached; of settings that have fewer steps by now, the last."""
    return policy.shares[min(ramp.index, len(policy.shares) - 1)]


@dataclass(frozen=True)
class Service:
    """A replica's service to clients in one window: statements, failed statements, mean latency in ms.

    `measurable` is false when the server keeps no statement statistics (performance_schema is off).
    """

    queries: int
    errors: int
    mean_ms: float | None
    measurable: bool = True

    @property
    def error_share(self) -> float:
        return self.errors / self.queries if self.queries else 0.0


@dataclass(frozen=True)
class RampVerdict:
    """A verdict holds the action on the share, its reason, and its numbers."""

    action: RampAction
    reason: str
    numbers: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Expected:
    """The expectation of a share: the newcomer's reads over those of one peer, and since when, in seconds.

    `overdue_seconds` is when it has had time enough: pools that keep their connections follow no weight.
    """

    ratio: float
    waited_seconds: float
    overdue_seconds: float


def judge_share(
    verdict: RampVerdict,
    newcomer: Service | Unknown,
    peers: Sequence[Service | Unknown],
    policy: RampSettings,
    expected: Expected,
) -> RampVerdict:
    """Hold an advance back until the reads of the present share have arrived: the endpoint acts late on a new share.

    A comparison at a smaller share than was asked for says nothing of the next one. Where the reads stay away for
    longer than the endpoint can be late, clients keep their connections, and the share rises by time; it says so.
    """
    known = [peer.queries for peer in peers if isinstance(peer, Service) and peer.measurable]
    counted = [queries for queries in known if queries >= policy.least_queries]
    if verdict.action is not RampAction.ADVANCE or not isinstance(newcomer, Service) or not counted:
        return verdict
    measured = newcomer.queries / statistics.mean(counted)
    ratios = {"measured_ratio": round(measured, 4), "expected_ratio": round(expected.ratio, 4)}
    numbers = {**verdict.numbers, **ratios}
    if measured >= LEAST_OF_EXPECTED * expected.ratio:
        return RampVerdict(RampAction.ADVANCE, verdict.reason, numbers)
    shown = f"{measured:.0%} of a peer's reads arrive, {expected.ratio:.0%} were expected"
    if expected.waited_seconds < expected.overdue_seconds:
        return RampVerdict(RampAction.WAIT, f"{shown}: the endpoint acts late", numbers)
    reason = (
        f"{verdict.reason}; {shown} after {expected.waited_seconds:.0f} s: clients keep their connections"
    )
    return RampVerdict(RampAction.ADVANCE, reason, numbers)


def judge_step(
    newcomer: Service | Unknown, peers: Sequence[Service | Unknown], policy: RampSettings
) -> RampVerdict:
    """Compare one window of the newcomer with the same window of its peers.

    Without a serving peer there is nothing to compare with, and no other replica that clients could be spared for:
    it advances. What cannot be measured now holds (I4); what can be measured nowhere advances by time, and says so.
    So does a cluster that nobody reads: a replica built in a quiet hour is not undone for want of queries.
    """
    if not peers:
        return RampVerdict(RampAction.ADVANCE, "no other replica serves: nothing to compare with")
    known = [peer for peer in peers if isinstance(peer, Service)]
    if isinstance(newcomer, Unknown):
        return RampVerdict(RampAction.HOLD, f"the newcomer could not be measured: {newcomer.why}")
    if not newcomer.measurable and known and not any(peer.measurable for peer in known):
        return RampVerdict(RampAction.ADVANCE, "by time alone: performance_schema is off on all replicas")
    busy = [peer for peer in known if peer.measurable and peer.queries >= policy.least_queries]
    numbers = _numbers(newcomer, busy)
    if _quiet([newcomer, *known], policy) and len(known) == len(peers):
        reason = f"by time alone: no replica answered {policy.least_queries} queries in the window"
        return RampVerdict(RampAction.ADVANCE, reason, numbers)
    if newcomer.queries < policy.least_queries:
        reason = f"{newcomer.queries} queries on the newcomer, {policy.least_queries} needed to compare"
        return RampVerdict(RampAction.HOLD, reason, numbers)
    if not busy:
        return RampVerdict(
            RampAction.HOLD, f"no peer answered {policy.least_queries} queries to compare with", numbers
        )
    return _compared(newcomer, busy, policy, numbers)


def _quiet(replicas: Sequence[Service], policy: RampSettings) -> bool:
    return all(
        one.measurable and one.queries < policy.least_queries and one.errors < LEAST_ERRORS
        for one in replicas
    )


def _compared(
    newcomer: Service, peers: Sequence[Service], policy: RampSettings, numbers: dict[str, Any]
) -> RampVerdict:
    usual_errors = max(peer.error_share for peer in peers)
    if newcomer.errors >= LEAST_ERRORS and newcomer.error_share > policy.latency_margin * usual_errors:
        reason = f"{newcomer.error_share:.2%} of its queries fail, {usual_errors:.2%} of its peers'"
        return RampVerdict(RampAction.BACK, reason, numbers)
    means = [peer.mean_ms for peer in peers if peer.mean_ms is not None]
    if newcomer.mean_ms is None or not means:
        return RampVerdict(RampAction.HOLD, "latency is unknown", numbers)
    usual_ms = statistics.median(means)
    shown = f"mean {newcomer.mean_ms:.2f} ms, peers {usual_ms:.2f} ms, margin {policy.latency_margin:g}"
    if newcomer.mean_ms > policy.latency_margin * usual_ms:
        return RampVerdict(RampAction.BACK, f"slower than its peers: {shown}", numbers)
    return RampVerdict(RampAction.ADVANCE, shown, numbers)


def _numbers(newcomer: Service, peers: Sequence[Service]) -> dict[str, Any]:
    means = [peer.mean_ms for peer in peers if peer.mean_ms is not None]
    return {
        "queries": newcomer.queries,
        "errors": newcomer.errors,
        "mean_ms": newcomer.mean_ms,
        "peers_mean_ms": round(statistics.median(means), 3) if means else None,
        "peers": len(peers),
    }
