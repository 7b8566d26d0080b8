"""The settings that Peaker no longer has, by their path without list indexes, each with the remedy."""

from __future__ import annotations

WITHDRAWN = {
    "accept_unlisted_region": "remove it; a newer region is known after pip install --upgrade botocore and "
    "make aws-names",
    "functions": "remove it; functions run on Python 3.13 and arm64, in the environment local on this machine's own",
    "network": "write vpc_id beside account; subnets of a load balancer go into clusters.NAME.read_endpoint.subnets",
    "clusters.accept_unlisted_instance_type": "remove it; a newer type is known after pip install --upgrade "
    "botocore and make aws-names",
    "clusters.calendar.time_zone": "remove it; times without an offset are in the cluster's time_zone",
    "clusters.capacity_reservations": "remove it; reserve room for an event yourself, targeted and in a resource "
    "group, and name the group in capacity_reservation_group_arn",
    "clusters.forecast.cost_short_usd_per_hour": "remove it; set quantile to short / (short + spare)",
    "clusters.forecast.cost_spare_usd_per_hour": "remove it; set quantile to short / (short + spare)",
    "clusters.forecast.keep_lead_times": "remove it; a replica is kept for two lead times",
    "clusters.gates.lag_samples": "remove it; three samples in a row must be within lag_seconds",
    "clusters.health.bad_samples": "remove it; two bad samples in a row turn a replica bad",
    "clusters.health.good_samples": "remove it; three good samples in a row turn a replica good",
    "clusters.health.min_free_disk_percent": "remove it; less than 5 % of free space is a fault",
    "clusters.health.watch_minutes": "rename it to check_minutes",
    "clusters.holds.trouble_metrics": "remove it; an alarm of yours writes the marker Deploy or Failover "
    "(docs/forecast-and-decision.md), or you pause the cluster meanwhile",
    "clusters.leading_metrics": "remove it; an event that you know beforehand goes into `calendar`",
    "clusters.limits.approval": "remove it; an automatic start above a limit is refused, and its page has the line "
    "with `above_limits` by which a person starts it",
    "clusters.limits.approval_minutes": "remove it; nobody is waited for",
    "clusters.observation": "write observation_days beside calendar; 0 where accepted was true",
    "clusters.prewarm.clone_mib_per_s": "remove it; a run that is in a hurry pays for initialization_rate_mib_per_s",
    "clusters.prewarm.direct_fill": "remove it; a run that is in a hurry pays for initialization_rate_mib_per_s",
    "clusters.prewarm.method": "remove it; hot blocks are read first, and all used ones where no page list is",
    "clusters.proposals": "remove it; `peaker backtest --cluster NAME` says which settings would have been cheapest, "
    "and takes --accept-short-minutes",
    "clusters.public_holidays": "remove it; a day that is busier than others goes into `calendar`",
    "clusters.ramp.attempts": "remove it; a replica that is worse than its peers twice is undone",
    "clusters.ramp.holds": "remove it; twelve windows may pass without an answer",
    "clusters.ramp.min_queries": "remove it; ten queries in three seconds are enough to compare, 20 at least",
    "clusters.repeating_events": "remove it; each coming day goes into `calendar`, with min_replicas, load or factor",
    "clusters.retirement.refill_expired": "remove it; a parked replica that has expired is retired, a new one is built",
    "clusters.retirement.observation_seconds": "rename it to idle_seconds",
    "clusters.snapshots": "write keep_snapshots beside limits: true or false",
}
