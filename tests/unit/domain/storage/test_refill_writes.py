"""When the volumes of a refill that did not end are trusted: only where it is known that nothing was written."""

from __future__ import annotations

import pytest
from peaker.domain.host_results import PrewarmReport
from peaker.domain.runs.ledger import ResourceKind, ResourceRow, ResourceState
from peaker.domain.storage.refill_writes import (
    RefillEnd,
    end_of_refill,
    may_have_written,
    starts_of_refill,
)

from tests.support.fakes import NOON

UNTOUCHED = RefillEnd(started_by="StartPrewarm#1", written=False)
WRITTEN = RefillEnd(started_by="StartPrewarm#1", written=True)


def command(number: int, name: str, document: str, resource_id: str | None = "command-1") -> ResourceRow:
    return ResourceRow(
        number,
        ResourceKind.COMMAND,
        name,
        ResourceState.UNDONE,
        name.split("#")[0],
        NOON,
        resource_id=resource_id,
        details={"document": document},
    )


def start(number: int, resource_id: str | None = "command-1") -> ResourceRow:
    return command(number, f"StartPrewarm#{number}", "start_fill", resource_id)


def asked(number: int) -> ResourceRow:
    return command(number, f"ReportPrewarm#{number}", "report_prewarm")


def report(state: str = "failed", written: bool | None = False) -> PrewarmReport:
    return PrewarmReport.model_validate({"state": state, "written": written})


def test_without_a_command_nobody_wrote() -> None:
    assert not may_have_written([], [], None)


def test_a_command_that_systems_manager_does_not_know_came_to_no_host() -> None:
    assert not may_have_written([start(1, None)], [], None)


def test_one_whose_answer_was_lost_and_that_shows_may_have_come_to_the_host() -> None:
    assert may_have_written([start(1, None)], ["StartPrewarm#1"], None)


def test_what_no_host_told_is_not_known() -> None:
    assert may_have_written([start(1)], [], None)


@pytest.mark.parametrize(("end", "mixed"), [(UNTOUCHED, False), (WRITTEN, True)])
def test_the_host_knows(end: RefillEnd, mixed: bool) -> None:
    assert may_have_written([start(1)], [], end) is mixed


def test_an_engine_that_was_started_once_more_may_have_written_since_the_host_told() -> None:
    assert may_have_written([start(1), start(2)], [], UNTOUCHED)
    assert not may_have_written([start(1), start(2, None)], [], UNTOUCHED), "it came to no host"


@pytest.mark.parametrize("state", ["failed", "dead"])
@pytest.mark.parametrize("written", [True, False])
def test_of_an_engine_that_has_ended_the_report_says_what_it_did(state: str, written: bool) -> None:
    end = end_of_refill(report(state, written), [start(1), asked(2)], "ReportPrewarm")
    assert end == RefillEnd(started_by="StartPrewarm#1", written=written)


def test_one_that_runs_may_write_the_next_moment() -> None:
    assert end_of_refill(report("running"), [start(1), asked(2)], "ReportPrewarm") is None


def test_a_host_that_does_not_say_leaves_it_unknown() -> None:
    assert end_of_refill(report(written=None), [start(1), asked(2)], "ReportPrewarm") is None


def test_a_report_does_not_speak_of_a_start_that_was_sent_after_the_question() -> None:
    rows = [start(1), asked(2), start(3)]
    assert end_of_refill(report(), rows, "ReportPrewarm") == UNTOUCHED
    assert may_have_written(starts_of_refill(rows), [], UNTOUCHED)


def test_commands_that_start_no_writing_engine_are_none() -> None:
    other = [
        command(1, "StartPrewarm#1", "start_prewarm"),
        command(2, "StartPrewarm#1.report_work#1", "report_work"),
    ]
    assert starts_of_refill(other) == []
