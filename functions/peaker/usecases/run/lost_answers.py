"""Calls whose answer was lost, and effects that lists do not show yet: absence is believed after a while only."""

from __future__ import annotations

from datetime import datetime, timedelta

from peaker.domain.runs.ledger import ResourceRow, ResourceState

# Describe calls show what was made within seconds as a rule; only after this long is absence believed.
LOST_ANSWER_GRACE = timedelta(minutes=5)
# Of what AWS has answered for, a list is believed sooner: DescribeInstances lags by 10 to 30 s.
SHOWN_WITHIN = timedelta(minutes=1)


def may_still_appear(row: ResourceRow, now: datetime) -> bool:
    """True while the effect of an intent without an id may yet show."""
    return row.state is ResourceState.INTENDED and now - row.intended_at < LOST_ANSWER_GRACE


def may_not_show_yet(row: ResourceRow, now: datetime) -> bool:
    """True while what was just made may be missing in a list although it is there."""
    return row.state is ResourceState.MADE and now - (row.made_at or row.intended_at) < SHOWN_WITHIN


def why_unseen(row: ResourceRow, now: datetime) -> str | None:
    """Returns the reason why a row's resource may exist although no list shows it; None where absence is believed."""
    if may_still_appear(row, now):
        return "its answer was lost"
    return "it does not show yet" if may_not_show_yet(row, now) else None
