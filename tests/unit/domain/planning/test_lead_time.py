"""The lead time: the published arithmetic, the parts, and what past runs teach."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from peaker.domain.planning.lead_time import (
    MIB,
    Component,
    LeadTimeInputs,
    VolumeToHydrate,
    predict_lead_time,
    predict_return,
)
from peaker.domain.runs.past_runs import PastSteps, rate_of_all, replay_seconds

GIB = 1024 * MIB


def inputs(data_gib: float = 100.0, paid_mib_per_s: float = 300.0, **other: object) -> LeadTimeInputs:
    volumes = (VolumeToHydrate("data", data_gib * GIB, 1000 * MIB),)
    return LeadTimeInputs(volumes=volumes, paid_mib_per_s=paid_mib_per_s, **other)  # type: ignore[arg-type]


def hydration_of(volume: VolumeToHydrate, **other: object) -> Component:
    return predict_lead_time(LeadTimeInputs((volume,), **other)).component("hydration")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("gib", "rate", "minutes"),
    [(100, 100, 17), (100, 300, 5.7), (500, 100, 85), (500, 300, 28), (1024, 100, 175), (1024, 300, 58)],
)
def test_aws_arithmetic_data_over_rate(gib: float, rate: float, minutes: float) -> None:
    part = predict_lead_time(inputs(gib, rate)).component("hydration")
    assert part.p50_seconds / 60 == pytest.approx(minutes, abs=0.6)


def test_reads_cannot_be_faster_than_the_instance() -> None:
    volume = VolumeToHydrate("data", 1024 * GIB, 500 * MIB)
    assert hydration_of(volume, instance_mib_per_s=75.0).p50_seconds == pytest.approx(1024 * 1024 / 75)


def test_a_burst_of_the_instance_carries_half_an_hour_of_the_reading() -> None:
    """450,000 MiB at 250 MiB/s, 598,576 at 75; nobody promises the burst, so that the p90 is without it."""
    volume = VolumeToHydrate("data", 1024 * GIB, 500 * MIB)
    found = hydration_of(
        volume, paid_mib_per_s=300.0, instance_mib_per_s=75.0, instance_burst_mib_per_s=250.0
    )
    assert found.p50_seconds == pytest.approx(1800 + (1024 * 1024 - 450_000) / 75)
    assert found.p90_seconds == pytest.approx(1024 * 1024 / 75)


def test_catching_up_an_hour_at_four_times_the_write_rate_takes_twenty_minutes() -> None:
    assert replay_seconds(3600, 4.0) == 1200.0


def test_a_replica_that_replays_no_faster_than_the_source_writes_never_catches_up() -> None:
    with pytest.raises(ValueError, match="never catches up"):
        replay_seconds(3600, 1.0)


def test_the_slowest_volume_decides_the_hydration() -> None:
    volumes = (
        VolumeToHydrate("data", 100 * GIB, 100 * MIB),
        VolumeToHydrate("log", 300 * GIB, 100 * MIB),
    )
    lead = predict_lead_time(LeadTimeInputs(volumes=volumes))
    assert lead.component("hydration").p50_seconds == 3072.0


def test_p90_is_above_the_median_and_the_reason_names_the_longest_part() -> None:
    lead = predict_lead_time(inputs(1024))
    assert lead.p90_seconds > lead.p50_seconds
    assert "longest part is hydration" in lead.reason


def test_a_default_hydration_counts_as_the_least_paid_rate_and_is_less_certain() -> None:
    """Nobody would pay for 100 MiB/s if the default rate brought more."""
    volume = VolumeToHydrate("data", 500 * GIB, 200 * MIB)
    default, provisioned = hydration_of(volume), hydration_of(volume, paid_mib_per_s=100.0)
    assert default.p50_seconds == provisioned.p50_seconds
    assert default.p90_seconds > provisioned.p90_seconds


# --- side by side --------------------------------------------------------------------------------------------


def overlapping(hot_share: float, **other: object) -> LeadTimeInputs:
    """An hour of reading and half an hour from the snapshot to it; replayed at three times the source's speed."""
    rest = {"snapshot_overhead_seconds": 1755.0, "attach_seconds": 45.0, "apply_speed": 3.0}
    return inputs(3600 * 300 / 1024, hot_share=hot_share, **{**rest, **other})


def test_a_catch_up_beside_the_reading_costs_no_time() -> None:
    """6 min until the database, 30 s for its start, 53.5 min of reading besides: the backlog takes 18 of them."""
    lead = predict_lead_time(overlapping(0.1))
    assert lead.component("catch_up").p50_seconds == 0.0
    apart = sum(part.p50_seconds for part in lead.components if part.name != "instance")
    assert lead.p50_seconds == pytest.approx(apart - 30.0), (
        "the start of the database passes beside the reading"
    )


def test_a_catch_up_that_may_take_twice_as_long_shows_in_the_p90_though_not_in_the_median() -> None:
    part = predict_lead_time(overlapping(0.4, apply_speed=2.0)).component("catch_up")
    whole = (1755 + 45 + 1440 + 30) / 1.0
    rest = 2160 - 30 + 120
    assert part.p50_seconds == pytest.approx(whole - rest)
    assert part.p90_seconds == pytest.approx(2 * whole - rest)


# --- learning ----------------------------------------------------------------------------------------------


def test_a_part_is_the_median_of_the_last_ten_runs_and_the_slowest_but_one_of_them() -> None:
    past = PastSteps({"VerifyStorage": [9000.0] * 5 + [300.0] * 7 + [310.0, 400.0, 700.0]})
    part = predict_lead_time(inputs(), past).component("benchmark")
    assert (part.p50_seconds, part.p90_seconds, part.runs) == (300.0, 400.0, 10)


def test_one_slow_run_is_enough_to_trigger_as_early_as_that() -> None:
    past = PastSteps({"ReportPrewarm": [3600.0, 3600.0, 7200.0]}, [100 * GIB] * 3)
    part = predict_lead_time(inputs(100), past).component("hydration")
    assert (part.p50_seconds, part.p90_seconds) == (3600.0, 7200.0)


def test_few_runs_do_not_make_a_time_certain() -> None:
    """One run that took four minutes does not say that the next one will."""
    once = predict_lead_time(inputs(), PastSteps({"StartDatabase": [240.0]})).component("recovery")
    assert (once.p50_seconds, once.p90_seconds) == (240.0, 312.0)
    often = predict_lead_time(inputs(), PastSteps({"StartDatabase": [240.0] * 10})).component("recovery")
    assert often.p90_seconds == 240.0


def test_parts_are_slow_independently_of_each_other() -> None:
    """The sum of all p90s would be passed far less often than once in ten runs."""
    lead = predict_lead_time(inputs())
    spreads = [one.p90_seconds - one.p50_seconds for one in lead.components]
    assert lead.p90_seconds - lead.p50_seconds < 0.7 * sum(spreads)


def at_rate(paid: float) -> LeadTimeInputs:
    return inputs(100, paid_mib_per_s=paid)


def test_a_prewarm_teaches_its_own_initialization_rate_alone() -> None:
    """A run with a deadline may take the default rate where the settings name one."""
    past = PastSteps({"ReportPrewarm": [9000.0, 1000.0]}, [100 * GIB, 100 * GIB], hydrated_rates=[0.0, 200.0])
    paid, free = (predict_lead_time(at_rate(rate), past).component("hydration") for rate in (200.0, 0.0))
    assert paid.runs == free.runs == 1
    assert (paid.p50_seconds, free.p50_seconds) == (1000.0, 9000.0)
    assert predict_lead_time(at_rate(100.0), past).component("hydration").runs == 0


def test_a_full_copy_takes_its_bytes_over_the_rate_and_changes_take_theirs() -> None:
    full = predict_lead_time(inputs(snapshot_copied_bytes=100.0 * GIB)).component("snapshot")
    changes = predict_lead_time(inputs(snapshot_copied_bytes=1.0 * GIB)).component("snapshot")
    assert full.p50_seconds == pytest.approx(60 + 1024)
    assert changes.p50_seconds == pytest.approx(60 + 10.24)


def test_the_volumes_of_a_set_are_copied_side_by_side() -> None:
    even = inputs(snapshot_copied_bytes=400.0 * GIB, snapshot_widest_share=0.25)
    assert predict_lead_time(even).component("snapshot").p50_seconds == pytest.approx(60 + 1024)


def test_an_increment_that_nobody_has_measured_may_copy_everything() -> None:
    past = PastSteps(full_copies=[1200.0] * 20)
    part = predict_lead_time(
        inputs(snapshot_copied_bytes=1.0 * GIB, snapshot_most_bytes=100.0 * GIB), past
    ).component("snapshot")
    assert part.p50_seconds == pytest.approx(60 + 10.24)
    assert part.p90_seconds == pytest.approx(60 + 1024)


def test_the_catch_up_is_learned_as_a_speed_so_a_smaller_backlog_takes_less() -> None:
    """An hour of catching up from three hours behind; now it is an hour and a half behind."""
    past = PastSteps({"WaitForCatchUp": [3600.0] * 20}, apply_speeds=[4.0] * 20)
    part = predict_lead_time(overlapping(1.0), past).component("catch_up")
    assert part.p50_seconds == pytest.approx((1755 + 45 + 3600 + 30) / 3 - 120, rel=0.1)


def test_of_volumes_whose_rates_differ_nobody_says_one_rate() -> None:
    assert rate_of_all([200, 200]) == 200
    assert rate_of_all([None, None]) == 0
    assert rate_of_all([200, None]) is None


# --- returns -------------------------------------------------------------------------------------------------


def test_returns_are_learned_from_returns() -> None:
    """The copy of a build recovers for minutes; a database that was shut down starts in seconds."""
    past = PastSteps(
        {"StartDatabase": [200.0] * 20, "StartReplication": [4.0] * 20},
        returned={"StartDatabase": [6.0] * 20, "StartReplication": [4.0] * 20},
    )
    assert predict_return(inputs(), 3600.0, past).component("recovery").p50_seconds == pytest.approx(
        10, abs=2
    )
    assert predict_lead_time(inputs(), past).component("recovery").p50_seconds == pytest.approx(204, rel=0.05)


def test_before_the_first_return_builds_teach_what_a_return_does_like_them() -> None:
    """Its database was shut down, so there is nothing to recover."""
    past = PastSteps({"StartDatabase": [200.0] * 20, "LoadBufferPool": [90.0] * 20})
    lead = predict_return(inputs(), 0.0, past)
    assert lead.component("buffer_pool").p50_seconds == pytest.approx(90, rel=0.05)
    assert lead.component("recovery").p50_seconds == 30.0


# --- parts ---------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(0.0, 1e5), max_size=30), st.floats(0.1, 5000.0))
def test_whatever_the_past_the_lead_time_is_finite_and_ordered(durations: list[float], gib: float) -> None:
    past = PastSteps({"ReportPrewarm": durations, "VerifyStorage": durations, "AwaitSnapshots": durations})
    lead = predict_lead_time(inputs(gib), past)
    assert 0 < lead.p50_seconds <= lead.p90_seconds < 1e9
