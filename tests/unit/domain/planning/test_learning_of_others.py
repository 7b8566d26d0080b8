"""What a lead time learns from other clusters, and from the size of a batch."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest
from peaker.domain.planning.lead_time import (
    LeadTimeInputs,
    VolumeToHydrate,
    predict_lead_time,
    predict_return,
)
from peaker.domain.planning.learning.batch_size import for_batch
from peaker.domain.planning.learning.elsewhere import ClusterFigures, Elsewhere, usual
from peaker.domain.planning.learning.past_steps import PastSteps

MIB, GIB = 1024.0**2, 1024.0**3
INPUTS = LeadTimeInputs((VolumeToHydrate("data", 100 * GIB, 500 * MIB),), endpoint="nlb")


def told(**figures: object) -> ClusterFigures:
    return ClusterFigures.model_validate({"as_of": date(2026, 11, 21), "endpoint": "nlb", **figures})


def seconds_of(part: str, *clusters: ClusterFigures, past: PastSteps | None = None) -> float:
    history = replace(past or PastSteps(), elsewhere=Elsewhere(clusters))
    return predict_lead_time(INPUTS, history).component(part).p50_seconds


def test_a_first_run_takes_as_long_as_in_other_clusters() -> None:
    clusters = [told(seconds={"recovery": one}) for one in (100.0, 150.0, 900.0)]
    assert seconds_of("recovery", *clusters) == 150.0


def test_a_registration_is_that_of_endpoints_of_the_same_kind() -> None:
    by_name = told(endpoint="route53", seconds={"registration": 90.0})
    balanced = told(seconds={"registration": 220.0})
    assert seconds_of("registration", by_name, balanced) == 220.0
    assert seconds_of("registration", by_name) == INPUTS.register_seconds


def test_the_default_rate_of_other_clusters_is_no_more_than_the_volume_gives() -> None:
    assert seconds_of("hydration", told(default_mib_per_s=80.0)) == pytest.approx(100 * 1024 / 80)
    assert seconds_of("hydration", told(default_mib_per_s=900.0)) == pytest.approx(100 * 1024 / 500)


def test_own_runs_outweigh_other_clusters_that_lie_far_apart() -> None:
    clusters = [told(seconds={"recovery": one}) for one in (20.0, 200.0)]
    own = PastSteps({"StartDatabase": [60.0], "StartReplication": [4.0]})
    assert seconds_of("recovery", *clusters, past=own) == pytest.approx(64.0, rel=0.15)


def test_a_return_replays_no_log_whatever_copies_replay_elsewhere() -> None:
    history = PastSteps(elsewhere=Elsewhere([told(seconds={"recovery": 200.0})]))
    assert predict_return(INPUTS, 0.0, history).component("recovery").p50_seconds == 30.0


def test_one_cluster_says_little_of_how_far_clusters_lie_apart() -> None:
    one, alike = usual([100.0]), usual([100.0] * 8)
    assert one is not None
    assert alike is not None
    assert one.spread > alike.spread > 0
    assert usual([]) is None


def test_a_registration_of_a_return_teaches_builds_too() -> None:
    past = PastSteps(returned={"RegisterReplica": [200.0] * 6})
    assert seconds_of("registration", past=past) == pytest.approx(200.0, rel=0.15)


def test_a_batch_of_two_takes_as_long_as_batches_of_two_did_and_one_as_long_as_one() -> None:
    past, sizes = [57.0, 129.0, 129.0], [1, 2, 2]
    assert sorted(for_batch(past, sizes, 2))[1] == 129.0
    assert sorted(for_batch(past, sizes, 1))[1] < 90.0


def test_more_members_than_were_measured_take_turns_at_most() -> None:
    past, sizes = [60.0] * 9 + [300.0] * 9, [1] * 9 + [2] * 9
    assert max(for_batch(past[:9], sizes[:9], 4)) == 60.0
    assert max(for_batch(past, sizes, 1)[:9]) == 60.0
    assert for_batch(past, sizes, 4)[0] <= 4 * 60.0


def test_members_that_took_no_longer_than_runs_vary_by_cost_each_other_nothing() -> None:
    past = [100.0, 120.0, 118.0]
    assert for_batch(past, [1, 2, 2], 3) == past


def test_durations_of_before_sizes_were_known_count_as_they_were() -> None:
    assert for_batch([100.0, 50.0, 100.0], [1, 2], 2)[0] == 100.0
    assert for_batch([100.0], [], 2) == [100.0]


def test_the_lead_time_of_a_batch_is_longer_where_hosts_share_what_they_run_on() -> None:
    past = PastSteps({"VerifyStorage": [60.0, 60.0, 120.0, 120.0]}, sizes={"VerifyStorage": [1, 1, 2, 2]})
    one, two = (predict_lead_time(replace(INPUTS, members=members), past) for members in (1, 2))
    assert two.component("benchmark").p50_seconds > 1.3 * one.component("benchmark").p50_seconds
    assert two.p50_seconds > one.p50_seconds
    assert predict_lead_time(replace(INPUTS, members=2)) == predict_lead_time(INPUTS)
