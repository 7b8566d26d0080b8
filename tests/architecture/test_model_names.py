"""The model speaks of the states that the workflows have and of the invariants that the documents number."""

from __future__ import annotations

import re
from pathlib import Path

from statemachines.structure import states
from tests.support.workflows import MACHINES

ROOT = Path(__file__).resolve().parents[2]
MODEL = (ROOT / "bench" / "model" / "lease_and_ledger.pml").read_text(encoding="utf-8")
# What an execution or an undoer is in between: no state of a workflow.
OF_THE_MODEL_ALONE = {"Idle", "Ended"}


def test_every_state_of_the_model_is_a_state_of_a_workflow() -> None:
    deployed = {state.name for machine in MACHINES.values() for state in states(machine)}
    words = MODEL[MODEL.index("mtype = {") : MODEL.index("/* operations and outcomes */")]
    modelled = set(re.findall(r"\b[A-Z][a-z]\w+(?=,|\s)", re.sub(r"/\*.*?\*/", "", words)))
    assert len(modelled) > 25
    assert modelled - OF_THE_MODEL_ALONE <= deployed


def test_the_sweep_has_the_name_of_its_use_case() -> None:
    assert (ROOT / "functions/peaker/usecases/undo/sweep_orphans.py").is_file()
    assert "inline SweepOrphans(" in MODEL


def test_every_invariant_of_the_model_is_in_the_documents() -> None:
    page = (ROOT / "docs" / "states-and-invariants.md").read_text(encoding="utf-8")
    stated = set(re.findall(r"^\| (I\d+) \|", page, flags=re.MULTILINE))
    checked = set(re.findall(r"MUST\((I\d+),", MODEL))
    assert checked <= stated
    assert checked == {"I1", "I3", "I5", "I6", "I7", "I9", "I10", "I12"}
