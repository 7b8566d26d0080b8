"""Simulated hosts refuse of a fill and of a refill what the host package refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lab.simulated_hosts import Pace, SimulatedAnswers

HOST, BUILDER, REFILL, SECOND = "i-0a1b2c3d4e5f60718", "run-1", "run-2", "run-3"
OLD, NEW, OWN = "snap-0f1110000000000a0", "snap-0f1110000000000a1", "snap-0f1110000000000b1"
PAIRS = json.dumps({"data": [[OLD, NEW], [OLD, OWN]]})


class Clock:
    now = 0.0

    def epoch(self) -> float:
        return self.now

    def real_seconds(self, cloud_seconds: float) -> float:
        return cloud_seconds


class Host:
    def __init__(self) -> None:
        self.clock = Clock()
        self.answers = SimulatedAnswers(self.clock, bare=False)

    def says(self, document: str, **parameters: str) -> dict[str, Any]:
        given = {f"SSM_{name}": value for name, value in parameters.items()}
        return dict(self.answers.answer(document, HOST, given).result)

    def fill(self, run_id: str, changed: str = "") -> dict[str, Any]:
        return self.says("start_fill", RunId=run_id, Snapshots=json.dumps({"data": NEW}), Changed=changed)

    def end(self, run_id: str) -> None:
        self.clock.now += Pace().prewarm_seconds
        assert self.says("report_prewarm", RunId=run_id)["state"] == "done"


@pytest.fixture
def parked() -> Host:
    """It has served, and was started again."""
    host = Host()
    host.says("assemble_storage", RunId=BUILDER)
    host.says("start_database", RunId=BUILDER)
    host.says("stop_database", RunId=BUILDER)
    return host


def test_a_refill_ends_as_a_fresh_copy_and_so_does_the_next(parked: Host) -> None:
    seen = [parked.says("start_database", RunId=BUILDER)["server_uuid"]]
    for run in (REFILL, SECOND):
        parked.says("stop_database", RunId=run)
        assert parked.fill(run, PAIRS)["already_running"] is False
        parked.end(run)
        asked = {"RunId": BUILDER, "RefilledBy": run}
        assert parked.says("assemble_storage", **asked)["members"]
        seen.append(parked.says("start_database", RunId=BUILDER)["server_uuid"])
        assert parked.says("assemble_storage", **asked)["members"], "sent again"
        assert parked.says("start_database", RunId=BUILDER)["server_uuid"] == seen[-1]
    assert len(set(seen)) == 3


def test_what_is_not_ended_or_not_assembled_starts_no_database(parked: Host) -> None:
    parked.fill(REFILL, PAIRS)
    assert parked.says("assemble_storage", RunId=BUILDER, RefilledBy=REFILL)["error"] == "PrewarmNotStarted"
    assert parked.says("start_database", RunId=BUILDER)["error"] == "IdentityNotTaken"
    parked.end(REFILL)
    parked.says("assemble_storage", RunId=BUILDER)
    assert parked.says("start_database", RunId=BUILDER)["error"] == "IdentityNotTaken", "of its first life"


def test_only_empty_volumes_are_filled_and_only_older_copies_refilled(parked: Host) -> None:
    assert parked.fill(REFILL)["error"] == "DeviceNotEmpty"
    other = json.dumps({"data": [[OLD, OWN]]})
    assert parked.fill(REFILL, other)["error"] == "InvalidArgument"
    parked.says("start_database", RunId=BUILDER)
    assert parked.fill(REFILL, PAIRS)["error"] == "DeviceInUse"


def test_the_builder_refills_nothing(parked: Host) -> None:
    assert parked.says("assemble_storage", RunId=BUILDER, RefilledBy=BUILDER)["error"] == "InvalidArgument"


def test_an_engine_that_was_begun_is_asked_for_again() -> None:
    host = Host()
    assert host.fill(BUILDER)["already_running"] is False
    assert host.fill(BUILDER)["already_running"] is True
    assert host.says("assemble_storage", RunId=BUILDER)["error"] == "UnreadableFilesystem"
    host.end(BUILDER)
    assert host.says("assemble_storage", RunId=BUILDER)["members"]
