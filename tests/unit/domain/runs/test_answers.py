"""The answer to an approval as it comes, and the row by which a run waits."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from peaker.domain.runs.approval import read_answer
from peaker.domain.runs.run import cluster_of, run_id

from tests.support.approval_fakes import WAITING
from tests.support.fakes import NOON

LATER = NOON + timedelta(minutes=5)


def failed(error: str, cause: str = "") -> dict[str, str]:
    return {"failed_step": "AskApproval", "error": error, "cause": cause}


ANSWERS: list[tuple[str, Any, str, str]] = [
    ("a yes", {"answer": "approved", "by": "arn:aws:iam::1:user/kim"}, "approved", "arn:aws:iam::1:user/kim"),
    ("a yes of nobody in particular", {"answer": "approved"}, "approved", ""),
    ("a no", failed("ApprovalRefused", "too dear (by kim)"), "refused", "too dear (by kim)"),
    ("a no without a reason", failed("ApprovalRefused"), "refused", "without a reason"),
    ("nobody", failed("States.Timeout"), "expired", ""),
]


@pytest.mark.parametrize(
    ("given", "answer", "said"), [one[1:] for one in ANSWERS], ids=[one[0] for one in ANSWERS]
)
def test_what_ended_the_wait_is_read(given: Any, answer: str, said: str) -> None:
    found = read_answer(given)
    assert (found.answer, found.said) == (answer, said)


@pytest.mark.parametrize(
    "given",
    [
        None,
        True,
        "approved",
        [],
        {},
        {"answer": "yes"},
        {"answer": True},
        {"error": 1},
        failed("Throttled"),
        {"answer": "approved", "error": "no"},
    ],
)
def test_what_is_not_the_yes_that_the_command_sends_is_no_yes(given: Any) -> None:
    assert read_answer(given).answer == "refused"


def test_a_row_waits_until_its_time_is_up_or_it_was_answered() -> None:
    assert WAITING.waits(NOON)
    assert not WAITING.waits(WAITING.waits_until)
    assert not replace(WAITING, answer="approved").waits(NOON)


def test_after_a_no_it_rests_for_as_long_as_it_would_have_waited() -> None:
    refused = replace(WAITING, answer="refused", answered_at=LATER)
    assert refused.rests(LATER + timedelta(minutes=59))
    assert not refused.rests(LATER + timedelta(minutes=60))
    assert not replace(WAITING, answer="expired", answered_at=LATER).rests(LATER)


def test_a_run_of_scale_out_tells_its_cluster() -> None:
    assert cluster_of(run_id("scale_out", "orders-eu", NOON, "x")) == "orders-eu"


@pytest.mark.parametrize(
    "run", ["", "orders", "scale-in-orders-20261121T014000-9f3a", "scale-out-orders-2026-9f3a-2"]
)
def test_what_is_no_run_of_scale_out_tells_none(run: str) -> None:
    assert cluster_of(run) is None
