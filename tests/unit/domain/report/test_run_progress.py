"""What a run is doing, told from its steps."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from peaker.domain.reading import Known, Unknown
from peaker.domain.report.run_progress import PrewarmState, RunProgress, run_progress
from peaker.domain.runs.ledger import StepRow
from peaker.domain.storage.prewarm_progress import noticed_after_seconds, pause_seconds

from sim.workflows.virtual_time import START as NOON
from tests.support.builders import orders

READING = {
    "state": "running",
    "blocks_done": 1000,
    "blocks_total": 4000,
    "rate_mib_per_s": 2.5,
    "eta_seconds": 600.0,
    "elapsed_seconds": 200.0,
}


def step(name: str, began: float, ended: float | None = None, **numbers: Any) -> StepRow:
    """Minutes after noon."""
    end = None if ended is None else NOON + timedelta(minutes=ended)
    return StepRow(name, NOON + timedelta(minutes=began), end, numbers)


def doing(*steps: StepRow, minutes: float = 10.0, **settings: Any) -> RunProgress:
    found = run_progress(steps, orders(**settings), NOON + timedelta(minutes=minutes))
    assert isinstance(found, RunProgress)
    return found


def prewarming(*, minutes: float = 10.0, **report: Any) -> RunProgress:
    return doing(
        step("StartPrewarm", 1, 2), step("ReportPrewarm", 2, 9, **{**READING, **report}), minutes=minutes
    )


def of(progress: RunProgress) -> PrewarmState:
    assert progress.prewarm is not None
    return progress.prewarm


def test_before_its_first_step_nothing_is_known() -> None:
    assert isinstance(run_progress((), orders(), NOON), Unknown)


def test_between_two_steps_the_last_one_is_named_as_over() -> None:
    progress = doing(step("PrepareDonor", 0, 1), step("CreateVolumes", 1, 2))
    assert (progress.step, progress.between) == ("CreateVolumes", True)


def test_branches_side_by_side_are_all_named() -> None:
    progress = doing(
        step("LaunchReplica", 0, 1), step("AwaitSnapshots", 1), step("AwaitInstanceOnline", 1.5, 2)
    )
    assert progress.step == "AwaitSnapshots"
    both = doing(step("AwaitSnapshots", 1), step("InstallOnReplica", 2))
    assert (both.step, both.concurrent) == ("InstallOnReplica", ("AwaitSnapshots",))


def test_a_prewarm_between_two_polls_is_still_at_work() -> None:
    progress = prewarming()
    assert (progress.step, progress.between) == ("ReportPrewarm", False)
    assert progress.since == NOON + timedelta(minutes=1)
    assert of(progress).share == Known(0.25, NOON + timedelta(minutes=9))
    assert of(progress).deadline == NOON + timedelta(minutes=1 + 2880)


def test_the_remaining_time_is_counted_from_the_report_and_to_the_poll_that_finds_the_end() -> None:
    early, later = prewarming(minutes=9), prewarming(minutes=14)
    waited = noticed_after_seconds(600.0)
    assert 600 <= waited <= 660
    assert of(early).goes_on_at == of(later).goes_on_at == NOON + timedelta(seconds=540 + waited)
    assert isinstance(of(early).eta_seconds, Known)
    assert isinstance(of(later).eta_seconds, Known)
    assert of(early).eta_seconds.value - of(later).eta_seconds.value == 300


def test_figures_that_the_host_did_not_report_are_unknown_and_not_zero() -> None:
    progress = prewarming(blocks_done=None, blocks_total=None, rate_mib_per_s=None)
    for reading in (of(progress).share, of(progress).blocks_done, of(progress).rate_mib_per_s):
        assert isinstance(reading, Unknown)


def test_until_the_database_may_start_people_are_told_when_the_replica_may_serve() -> None:
    progress = prewarming(eta_seconds=6000.0, hot_eta_seconds=120.0, minutes=9)
    assert of(progress).waits_for == "all that is used"
    assert of(progress).eta_seconds == Known(
        noticed_after_seconds(6000.0, 200.0), NOON + timedelta(minutes=9)
    )
    assert prewarming(hot_warm_seconds=100.0).between, "the database is started next"


def behind_database(*later: StepRow, **report: Any) -> RunProgress:
    rows = (
        step("StartPrewarm", 1, 2),
        step("ReportPrewarm", 2, 9, **{**READING, "hot_warm_seconds": 100.0, **report}),
        step("StartDatabase", 3, 4),
        step("StartReplication", 4, 5),
    )
    return doing(*rows, *later)


def test_behind_the_database_the_rest_of_the_reading_is_at_work() -> None:
    progress = behind_database()
    assert (progress.step, progress.since) == ("ReportPrewarm", NOON + timedelta(minutes=1))
    assert of(progress).waits_for == "all that is used"
    assert behind_database(state="done").step == "StartReplication"
    assert behind_database(step("VerifyStorage", 9)).step == "VerifyStorage"


def test_the_end_is_found_by_the_poll_after_it() -> None:
    assert noticed_after_seconds(0) == 0
    assert noticed_after_seconds(1) == pause_seconds(1)
    for eta in (59.0, 60.0, 61.0, 700.0, 7_200.0, 86_400.0):
        waited = noticed_after_seconds(eta)
        assert eta <= waited <= 1.01 * eta + 60
