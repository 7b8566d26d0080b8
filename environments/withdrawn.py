"""The settings that Peaker no longer has, by their path without list indexes, each with the remedy."""

from __future__ import annotations

WITHDRAWN = {
    "clusters.capacity_reservations": "remove it; reserve room for an event yourself, targeted and in a resource "
    "group, and name the group in capacity_reservation_group_arn",
    "clusters.leading_metrics": "remove it; an event that you know beforehand goes into `calendar`",
    "clusters.limits.approval": "remove it; an automatic start above a limit is refused, and its page has the line "
    "with `above_limits` by which a person starts it",
    "clusters.limits.approval_minutes": "remove it; nobody is waited for",
    "clusters.proposals": "remove it; `peaker backtest --cluster NAME` says which settings would have been cheapest, "
    "and takes --accept-short-minutes",
    "clusters.prewarm.clone_mib_per_s": "remove it; a run that is in a hurry pays for initialization_rate_mib_per_s",
    "clusters.prewarm.direct_fill": "remove it; a run that is in a hurry pays for initialization_rate_mib_per_s",
    "clusters.public_holidays": "remove it; a day that is busier than others goes into `calendar`",
    "clusters.repeating_events": "remove it; each coming day goes into `calendar`, with min_replicas, load or factor",
    "clusters.retirement.refill_expired": "remove it; a parked replica that has expired is retired, a new one is built",
}
