"""The plan of a refill as a person sees it: what comes, what is written, what it costs, and what follows a refusal."""

from __future__ import annotations

import json

from peaker.domain.planning.plan import ScaleOutPlan
from peaker_cli.runs.plan import render_plan
from rich.console import Console

from tests.support.builders import BASE, PEAK
from tests.support.fakes import NOON
from tests.unit.usecases.plan.test_refill_of_an_expired_replica import made, parking, planned


def shown(plan: ScaleOutPlan) -> str:
    """Without the frame, and on one line."""
    console = Console(width=200)
    with console.capture() as capture:
        console.print(render_plan(json.loads(plan.model_dump_json())))
    return " ".join(capture.get().replace("│", "").split())


def test_it_says_what_is_written_from_where_and_what_that_costs_once() -> None:
    text = shown(planned(made()))
    assert f"refill {PEAK}, parked and expired, gets what {BASE} has now" in text
    assert "only the blocks that have changed are written (96.6 GB that changed" in text
    assert "184,320 requests for $0.5530" in text
    assert "snapshots of its own until it serves $0.0059" in text
    assert "$0.5589 once" in text
    assert "another refill to be possible" in text
    assert text.endswith("would be refilled ╰" + "─" * 198 + "╯")


def test_its_volumes_are_its_own_and_not_hydrated() -> None:
    text = shown(planned(made()))
    assert "MiB/s, its own, refilled" in text
    assert "hydrated" not in text


def test_it_says_why_it_cannot_come_back_as_it_is_and_what_follows_a_refusal() -> None:
    text = shown(planned(made()))
    assert f"{PEAK} cannot return as it is: expired at 2026-11-21T12:00:00.000Z" in text
    assert "if refused used_blocks, in the same run; the parked replica stays parked, or" in text


def test_of_two_it_says_which_is_refilled_and_which_is_built() -> None:
    text = shown(planned(made(max_replicas=4), count=2))
    assert "are written, serves at 2026-11-21T12:57:49" in text
    assert "build 1 x r6i.large" in text
    assert "would be refilled and built" in text


def test_one_that_returns_as_it_is_has_warm_volumes_of_its_own() -> None:
    ports = made()
    parking(ports, until=None, parked_at=NOON)
    text = shown(planned(ports))
    assert f"return {PEAK}, parked fleet" in text
    assert "MiB/s, its own, warm" in text
    assert text.count("would be returned") == 1
