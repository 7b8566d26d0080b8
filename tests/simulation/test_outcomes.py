"""Plans against what comes of them: the simulated engine's arithmetic, what counts as an error, one cluster."""

from __future__ import annotations

import pytest
from peaker.domain.report.plan_outcome import PartOutcome, PlanOutcome

from bench.outcomes import oracle
from bench.outcomes.engine import Cold, read
from bench.outcomes.errors import Pair, compared, counts, of_parts, small
from bench.outcomes.figures import of_runs
from bench.outcomes.runs import Outcome, sequence
from bench.outcomes.truth import KINDS, MIB, TYPES

GIB = 1024 * MIB
# 77.5 MiB/s always, 1,192 for half an hour.
SMALL = "r6i.large"


def test_volumes_are_read_side_by_side_each_at_its_own_rate() -> None:
    found = read([Cold(GIB, 10 * GIB, 100), Cold(GIB, 4 * GIB, 50)], "r6i.8xlarge", 5.0, None)
    assert found.hot_seconds == pytest.approx(5 + 1024 / 50)
    assert found.used_seconds == pytest.approx(5 + 10_240 / 100)
    assert found.bytes_at(5 + 10.24) == pytest.approx(1536 * MIB)
    assert found.bytes_at(1e6) == found.total_bytes == 14 * GIB


def test_all_of_them_pass_through_the_instance_whose_burst_ends() -> None:
    baseline, amount = TYPES[SMALL].baseline_mib_per_s or 0.0, 500 * 1800 + 10_000
    found = read([Cold(0, amount * MIB, 500)], SMALL, 0.0, None)
    assert found.used_seconds == pytest.approx(1800 + 10_000 / baseline)


def test_where_the_hot_set_is_enough_the_rest_follows_slowly() -> None:
    found = read([Cold(10 * GIB, 20 * GIB, 100)], "r6i.8xlarge", 0.0, 32.0)
    assert found.hot_seconds == pytest.approx(102.4)
    assert found.used_seconds == pytest.approx(102.4 + 10_240 / 32)


def test_a_report_tells_what_is_warm_and_guesses_the_rest() -> None:
    reading = read([Cold(10 * GIB, 20 * GIB, 100)], "r6i.8xlarge", 0.0, None)
    early, late = reading.report(51.2), reading.report(300.0)
    assert (early["hot_warm_seconds"], early["used_warm_seconds"]) == (None, None)
    assert early["eta_seconds"] == pytest.approx(204.8 - 51.2, abs=0.1)
    assert (late["hot_warm_seconds"], late["used_warm_seconds"]) == (102.4, 204.8)


def outcome(took: float, *parts: tuple[str, float, float | None, float]) -> Outcome:
    found = tuple(
        PartOutcome(part=name, planned_seconds=planned, planned_p90_seconds=slow, took_seconds=truth)
        for name, planned, slow, truth in parts
    )
    whole = PlanOutcome(
        planned_seconds=took,
        planned_p90_seconds=took,
        took_seconds=took,
        between_steps_seconds=0.0,
        parts=found,
    )
    return Outcome("shop", 1, 1, "build", whole)


def test_an_error_is_a_share_of_the_truth() -> None:
    found = compared([Pair(50.0, 60.0, 100.0), Pair(150.0, None, 100.0), Pair(100.0, 99.0, 100.0)])
    assert (found.median, found.p90) == (0.5, 0.5)
    assert (found.covered, found.promised) == (0.0, 2), "without a p90 nothing was promised"


def test_a_part_that_is_small_in_plan_and_truth_is_counted_apart() -> None:
    """A hundredth of 2,000 s; a plan of a minute for what takes a second is no small error."""
    one = outcome(
        2000.0, ("donor", 1.0, 2.0, 19.0), ("storage", 60.0, 90.0, 1.0), ("ramp", 900.0, 950.0, 1000.0)
    )
    assert of_parts([one]).count == 2
    assert small([one]) == (1, 18.0)
    assert counts(one, Pair(60.0, None, 1.0))
    assert not counts(one, Pair(9.0, None, 9.5))


def test_a_cluster_serves_in_each_of_its_runs_and_its_plans_have_a_figure_for_each_step() -> None:
    """The smallest kind: five runs through the deployed workflows, seven replicas."""
    found = sequence(KINDS[0], 7)
    assert (found.runs, found.failed) == (5, [])
    assert [(one.turn, one.member) for one in found.outcomes] == [
        (1, 1), (2, 1), (3, 1), (3, 2), (4, 1), (5, 1), (5, 2),
    ]  # fmt: skip
    figures = of_runs([found])
    assert figures["steps without a prediction"]["value"] == 0
    first, later = (
        of_parts([one for one in found.outcomes if (one.turn == 1) is begins]) for begins in (True, False)
    )
    assert first.p90 > 0.5, "nobody told Peaker what the cluster is like"
    assert (later.median, later.p90) < (first.median, first.p90)
    assert later.p90 < first.p90
    assert found.told is not None
    assert not found.told.is_empty, "it tells the account's other clusters"


def test_who_knows_the_laws_is_off_by_what_other_worlds_took() -> None:
    here, *others = (outcome(2000.0, ("ramp", 900.0, 950.0, took)) for took in (1000.0, 700.0, 900.0, 950.0))
    found = oracle.of_parts([here], others)
    assert (found.count, found.median) == (1, pytest.approx(0.1))
    assert oracle.of_wholes([here], others).median == 0.0
