"""The simulation's interpreter of workflows is held against the local cloud's on every way through every workflow.

The same workflow with the same input and the same answers of its tasks goes the same way in both, at the same times.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from bench.faults.situations import SITUATIONS
from sim.workflows.walker import Asl
from tests.support.virtual_interpreter import local_interpreter
from tests.support.workflow_scripts import (
    Answer,
    Ran,
    Script,
    Way,
    error,
    led_astray,
    machines,
    recorded,
    run_in_sim,
    turned,
    ways_of,
)

# Of the campaign's situations those without which a way stays untaken.
TITLES = (
    "build", "build by schedule", "build fails", "build stopped", "build stopped and roll_back fails",
    "build stopped before its release", "build stopped while it serves", "plan a build", "plan a retirement",
    "removal called off", "retire", "retire a parked one", "retire by schedule", "retire without a lease",
    "retirement and its restore fail", "retirement fails", "retirement fails after its end", "retirement refused",
    "retirement stopped after its end", "return",
)  # fmt: skip
# What no situation of the campaign answers.
BY_HAND: tuple[tuple[str, str, Mapping[str, tuple[Answer, ...]]], ...] = (
    ("build", "prewarm", {"ReportPrewarm": (Answer({"state": "dead"}),)}),
    ("build", "scale_out", {"NextMembers": (Answer({"more": True, "members": "no list"}),)}),
    (
        "build",
        "scale_out",
        {
            "NextMembers": (
                Answer({"more": True, "round": 1}),
                Answer({"more": True, "round": 2, "snapshots": True}),
            ),
            "ChooseDonor": (error("NoDonor"),),
        },
    ),
    ("build fails", "scale_out", {"UndoScaleOut": (Answer({"outcome": "partly"}),)}),
    ("build fails", "scale_out", {"UndoScaleOut": (Answer({"outcome": "rolled_forward"}),)}),
    (
        "build by schedule",
        "scale_out",
        {"ChooseDonor": (error("NoDonor"),), "RecordRefusal": (Answer({"error": "NoDonor"}),)},
    ),
    ("build by schedule", "scale_out", {"AcquireLease": (error("LeaseHeld"),)}),
    ("retire", "scale_in", {"SelectIdleReplicas": (Answer({"members": "no list"}),)}),
    ("retirement and its restore fail", "scale_in", {"UndoScaleIn": (Answer({"outcome": "partly"}),)}),
)


@dataclass(frozen=True)
class Scripts:
    """Scripts with what they do in the simulation, and the ways that none of them takes."""

    runs: list[tuple[Script, Ran]]
    not_taken: set[Way]


@pytest.fixture(scope="module")
def asl() -> Mapping[str, Asl]:
    return machines()


@pytest.fixture(scope="module")
def scripts(asl: Mapping[str, Asl]) -> Scripts:
    needed = dict(_needed(asl))
    of_campaign = [one for title in TITLES for one in recorded(title, SITUATIONS[title])]
    usual = {
        step: answer
        for one in of_campaign
        for (_, step), answers in one.answers.items()
        for answer in answers
        if not answer.failed
    }
    ran = [(one, run_in_sim(asl, one)) for one in (replace(one, usual=usual) for one in of_campaign)]
    found = Scripts([], set(needed))
    for script, run in sorted(ran, key=_length):
        _take(found, script, run)
    for title, workflow, said in BY_HAND:
        script, run = next(
            (script, run)
            for script, run in ran
            if script.title.startswith(f"{title}, ") and (workflow, next(iter(said))) in run.keys
        )
        script = turned(script, run, workflow, said)
        _take(found, script, run_in_sim(asl, script))
    _go_astray(asl, found, needed)
    return Scripts(_without_spare(found.runs, set(needed)), found.not_taken)


def _length(run: tuple[Script, Ran]) -> int:
    return len(run[1].calls)


def _needed(asl: Mapping[str, Asl]) -> Iterator[tuple[Way, Asl]]:
    """All ways; but of retriers whose pauses grow alike, only the one with the fewest tries runs out of them."""
    last: dict[tuple[Any, ...], tuple[int, Way, Asl]] = {}
    for workflow, machine in asl.items():
        for way, state in ways_of(workflow, machine):
            kind, _, index = way[2].partition(" ")
            if kind != "last":
                yield way, state
                continue
            retrier = state["Retry"][int(index)]
            alike = (state["Resource"], *sorted(retrier), retrier["BackoffRate"] == 1)
            fewest = last.get(alike)
            if fewest is None or retrier["MaxAttempts"] < fewest[0]:
                last[alike] = (retrier["MaxAttempts"], way, state)
    yield from ((way, state) for _, way, state in last.values())


def _take(found: Scripts, script: Script, run: Ran) -> None:
    new = found.not_taken & run.ways
    if new:
        found.runs.append((script, run))
        found.not_taken.difference_update(new)


def _go_astray(asl: Mapping[str, Asl], found: Scripts, needed: Mapping[Way, Asl]) -> None:
    """Each state fails in each of its ways: all retries of a script in one, each other way in a script of its own."""
    for script, run in sorted(found.runs, key=_length, reverse=True):
        retries = {way: needed[way] for way in found.not_taken if way[2].startswith("retry")}
        if (stumbling := led_astray(script, run, retries)) is not None:
            _take(found, stumbling, run_in_sim(asl, stumbling))
    before = None
    while found.not_taken != before:
        before = set(found.not_taken)
        for way in sorted(before):
            for script, run in sorted(found.runs, key=_length):
                if way not in found.not_taken:
                    break
                if (astray := led_astray(script, run, {way: needed[way]})) is not None:
                    ran = run_in_sim(asl, astray)
                    caught = any(one[:2] == way[:2] and one[2].startswith("catch") for one in ran.ways)
                    if way[2] == "unreadable" and caught:
                        ran.ways.add(way)
                    _take(found, astray, ran)


def _without_spare(runs: list[tuple[Script, Ran]], needed: set[Way]) -> list[tuple[Script, Ran]]:
    """The longest first, a script goes whose ways are all taken by those that stay."""
    taken = Counter(way for _, run in runs for way in run.ways & needed)
    stay = []
    for script, run in sorted(runs, key=_length, reverse=True):
        if any(taken[way] == 1 for way in run.ways & needed):
            stay.append((script, run))
        else:
            taken.subtract(run.ways & needed)
    return stay


def test_every_way_through_every_workflow_is_taken(scripts: Scripts) -> None:
    assert not scripts.not_taken


def test_both_interpreters_go_the_same_way_at_the_same_times(
    scripts: Scripts, asl: Mapping[str, Asl], tmp_path: Path
) -> None:
    different = {}
    with local_interpreter(tmp_path, asl) as interpreter:
        for script, in_sim in scripts.runs:
            in_cloud = interpreter.run(script)
            if found := list(_differences(in_sim, in_cloud)):
                different[script.title] = found
    assert not different, json.dumps(different, indent=2, default=str)


def _differences(one: Ran, other: Ran) -> Iterator[str]:
    for key in sorted({*one.executions, *other.executions}):
        first, second = (_comparable(ran.executions.get(key, {})) for ran in (one, other))
        for part in first | second:
            if first.get(part) != second.get(part):
                yield f"{key} {part}: {first.get(part)!r:.1500} | {second.get(part)!r:.1500}"
    calls, others = (sorted(json.dumps(_comparable(call)) for call in ran.calls) for ran in (one, other))
    if calls != others:
        apart = next((pair for pair in zip(calls, others, strict=False) if pair[0] != pair[1]), ())
        yield f"calls: {len(calls)} | {len(others)} {apart}"


def _comparable(value: Any) -> Any:
    """A nested execution's end, told as a text, has members whose form AWS does not document: these are left out."""
    if isinstance(value, str) and value.startswith('{"'):
        told = json.loads(value)
        if "ExecutionArn" in told:
            return _comparable(
                {part: told.get(part) for part in ("ExecutionArn", "Status", "Error", "Cause", "Input")}
            )
        return value
    if isinstance(value, Mapping):
        return {name: _comparable(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_comparable(part) for part in value]
    return value
