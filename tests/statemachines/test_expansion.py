"""A source says what differs; the expansion adds the rest, and says what is wrong in a source and how to right it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from statemachines import policies
from statemachines.__main__ import main
from statemachines.expansion import FOLDER, expand, workflow_names
from statemachines.reading import WorkflowSourceError
from tests.support.workflows import MACHINES

GOOD = """\
comment: Drains one replica.
timeout_seconds: 600
start_at: DrainReplica
on_failure: NotDrained

states:
  DrainReplica:
    comment: Until nobody is connected.
    call: drain_replica
    waits_on: [drain]
    next: Drained

  Drained:
    comment: Nobody is connected any more.
    succeed: true

  NotDrained:
    comment: Somebody is still connected.
    fail: {tells: step_and_message, says: Not drained.}
"""


def expanded(folder: Path, source: str = GOOD) -> dict[str, Any]:
    (folder / "drain.yaml").write_text(source, encoding="utf-8")
    return expand("drain", folder)


def drained(folder: Path, *lines: str) -> dict[str, Any]:
    """DrainReplica, expanded, with more lines in its source."""
    more = "".join(f"    {line}\n" for line in lines)
    return expanded(folder, GOOD.replace("    next: Drained\n", f"{more}    next: Drained\n"))["States"][
        "DrainReplica"
    ]


# -- what the expansion adds ------------------------------------------------------------------------------------


def test_a_call_gets_its_resource_its_payload_and_its_timeout(tmp_path: Path) -> None:
    state = drained(tmp_path, "payload: {host: replica}")
    assert state["Resource"] == "arn:${Partition}:states:::lambda:invoke"
    assert state["Arguments"] == {
        "FunctionName": "${DrainReplicaArn}",
        "Payload": {
            "run_id": "{% $run.run_id %}",
            "cluster": "{% $run.cluster %}",
            "operation": "{% $run.operation %}",
            "fencing_token": "{% $run.fencing_token %}",
            "step": "DrainReplica",
            "host": "replica",
        },
    }
    assert (state["Output"], state["TimeoutSeconds"]) == ("{% $states.result.Payload %}", 90)


def test_before_the_lease_a_call_speaks_for_the_request(tmp_path: Path) -> None:
    payload = drained(tmp_path, "speaks_for: request")["Arguments"]["Payload"]
    assert payload == {
        "run_id": "{% $identity.run_id %}",
        "cluster": "{% $identity.cluster %}",
        "operation": "{% $identity.operation %}",
        "step": "DrainReplica",
    }


def test_its_own_waits_come_before_the_standard_retriers(tmp_path: Path) -> None:
    retried = drained(tmp_path)["Retry"]
    assert [rule["ErrorEquals"][0] for rule in retried] == [
        "ReplicaDraining", "Throttled", "Lambda.Unknown",
    ]  # fmt: skip
    assert retried[0] == {
        "ErrorEquals": ["ReplicaDraining", "HostCommandRunning"],
        "IntervalSeconds": 10, "BackoffRate": 1.05, "MaxAttempts": policies.WAITS["drain"].max_attempts,
        "MaxDelaySeconds": 60,
    }  # fmt: skip


def test_a_failure_goes_where_its_scope_says(tmp_path: Path) -> None:
    [catcher] = drained(tmp_path)["Catch"]
    assert (catcher["ErrorEquals"], catcher["Next"]) == (["States.ALL"], "NotDrained")
    assert catcher["Output"] == policies.caught("DrainReplica")


def test_errors_of_one_way_are_one_catcher_before_all_the_others(tmp_path: Path) -> None:
    catch = drained(tmp_path, "catch: {NoIdleReplica: Drained, LeaseHeld: Drained}", "passes_on: input")[
        "Catch"
    ]
    assert [(one["ErrorEquals"], one["Next"]) for one in catch] == [
        (["NoIdleReplica", "LeaseHeld"], "Drained"),
        (["States.ALL"], "NotDrained"),
    ]
    assert catch[0]["Output"] == policies.caught("DrainReplica")
    assert catch[1]["Output"] == "{% $states.input %}"


def test_an_apostrophe_in_what_an_end_says_stays_one(tmp_path: Path) -> None:
    source = GOOD.replace("says: Not drained.", "says: The replica's clients stay.")
    assert "'The replica\\'s clients stay. '" in expanded(tmp_path, source)["States"]["NotDrained"]["Cause"]


# -- what is wrong in a source ----------------------------------------------------------------------------------

CALL = "    call: drain_replica\n"
WRONG: dict[str, tuple[str, str, str]] = {
    "a field that no state has": (
        CALL, f"{CALL}    retries: 3\n",
        "drain.yaml:10: DrainReplica: retries: is no field: remove or correct it; a state with call takes comment, ",
    ),
    "a field with a slip of the pen": (
        "waits_on: [drain]", "wait_on: [drain]", "wait_on: is no field; did you mean waits_on?: remove or correct it",
    ),
    "a wait that nobody knows": (
        "[drain]", "[drian]",
        "drain.yaml:10: DrainReplica: waits_on: drian is no wait; did you mean drain? statemachines/policies.py has",
    ),
    "something to pass on that nobody knows": (
        CALL, f"{CALL}    passes_on: undo\n", "DrainReplica: passes_on: undo is no word for what is passed on",
    ),
    "a speaker that nobody knows": (
        CALL, f"{CALL}    speaks_for: the run\n", "DrainReplica: speaks_for: the run is no speaker",
    ),
    "a next that does not exist": (
        "next: Drained", "next: Draind",
        "drain.yaml:11: DrainReplica: next: Draind is no state beside it; did you mean Drained?: name one or add it",
    ),
    "a catch that leads nowhere": (
        CALL, f"{CALL}    catch: {{LeaseHeld: Refused}}\n", "DrainReplica: catch: LeaseHeld: Refused is no state",
    ),
    "a start that does not exist": (
        "start_at: DrainReplica", "start_at: Drain", "drain.yaml:3: start_at: Drain is no state",
    ),
    "a state without a comment": (
        "    comment: Until nobody is connected.\n", "",
        "DrainReplica: comment: is missing: say in one line what it is for; the console shows it",
    ),
    "a comment on two lines": (
        "comment: Until nobody is connected.", "comment: |-\n      Until\n      nobody",
        "comment: must be text in one line",
    ),
    "a state of no kind": (
        CALL, "", "drain.yaml:7: DrainReplica: has none of call, start, choose, ",
    ),
    "a state of two kinds": (
        CALL, f"{CALL}    succeed: true\n", "DrainReplica: has call and succeed: keep one of them",
    ),
    "no way on": ("    next: Drained\n", "", "DrainReplica: next: is missing: write it"),
    "a name in the wrong case": (
        "call: drain_replica", "call: DrainReplica", "call: must be a name in lower case, such as drain_replica",
    ),
    "a payload that says what is always said": (
        CALL, f"{CALL}    payload: {{step: Other}}\n",
        "DrainReplica: payload: step: is added to every payload: leave it out",
    ),
    "a whole payload in the name of the run": (
        CALL, f'{CALL}    payload: "{{% $states.input %}}"\n', "payload: must be a mapping; one expression only where",
    ),
    "an expression without its marks": (
        "  Drained:\n", "  Pause:\n    comment: A pause.\n    wait_seconds: $pause\n    next: Drained\n\n  Drained:\n",
        'Pause: wait_seconds: must be an expression in quotes: "{% ... %}"',
    ),
    "an end that tells nothing": (
        "fail: {tells: step_and_message, says: Not drained.}", "fail: {says: Not drained.}",
        "NotDrained: fail: tells: is missing: write it",
    ),
    "a word that YAML versions read differently": (
        CALL, f"{CALL}    payload: {{fence: on}}\n", "payload: fence: must be text, got on: write it in quotes",
    ),
    "a state that is there twice": (
        "  NotDrained:\n", "  Drained:\n    comment: Again.\n    succeed: true\n\n  NotDrained:\n",
        "drain.yaml:17: Drained: is given twice, first in line 13: keep one of them",
    ),
    "no YAML": ("states:\n", "states: [\n", "drain.yaml:8: is not YAML"),
    "no timeout": ("timeout_seconds: 600\n", "", "drain.yaml:1: timeout_seconds: is missing: write it"),
    "nothing at all": (GOOD, "", "drain.yaml: is empty: begin with comment"),
}  # fmt: skip


@pytest.mark.parametrize(("given", "instead", "expected"), WRONG.values(), ids=WRONG)
def test_a_mistake_is_told_with_line_state_field_and_remedy(
    tmp_path: Path, given: str, instead: str, expected: str
) -> None:
    assert given in GOOD
    with pytest.raises(WorkflowSourceError) as refused:
        expanded(tmp_path, GOOD.replace(given, instead))
    assert expected in str(refused.value)
    assert str(refused.value).startswith(f"{tmp_path.name}/drain.yaml:")


def test_a_mistake_inside_a_branch_is_told_with_its_own_state(tmp_path: Path) -> None:
    branch = "      - {start_at: Done, on_failure: Done, states: {Done: {comment: Yes., succeed: true, after: 1}}}\n"
    parallel = f"  Both:\n    comment: Side by side.\n    parallel:\n{branch}{branch}    next: Drained\n\n  Drained:\n"
    with pytest.raises(WorkflowSourceError) as refused:
        expanded(tmp_path, GOOD.replace("  Drained:\n", parallel))
    assert [line.split(": ")[1:3] for line in str(refused.value).splitlines()] == [["Done", "after"]] * 2


def test_every_mistake_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(WorkflowSourceError) as refused:
        expanded(tmp_path, GOOD.replace("[drain]", "[drian]").replace("succeed: true", "succeed: yes"))
    assert len(str(refused.value).splitlines()) == 2


# -- the sources that there are -----------------------------------------------------------------------------------


def test_every_policy_has_a_reason_and_is_used() -> None:
    text = "\n".join((FOLDER / f"{name}.yaml").read_text() for name in workflow_names())
    retriers = [*policies.WAITS.values(), *policies.standard_of_calls(), *policies.STANDARD_OF_STARTS]
    assert all(retrier.reason for retrier in retriers)
    assert {name for name in policies.WAITS if name not in text} == set()
    explicit = {*policies.PASSED_ON, *policies.SPEAKERS, *policies.TELLS} - {"failure", "run"}
    assert {name for name in explicit if f": {name}" not in text} == set()


def test_the_workflows_are_written_by_one_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main() == 0
    written = [Path(line) for line in capsys.readouterr().out.splitlines()]
    assert {path.name.removesuffix(".asl.json"): json.loads(path.read_text()) for path in written} == MACHINES
