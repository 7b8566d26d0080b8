"""Calls whose answer was lost: the intent is in the ledger, the effect may be on its way."""

from __future__ import annotations

from datetime import datetime, timedelta

from peaker.domain.runs.ledger import ResourceRow, ResourceState

# Describe calls show what was made within seconds as a rule; only after this long is absence believed.
LOST_ANSWER_GRACE = timedelta(minutes=5)


def may_still_appear(row: ResourceRow, now: datetime) -> bool:
    """True while the effect of an intent without an id may yet show."""
    return row.state is ResourceState.INTENDED and now - row.intended_at < LOST_ANSWER_GRACE
