"""What past direct fills say of the next one."""

from __future__ import annotations

from datetime import timedelta

from peaker.domain.planning.learning.fills import TRIED_AGAIN_AFTER, FillFailed, PastFills
from peaker.domain.planning.learning.reading import PastReading

from tests.support.fakes import NOON

FAILED = FillFailed(NOON, "FillVolumes failed (PrewarmFailed): AccessDenied")


def test_one_that_failed_is_not_tried_again_for_a_day() -> None:
    past = PastFills().not_filled(FAILED)
    why = past.why_not_again(NOON + timedelta(hours=23))
    assert why is not None
    assert "2026-11-21 12:00" in why
    assert "AccessDenied" in why
    assert past.why_not_again(NOON + TRIED_AGAIN_AFTER) is None


def test_one_that_ended_since_lifts_that() -> None:
    past = PastFills().not_filled(FAILED).filled(PastReading(1e9, 60.0))
    assert past.why_not_again(NOON) is None
    assert past.readings == (PastReading(1e9, 60.0),)


def test_where_none_was_tried_one_may_be() -> None:
    assert PastFills().why_not_again(NOON) is None
