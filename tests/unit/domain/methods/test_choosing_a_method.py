"""Which method is taken, for which reason, and what is said of those that are not."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from peaker.domain.planning.lead_time import LeadTime, LeadTimeInputs, VolumeToHydrate, predict_lead_time
from peaker.domain.planning.learning.reading import PastReading
from peaker.domain.planning.methods.choice import by_settings, choose
from peaker.domain.planning.methods.rates import MARGIN, cheapest_rates
from peaker.domain.planning.methods.situation import (
    CARRIED_OUT,
    GIB,
    MIB,
    DataVolume,
    ExpiredReplica,
    MethodName,
    ParkedReplica,
    ReadingRate,
    Situation,
)
from peaker.domain.planning.methods.timing import LeadTimeFrame, frame_of
from peaker.domain.reading import Known, Unknown

from bench.plan_search import compared
from peaker_contract.steps import Part
from tests.support.fakes import NOON

TIB = 1024 * GIB
# Ten minutes around the hydration, nothing to catch up: times can be checked by hand.
PLAIN = LeadTimeFrame(rest_seconds=600, spread_squared=0, snapshot_seconds=120)


def situation(**changes: object) -> Situation:
    """1 TiB on one volume of 500 MiB/s, at most 300 MiB/s paid; an instance and its volumes for a dollar an hour."""
    volume = DataVolume("data", 1024, TIB, TIB, 500)
    plain = Situation(PLAIN, (volume,), Known(1.0), now=NOON, rate_ceiling_mib_per_s=300, zone="us-east-1a",
                      donor_zone="us-east-1a")  # fmt: skip
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


def test_what_no_run_carries_out_is_never_taken_however_good_it_looks() -> None:
    """A snapshot of 100 GiB is fast after twelve minutes; at 10 MiB/s its volume is read for three hours."""
    slow = (DataVolume("data", 100, 100 * GIB, 100 * GIB, 10),)
    choice = choose(within(35, volumes=slow, rate_ceiling_mib_per_s=None))
    assert choice.estimate(MethodName.FAST_RESTORE).possible
    assert "fast_snapshot_restore would be in time; no run carries it out" in str(choice.by_then)
    assert choice.in_time is False
    assert choice.chosen in CARRIED_OUT
    assert {one.name for one in choice.methods if one.carried_out} == CARRIED_OUT


@pytest.mark.parametrize(
    ("name", "changes", "why"),
    [
        (MethodName.FAST_RESTORE, {"fast_restores_free": 0.0}, "quota has 0 left"),
        (MethodName.FAST_RESTORE, {"volumes": (DataVolume("data", 20_000, TIB, TIB, 500),)}, "16384 GiB are the most"),
        (MethodName.COPY_VOLUMES, {"donor_zone": "us-east-1b"}, "the donor is in us-east-1b"),
        (MethodName.COPY_VOLUMES, {"copies_free": 0.0}, "quota of copies"),
        (MethodName.CLONE, {"engine": "mariadb"}, "mariadb has no clone plugin"),
        (MethodName.CLONE, {}, "prewarm.clone_mib_per_s is not set"),
        (MethodName.CLONE, {"fills_at_once": 2, "why_no_clone": None}, "one clone at a time"),
        (MethodName.PROVISIONED_RATE, {"rate_free_mib_per_s": 99.0}, "99 MiB/s left"),
        (MethodName.PROVISIONED_RATE, {"local_zones": True}, "local and Wavelength"),
        (MethodName.RETURN, {}, "no replica is parked"),
        (MethodName.RETURN_EXPIRED, {"expired": (ExpiredReplica("i-1", Unknown("no lineage")),)}, "no lineage"),
    ],
)  # fmt: skip
def test_what_is_not_possible_says_why(name: MethodName, changes: dict[str, object], why: str) -> None:
    found = choose(situation(**changes)).estimate(name)
    assert not found.possible
    assert why in str(found.why_not)


def test_copies_of_several_volumes_have_no_common_instant() -> None:
    two = (DataVolume("data", 100, GIB, GIB, 125), DataVolume("log", 10, GIB, GIB, 125))
    assert "torn" in str(choose(situation(volumes=two)).estimate(MethodName.COPY_VOLUMES).why_not)


def test_figures_of_the_documentation() -> None:
    """1 TiB: FSR an hour and the first credit an hour; a full direct read 6.29 USD; a clone within 6 h, 0.82 USD."""
    methods = choose(situation(hourly_usd=Known(0.0)))
    fast = methods.estimate(MethodName.FAST_RESTORE)
    assert (fast.warm_seconds, fast.usd) == (7200, 1.5)
    assert methods.estimate(MethodName.DIRECT_FILL).usd == pytest.approx(6.29, abs=0.01)
    copied = methods.estimate(MethodName.COPY_VOLUMES)
    assert copied.usd == pytest.approx(0.82, abs=0.01)
    assert copied.p90_seconds == pytest.approx(600 - 120 + 6 * 3600)
    assert methods.estimate(MethodName.PROVISIONED_RATE).usd == pytest.approx(1024 * 0.0012, abs=0.01)


def test_a_direct_fill_waits_for_all_that_the_snapshot_holds() -> None:
    """Where a lazy volume could serve on its hot set: what is not on an empty volume yet reads as zeros."""
    volume = DataVolume("data", 1024, TIB, 0.5 * TIB, 500, hot_bytes=0.1 * TIB)
    found = choose(situation(volumes=(volume,), serve_when="hot")).estimate(MethodName.DIRECT_FILL)
    assert found.warm_seconds == pytest.approx(TIB / MIB / 450), "a tenth of the requests is left to others"


SOON = NOON + timedelta(minutes=1)


def test_a_direct_fill_is_not_taken_where_the_settings_do_not_allow_it() -> None:
    found = choose(situation(ready_by=SOON, rate_ceiling_mib_per_s=None))
    shown = found.estimate(MethodName.DIRECT_FILL)
    assert found.chosen is not MethodName.DIRECT_FILL
    assert shown.why_not == "prewarm.direct_fill is false"
    assert shown.p90_seconds is not None, "it stays in the table, for comparison"


def test_a_direct_fill_is_taken_where_it_alone_is_in_time_and_says_what_follows_its_refusal() -> None:
    lazy = choose(situation(rate_ceiling_mib_per_s=None)).estimate(MethodName.USED_BLOCKS)
    fill = choose(situation()).estimate(MethodName.DIRECT_FILL)
    assert lazy.p90_seconds is not None
    assert fill.p90_seconds is not None
    assert fill.p90_seconds < lazy.p90_seconds
    # Between what the two need.
    by = NOON + timedelta(seconds=(1 + MARGIN) * (fill.p90_seconds + lazy.p90_seconds) / 2)
    found = choose(situation(ready_by=by, rate_ceiling_mib_per_s=None, why_no_fill=None))
    assert (found.chosen, found.in_time) == (MethodName.DIRECT_FILL, True)
    assert found.falls_back_to is MethodName.USED_BLOCKS
    assert found.taken is not None
    assert found.taken.rates_mib_per_s == {"data": None}, "an empty volume has nothing to initialize"


def test_a_clone_takes_no_more_of_its_donor_than_is_allowed_and_waits_for_no_snapshot() -> None:
    shown = choose(situation(why_no_clone=None, clone_mib_per_s=50.0)).estimate(MethodName.CLONE)
    half = choose(situation(why_no_clone=None, clone_mib_per_s=25.0)).estimate(MethodName.CLONE)
    assert shown.possible
    assert shown.warm_seconds is not None
    assert half.warm_seconds == pytest.approx(2 * shown.warm_seconds)
    assert "reads all its data at 50 MiB/s" in shown.on_donor


def test_a_clone_between_zones_costs_what_is_sent_in_both_directions() -> None:
    within_zone, across = (
        choose(situation(why_no_clone=None, donor_zone=zone)).estimate(MethodName.CLONE)
        for zone in ("us-east-1a", "us-east-1b")
    )
    assert (within_zone.once_usd, across.once_usd) == (0.0, pytest.approx(1024 * 0.02))
    assert across.usd is not None
    assert within_zone.usd is not None
    assert across.usd - within_zone.usd == pytest.approx(1024 * 0.02)


def test_a_clone_that_is_refused_is_followed_by_what_reads_snapshots() -> None:
    clone = choose(situation(why_no_clone=None)).estimate(MethodName.CLONE)
    assert clone.p90_seconds is not None
    by = NOON + timedelta(seconds=(1 + MARGIN) * clone.p90_seconds + 1)
    found = choose(situation(ready_by=by, rate_ceiling_mib_per_s=None, why_no_clone=None, why_no_fill=None))
    assert (found.chosen, found.in_time) == (MethodName.CLONE, True)
    assert found.falls_back_to not in (MethodName.DIRECT_FILL, None)
    assert found.taken is not None
    assert found.taken.rates_mib_per_s == {"data": None}, "an empty volume has nothing to initialize"


def test_past_clones_teach_the_next_one_and_no_fill() -> None:
    slow = (PastReading(float(TIB), 50_000.0),) * 3
    taught = choose(situation(why_no_clone=None, past_clones=slow))
    first = choose(situation(why_no_clone=None))
    assert (taught.estimate(MethodName.CLONE).warm_seconds or 0) > (
        first.estimate(MethodName.CLONE).warm_seconds or 0
    )
    assert taught.estimate(MethodName.DIRECT_FILL) == first.estimate(MethodName.DIRECT_FILL)


def test_a_direct_fill_that_costs_more_is_left_where_another_is_in_time() -> None:
    found = choose(
        situation(ready_by=NOON + timedelta(days=1), rate_ceiling_mib_per_s=None, why_no_fill=None)
    )
    assert (found.chosen, found.falls_back_to) == (MethodName.USED_BLOCKS, None)


def test_members_of_a_batch_share_the_rate_of_their_snapshot() -> None:
    one, three = (
        choose(situation(fills_at_once=members)).estimate(MethodName.DIRECT_FILL).warm_seconds
        for members in (1, 3)
    )
    assert one is not None
    assert three == pytest.approx(3 * one)


def test_past_fills_teach_the_next_one() -> None:
    """Ten fills of half the bytes in 6,000 s each: twice that for all of them, where 2,330 s were predicted."""
    past = (PastReading(TIB / 2, 6000.0),) * 10
    found = choose(situation(past_fills=past)).estimate(MethodName.DIRECT_FILL)
    assert found.warm_seconds is not None
    assert 10_000 < found.warm_seconds <= 12_000
    assert "by 10 past fills" in found.basis


def test_changed_blocks_are_filled_and_no_others() -> None:
    expired = ExpiredReplica("i-1", Known(0.05 * TIB))
    found = choose(situation(expired=(expired,)))
    whole, part = (found.estimate(name) for name in (MethodName.DIRECT_FILL, MethodName.RETURN_EXPIRED))
    assert whole.warm_seconds is not None
    assert part.warm_seconds == pytest.approx(0.05 * whole.warm_seconds)


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


def test_no_choice_is_dearer_or_later_than_the_best_of_everything() -> None:
    """A sample; `make bench-plan` compares 10,000."""
    assert compared(60) == []


def test_the_margin_counts() -> None:
    exact = choose(situation()).estimate(MethodName.USED_BLOCKS).p90_seconds
    assert exact is not None
    least = exact * (1 + MARGIN) / 60
    slow = {"rate_ceiling_mib_per_s": None}
    assert choose(within(least + 0.01, **slow)).in_time is True
    assert choose(within(least - 0.01, **slow)).in_time is False
