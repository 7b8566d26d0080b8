"""Prewarm progress says how far a prewarm is, when its end will be noticed, and by when it must end. Pure."""

from __future__ import annotations

import math

from peaker.domain.host_results import PrewarmReport
from peaker_contract.storage_settings import ServeWhen

# A poll costs one command and about 12 of the 25,000 events of an execution. A hundredth of the time that has
# passed keeps two days under that limit also where the remaining time is never known, and is noticed 1 % late at most.
SHORTEST_PAUSE_SECONDS = 10
# Until another look has said so: the shortest pause, and as long for its command to be sent, run and read.
NEXT_LOOK_SECONDS = 2 * SHORTEST_PAUSE_SECONDS
LONGEST_PAUSE_SECONDS = 600
PASSED_SHARE = 0.01


def remaining_seconds(serve_when: ServeWhen, report: PrewarmReport) -> float | None:
    """Returns the seconds until the replica may go on: the hot set's where that is enough, else everything's."""
    if serve_when == "hot" and report.hot_eta_seconds is not None:
        return report.hot_eta_seconds
    return report.eta_seconds


def is_hot_by_next_look(report: PrewarmReport) -> bool:
    """Tells whether the hot set is warm, or will be before another look could say so. False where the time is
    not known.

    A database that starts meanwhile loses nothing: the engine reads on beside it. Waiting would cost more than the
    reads that still find a block cold, and more than a small hot set takes whose own readers warm it.
    """
    if report.hot_warm_seconds is not None:
        return True
    return report.hot_eta_seconds is not None and report.hot_eta_seconds <= NEXT_LOOK_SECONDS


def pause_seconds(eta_seconds: float | None, elapsed_seconds: float | None = None) -> int:
    """A quarter of the remaining time, or a hundredth of the time that has passed if that is more, within the limits.

    Where the remaining time is not known it is the second of both.
    """
    least = max(SHORTEST_PAUSE_SECONDS, PASSED_SHARE * (elapsed_seconds or 0.0))
    return int(min(LONGEST_PAUSE_SECONDS, max(least, (eta_seconds or 0.0) / 4)))


def second_look_seconds(elapsed_seconds: float | None) -> int:
    """The pause after a report by which the deadline is missed: a moment that was slow is over by the next one."""
    return max(NEXT_LOOK_SECONDS, pause_seconds(None, elapsed_seconds))


def noticed_after_seconds(eta_seconds: float, elapsed_seconds: float | None = None) -> float:
    """Returns the seconds from a report until the one that finds the engine done: the workflow asks again
    after each pause only.
    """
    # Far away every pause is the longest one.
    far = eta_seconds - 4 * LONGEST_PAUSE_SECONDS
    waited = float(LONGEST_PAUSE_SECONDS * math.ceil(far / LONGEST_PAUSE_SECONDS)) if far > 0 else 0.0
    while waited < eta_seconds:
        waited += pause_seconds(eta_seconds - waited, (elapsed_seconds or 0.0) + waited)
    return waited
