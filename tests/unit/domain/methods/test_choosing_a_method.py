"""Which method is taken, for which reason, and what is said of those that are not."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from peaker.domain.planning.lead_time import LeadTime, LeadTimeInputs, VolumeToHydrate, predict_lead_time
from peaker.domain.planning.methods.choice import by_settings, choose
from peaker.domain.planning.methods.rates import MARGIN, cheapest_rates
from peaker.domain.planning.methods.situation import (
    GIB,
    MIB,
    DataVolume,
    MethodName,
    ParkedReplica,
    ReadingRate,
    Situation,
)
from peaker.domain.planning.methods.timing import LeadTimeFrame, frame_of
from peaker.domain.reading import Known, Unknown

from peaker_contract.steps import Part
from tests.support.fakes import NOON

TIB = 1024 * GIB
# Ten minutes around the hydration, nothing to catch up: times can be checked by hand.
PLAIN = LeadTimeFrame(rest_seconds=600, spread_squared=0, snapshot_seconds=120)


def situation(**changes: object) -> Situation:
    """1 TiB on one volume of 500 MiB/s, at most 300 MiB/s paid; an instance and its volumes for a dollar an hour."""
    volume = DataVolume("data", 1024, TIB, TIB, 500)
    plain = Situation(PLAIN, (volume,), Known(1.0), now=NOON, rate_ceiling_mib_per_s=300)  # fmt: skip
    return replace(plain, **changes)  # type: ignore[arg-type]


def within(minutes: float, **changes: object) -> Situation:
    return situation(ready_by=NOON + timedelta(minutes=minutes), **changes)


def test_the_article_waits_more_than_an_hour_for_200_gb_at_50_mb_a_second() -> None:
    lead = predict_lead_time(LeadTimeInputs((VolumeToHydrate("data", 200e9, 50e6),)))
    assert lead.component(Part.HYDRATION).p50_seconds == 4000


def test_the_cheapest_that_is_in_time_is_taken() -> None:
    """The default takes 35 min and half as much again at worst: 62 min in all, and 69 with the margin."""
    choice = choose(within(70))
    assert (choice.chosen, choice.in_time) == (MethodName.USED_BLOCKS, True)
    assert choice.taken is not None
    assert choice.taken.p90_seconds == pytest.approx(600 + 1.5 * 1024 * 1024 / 500)
    assert "the cheapest of" in choice.reason


def test_a_parked_replica_that_is_back_in_time_and_costs_less_is_taken() -> None:
    back = ParkedReplica("i-parked", 900, 1200, Known(0.1))
    choice = choose(within(70, parked=(back,)))
    assert choice.taken is not None
    assert (choice.chosen, choice.taken.replica) == (MethodName.RETURN, "i-parked")


def test_a_rate_is_paid_where_the_default_is_too_uncertain() -> None:
    """A volume of 200 MiB/s: the default takes 87 min and 131 at worst, 200 MiB/s 87 and 93 at worst."""
    slow = (DataVolume("data", 1024, TIB, TIB, 200),)
    choice = choose(within(115, volumes=slow))
    assert choice.chosen is MethodName.PROVISIONED_RATE
    assert choice.taken is not None
    assert choice.taken.rates_mib_per_s == {"data": pytest.approx(198, abs=2)}


def test_no_rate_is_paid_that_the_volume_cannot_deliver() -> None:
    slow = (DataVolume("data", 1024, TIB, TIB, 125),)
    found = cheapest_rates(within(1, volumes=slow))
    assert found is not None
    assert found.rates == (125,)


def test_a_small_log_volume_is_left_to_the_default() -> None:
    two = (DataVolume("data", 1024, TIB, TIB, 250), DataVolume("log", 50, 5 * GIB, 5 * GIB, 125))
    choice = choose(within(100, volumes=two))
    assert choice.taken is not None
    assert choice.taken.rates_mib_per_s["log"] is None


def test_a_dearer_rate_is_the_cheaper_build_where_the_instance_costs_more() -> None:
    cheap, dear = (cheapest_rates(situation(hourly_usd=Known(price))) for price in (0.2, 5.0))
    assert cheap is not None
    assert dear is not None
    assert (cheap.rates, dear.rates) == ((100,), (300,))


def test_without_a_rate_in_the_settings_none_is_paid() -> None:
    choice = choose(within(45, rate_ceiling_mib_per_s=None))
    assert choice.chosen is MethodName.USED_BLOCKS
    assert "is not set" in str(choice.estimate(MethodName.PROVISIONED_RATE).why_not)


def test_where_nothing_is_in_time_the_quickest_is_taken_and_what_could_be_is_said() -> None:
    choice = choose(within(30))
    assert choice.in_time is False
    assert choice.chosen is not None
    assert "none is ready within 30 min" in choice.reason
    assert str(choice.by_then).startswith(f"{choice.chosen} is ready at 2026-11-21T1")


def test_the_hot_set_could_be_ready_where_the_settings_wait_for_all() -> None:
    hot = (DataVolume("data", 1024, TIB, TIB, 500, hot_bytes=50 * GIB),)
    choice = choose(within(20, volumes=hot))
    assert "hot_first would be in time: prewarm.serve_when is all" in str(choice.by_then)


@pytest.mark.parametrize(
    ("name", "changes", "why"),
    [
        (MethodName.PROVISIONED_RATE, {"rate_quota_mib_per_s": 99.0}, "99 MiB/s for each replica"),
        (MethodName.PROVISIONED_RATE, {"local_zones": True}, "local and Wavelength"),
        (MethodName.RETURN, {}, "no replica is parked"),
    ],
)  # fmt: skip
def test_what_is_not_possible_says_why(name: MethodName, changes: dict[str, object], why: str) -> None:
    found = choose(situation(**changes)).estimate(name)
    assert not found.possible
    assert why in str(found.why_not)


def test_reads_cannot_be_faster_than_the_instance() -> None:
    found = choose(situation(instance_mib_per_s=Known(75.0))).estimate(MethodName.USED_BLOCKS)
    assert found.warm_seconds == pytest.approx(TIB / MIB / 75)


def test_a_burst_of_the_instance_carries_half_an_hour_of_the_reading() -> None:
    """450,000 MiB at 250 MiB/s, 598,576 at 75; nobody promises the burst, so that the p90 is without it."""
    burst = situation(instance_mib_per_s=Known(75.0), instance_burst_mib_per_s=Known(250.0))
    found = choose(burst).estimate(MethodName.USED_BLOCKS)
    assert found.warm_seconds == pytest.approx(1800 + (TIB / MIB - 450_000) / 75)
    assert found.warm_p90_seconds == pytest.approx(TIB / MIB / 75)


def test_what_was_measured_through_the_instance_counts_and_not_what_ec2_says_of_it() -> None:
    measured = ReadingRate(2.0, 0.2, measured=True)
    found = choose(situation(instance_mib_per_s=Known(75.0), default_rate=measured))
    seen = found.estimate(MethodName.USED_BLOCKS)
    assert seen.warm_seconds == pytest.approx(2.0 * TIB / MIB / 500)
    assert seen.warm_p90_seconds == pytest.approx(2.4 * TIB / MIB / 500)
    rated = found.estimate(MethodName.PROVISIONED_RATE)
    assert rated.warm_seconds == pytest.approx(TIB / MIB / 75), "nobody has read at a paid rate yet"


def test_without_a_deadline_a_run_does_what_the_settings_say() -> None:
    found = by_settings(situation(), None)
    assert found.chosen is MethodName.PROVISIONED_RATE
    assert found.taken is not None
    assert found.taken.rates_mib_per_s == {"data": 300}
    assert by_settings(situation(rate_ceiling_mib_per_s=None), None).chosen is MethodName.USED_BLOCKS
    assert (
        by_settings(situation(serve_when="hot", rate_ceiling_mib_per_s=None), None).chosen
        is MethodName.HOT_FIRST
    )


def test_an_unknown_price_is_never_the_cheapest() -> None:
    back = ParkedReplica("i-parked", 3000, 3100, Unknown("nobody said"))
    choice = choose(within(200, parked=(back,)))
    assert choice.chosen is MethodName.USED_BLOCKS


def test_no_volumes_no_method() -> None:
    choice = choose(situation(volumes=()))
    assert (choice.chosen, choice.taken) == (None, None)


def test_the_frame_gives_the_figures_that_the_prediction_gives() -> None:
    lead = predict_lead_time(
        LeadTimeInputs((VolumeToHydrate("data", TIB, 250 * MIB),), snapshot_copied_bytes=TIB)
    )
    frame, part = frame_of(lead, 1 / 3), lead.component(Part.HYDRATION)
    assert frame.p50(part.p50_seconds) == pytest.approx(lead.p50_seconds)
    assert frame.p90(part.p50_seconds, part.p90_seconds) == pytest.approx(lead.p90_seconds)
    longer = predict_lead_time(
        LeadTimeInputs((VolumeToHydrate("data", 2 * TIB, 250 * MIB),), snapshot_copied_bytes=TIB)
    )
    assert frame.p50(2 * part.p50_seconds) == pytest.approx(longer.p50_seconds)


def test_the_frame_gives_the_prediction_s_figures_also_where_the_reading_goes_on_behind_the_database() -> (
    None
):
    def predicted(tib: float, hot_share: float) -> LeadTime:
        volumes = (VolumeToHydrate("data", tib * TIB, 250 * MIB),)
        return predict_lead_time(LeadTimeInputs(volumes, hot_share=hot_share, apply_speed=1.25))

    lead, longer, apart = predicted(1, 0.2), predicted(2, 0.2), predicted(1, 1.0)
    frame, part = frame_of(lead, 4.0), lead.component(Part.HYDRATION)
    assert frame.p50(part.p50_seconds) == pytest.approx(lead.p50_seconds)
    assert frame.p90(part.p50_seconds, part.p90_seconds) == pytest.approx(lead.p90_seconds)
    assert frame.p50(2 * part.p50_seconds) == pytest.approx(longer.p50_seconds)
    late = frame.before_database()
    assert late.p50(part.p50_seconds) == pytest.approx(apart.p50_seconds)
    assert late.p90(part.p50_seconds, part.p90_seconds) == pytest.approx(apart.p90_seconds)


def test_the_margin_counts() -> None:
    exact = choose(situation()).estimate(MethodName.USED_BLOCKS).p90_seconds
    assert exact is not None
    least = exact * (1 + MARGIN) / 60
    slow = {"rate_ceiling_mib_per_s": None}
    assert choose(within(least + 0.01, **slow)).in_time is True
    assert choose(within(least - 0.01, **slow)).in_time is False
