"""How far a prewarm is, when it will be noticed to be over, and by when it must be. Pure."""

from __future__ import annotations

from typing import Literal

from peaker.domain.host_results import PrewarmReport

# A poll costs one command and about 20 history events; 10 minutes keep two days under the limit of 25,000.
SHORTEST_PAUSE_SECONDS = 60
LONGEST_PAUSE_SECONDS = 600


# What must be warm before a replica goes on: all that is used, or the hot set.
ServeWhen = Literal["all", "hot"]


def remaining_seconds(serve_when: ServeWhen, report: PrewarmReport) -> float | None:
    """Until the replica may go on: the hot set's time where that is enough, else everything's."""
    if serve_when == "hot" and report.hot_eta_seconds is not None:
        return report.hot_eta_seconds
    return report.eta_seconds


def pause_seconds(eta_seconds: float | None) -> int:
    """A quarter of the remaining time, within the limits; the shortest pause when it is not known."""
    if eta_seconds is None:
        return SHORTEST_PAUSE_SECONDS
    return int(min(LONGEST_PAUSE_SECONDS, max(SHORTEST_PAUSE_SECONDS, eta_seconds / 4)))


def noticed_after_seconds(eta_seconds: float) -> float:
    """From a report until the one that finds the engine done: the workflow asks again after each pause only."""
    waited = 0.0
    while waited < eta_seconds:
        waited += pause_seconds(eta_seconds - waited)
    return waited
