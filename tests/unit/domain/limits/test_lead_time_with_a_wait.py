"""What a plan's lead time becomes when its run has to wait for a limit that all runs share."""

from __future__ import annotations

from datetime import timedelta

from peaker.domain.limits.admission import Admission
from peaker.domain.planning.methods.rate_reservation import delayed
from peaker.domain.planning.plan import LeadTimeEstimate, Way

from tests.support.fakes import NOON

LEAD = LeadTimeEstimate(
    seconds=600.0,
    parts={"reservation": 20.0, "hydration": 300.0},
    p90_seconds=800.0,
    p90_parts={"reservation": 50.0, "hydration": 400.0},
)


def waiting(seconds: float) -> Admission:
    return Admission(asked_at=NOON, begins_at=NOON + timedelta(seconds=seconds))


def test_the_wait_takes_the_place_of_what_past_runs_waited_in_the_median_and_in_the_p90() -> None:
    found = delayed(Way(lead_time=LEAD), waiting(80.0)).lead_time
    assert found == LeadTimeEstimate(
        seconds=660.0,
        parts={"reservation": 80.0, "hydration": 300.0},
        p90_seconds=860.0,
        p90_parts={"reservation": 80.0, "hydration": 400.0},
    )


def test_a_step_that_has_nothing_to_wait_for_takes_its_own_time() -> None:
    """The function starts, asks and writes: no past run was quicker than that."""
    found = delayed(Way(lead_time=LEAD), waiting(0.0), step_seconds=9.6).lead_time
    assert found is not None
    assert found.parts["reservation"] == found.p90_parts["reservation"] == 9.6
    assert found.seconds == 600.0 - 20.0 + 9.6


def test_what_is_not_known_stays_unknown() -> None:
    without = LEAD.model_copy(update={"p90_seconds": None, "p90_parts": {}})
    found = delayed(Way(lead_time=without), waiting(0.0)).lead_time
    assert found is not None
    assert (found.seconds, found.p90_seconds) == (580.0, None)
    assert delayed(Way(), waiting(80.0)).lead_time is None
