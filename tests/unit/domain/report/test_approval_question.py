"""What the operators are asked: all that it takes to answer, also where something is not known."""

from __future__ import annotations

from peaker.domain.report.approval_question import ASKS, approval_question
from peaker.domain.runs.approval import ApprovalAsked

from tests.contract.run_parts import ONE_OF_EACH

RUN = "scale-out-orders-20261121T120000-9f3a"
[ASKED] = (one for one in ONE_OF_EACH if isinstance(one, ApprovalAsked))


def text_of(**more: object) -> str:
    return approval_question(ASKED.model_copy(update=more), RUN, "orders", "prod").text


def test_the_subject_names_environment_cluster_and_what_it_is() -> None:
    subject = approval_question(ASKED, RUN, "orders", "prod").subject
    assert subject == "Peaker prod: scale_out of orders waits for approval"
    assert subject.endswith(ASKS)
    longest = approval_question(ASKED, RUN, "c" * 20, "e" * 20).subject
    assert len(longest) <= 100, "SNS takes no longer one"


def test_the_text_has_reasons_numbers_end_and_commands() -> None:
    text = text_of(reasons=("budget: $12.00/h, above", "ceiling: 4 wanted"), lead_p90_seconds=2400.0)
    for line in (
        "why       budget: $12.00/h, above",
        "why       ceiling: 4 wanted",
        "replicas  1 more, 2 in all",
        "ready     in 30 min, in 9 of 10 cases within 40 min",
        "steps     hydration 20 min",
        "until     2026-11-21T12:05:00.000Z: without an answer it is refused. Nothing is made before.",
        f"peaker approve {RUN} --env prod",
        f"peaker refuse {RUN} --env prod --reason 'why not'",
    ):
        assert line in text.splitlines()


def test_what_is_not_known_is_said() -> None:
    text = text_of(hourly_usd=None, peak_hourly_usd=None, replicas_after=None, steps={})
    assert "price     an unknown price an hour and an unknown price once" in text
    assert "replicas  1 more, an unknown number in all" in text
    assert "within an unknown time" in text
    assert "steps     unknown" in text
