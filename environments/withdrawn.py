"""The settings that Peaker no longer has, by their path without list indexes, each with the remedy."""

from __future__ import annotations

WITHDRAWN = {
    "clusters.leading_metrics": "remove it; an event that you know beforehand goes into `calendar`",
    "clusters.proposals": "remove it; `peaker backtest --cluster NAME` says which settings would have been cheapest, "
    "and takes --accept-short-minutes",
}
