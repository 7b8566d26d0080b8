"""Least privilege, proven by refusals: every role of a deployed environment tries what it must not be able to do.

`make test` tries a sample of each role's calls, `make faults` all of them.
"""

from __future__ import annotations

import json
import time
import zlib
from pathlib import Path

import pytest

from peaker_contract.catalogue import FUNCTIONS
from stacks.people_statements import SETS
from statemachines.expansion import workflow_names
from tests.support.forbidden.cell import Cell
from tests.support.forbidden.roles import Role, take_boundary_off
from tests.support.forbidden.trial import Trial

ROLES = (
    *(f"function {one.name}" for one in FUNCTIONS),
    *(f"workflow {one}" for one in workflow_names()),
    *(f"people {one}" for one in SETS),
    "other",
)
# A role tries one of so many of its calls; there are more roles than that.
SAMPLE = 40
FEWEST = 300
FIGURES = Path(__file__).resolve().parents[2] / "build" / "bench" / "faults.json"


@pytest.fixture(scope="module")
def by_their_own_policies(trial: Trial) -> Trial:
    """Without the boundary, which would refuse much of it too."""
    for role in trial.roles:
        assert take_boundary_off(trial.aws.cloud, role) is (role.kind != "people"), f"{role} has no boundary"
    return trial


def test_no_role_is_left_out(trial: Trial) -> None:
    assert [str(role) for role in trial.roles if str(role) not in ROLES and role.kind != "other"] == []
    assert [name for name in ROLES if not trial.named(name)] == []
    assert [str(role) for role in trial.roles if len(trial.cells(role)) < FEWEST] == []


@pytest.mark.parametrize("name", ROLES)
def test_a_sample_of_what_is_forbidden_is_refused(by_their_own_policies: Trial, name: str) -> None:
    trial = by_their_own_policies
    assert [one for role in trial.named(name) for one in trial.went_through(role, _sample(trial, role))] == []


def test_who_may_everything_is_refused_it_within_the_boundary(trial: Trial) -> None:
    assert trial.went_through(trial.bounded, trial.cells(trial.bounded)) == []


@pytest.mark.every_state
@pytest.mark.timeout(1800)
def test_all_that_is_forbidden_is_refused(by_their_own_policies: Trial) -> None:
    """The figure of `make faults`: every call of every role, and what the boundary alone refuses."""
    trial = by_their_own_policies
    told, went_through, tried_calls = 0.0, [], 0
    for number, role in enumerate([*trial.roles, trial.bounded]):
        cells = trial.cells(role)
        tried_calls += len(cells)
        went_through += trial.went_through(role, cells)
        if time.monotonic() - told > 2:
            told = time.monotonic()
            print(f"{number + 1} of {len(trial.roles) + 1} roles, {tried_calls} calls", flush=True)
    _write_figures(tried_calls, tried_calls - len(went_through), len(trial.roles))
    assert went_through == []


def _write_figures(tried_calls: int, refused: int, roles: int) -> None:
    known = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    known |= {
        "forbidden calls: roles that tried": {"value": roles, "must": "all", "holds": True},
        "forbidden calls tried / refused": {
            "value": refused,
            "must": tried_calls,
            "holds": refused == tried_calls,
        },
    }
    FIGURES.parent.mkdir(parents=True, exist_ok=True)
    FIGURES.write_text(json.dumps(known, indent=2) + "\n")


def _sample(trial: Trial, role: Role) -> list[Cell]:
    """Of each role other ones, the same in every run."""
    turn = trial.roles.index(role) % SAMPLE
    return [cell for cell in trial.cells(role) if zlib.crc32(cell.what.encode()) % SAMPLE == turn]
