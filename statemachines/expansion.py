"""Writes a source out as the States Language: what every state has, and what its source says of it.

Plain: each kind of state has one function here, and each field one place. Names of waits, of what is passed on and of
endings stand in `policies.py`. `python -m statemachines` writes all workflows to build/asl/.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, assert_never

from statemachines import policies
from statemachines.reading import read_source
from statemachines.source import (
    END,
    AnyState,
    Call,
    Choose,
    Each,
    Fail,
    Parallel,
    Pause,
    SayOutcome,
    Scope,
    Start,
    Succeed,
    Trying,
    Workflow,
)

FOLDER = Path(__file__).resolve().parent
ASL_FOLDER = FOLDER.parent / "build" / "asl"
# An integration of another partition than the execution's ends it, past every Catch: `in_partition` says which it is.
_PARTITION = "${Partition}"
_STATES = f"arn:{_PARTITION}:states:::"
LAMBDA_INVOKE = f"{_STATES}lambda:invoke"
START_EXECUTION_AND_WAIT = f"{_STATES}states:startExecution.sync:2"

Asl = dict[str, Any]


def workflow_names(folder: Path = FOLDER) -> list[str]:
    """All workflows, e.g. scale_out."""
    return sorted(path.stem for path in folder.glob("*.yaml"))


def expand(name: str, folder: Path = FOLDER) -> Asl:
    """The state machine of a workflow. Raises WorkflowSourceError."""
    workflow = read_source(folder / f"{name}.yaml")
    return {
        "Comment": workflow.comment,
        "QueryLanguage": "JSONata",
        "StartAt": workflow.start_at,
        "TimeoutSeconds": workflow.timeout_seconds,
        "States": _states(workflow, workflow),
    }


def as_text(machine: Asl) -> str:
    """Returns the machine's text as it is deployed, and as people and linters read it."""
    return json.dumps(machine, indent=2, ensure_ascii=False) + "\n"


def in_partition(text: str, partition: str) -> str:
    """A definition's text for this partition, such as `aws-us-gov`.

    No substitution of the template's: cfn-lint holds ARNs of integrations against their pattern as they stand there.
    """
    return text.replace(_PARTITION, partition)


def write_asl(name: str, machine: Asl, folder: Path = ASL_FOLDER) -> Path:
    """Write `<folder>/<name>.asl.json`, whole or not at all: several synths may do it at once."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.asl.json"
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=folder, delete=False) as file:
        file.write(as_text(machine))
    os.chmod(file.name, 0o644)
    os.replace(file.name, path)
    return path


def placeholder(callee: str, kind: str = "") -> str:
    """`${DrainReplicaArn}`, `${PrewarmStateMachineArn}`: what the stack substitutes."""
    return f"${{{''.join(part.capitalize() for part in callee.split('_'))}{kind}Arn}}"


def _states(scope: Scope, workflow: Workflow) -> Asl:
    return {name: _state(name, state, scope, workflow) for name, state in scope.states.items()}


def _state(name: str, state: AnyState, scope: Scope, workflow: Workflow) -> Asl:
    match state:
        case Call():
            return _call(name, state, scope, workflow)
        case Start():
            return _start(name, state, scope)
        case Parallel():
            branches = [
                {"StartAt": branch.start_at, "States": _states(branch, workflow)} for branch in state.parallel
            ]
            return _tried(name, state, scope, "Parallel", {"Branches": branches}, "{% $states.result %}")
        case Each():
            each = {
                "Items": state.for_each,
                "ItemProcessor": {
                    "ProcessorConfig": {"Mode": "INLINE"},
                    "StartAt": state.run.start_at,
                    "States": _states(state.run, workflow),
                },
            }
            return _tried(name, state, scope, "Map", each, "{% $states.result %}")
        case Choose():
            return _choose(state)
        case Pause():
            pause = {"Seconds": state.wait_seconds}
            return {"Type": "Wait", "Comment": state.comment, **pause, **_next(state.next)}
        case SayOutcome():
            # A Pass that ends: the local cloud's interpreter ignores the Output of a Succeed.
            output = policies.outcome(state.say_outcome)
            return {"Type": "Pass", "Comment": state.comment, "Output": output, "End": True}
        case Succeed():
            return {"Type": "Succeed", "Comment": state.comment}
        case Fail(fail=ending):
            cause = policies.cause(ending.tells, ending.says)
            told = {"Error": policies.ERROR_AS_IT_CAME, "Cause": cause}
            return {"Type": "Fail", "Comment": state.comment, **told}
        case _:
            assert_never(state)


def _next(name: str) -> Asl:
    return {"End": True} if name == END else {"Next": name}


def _choose(state: Choose) -> Asl:
    """A Choice assigns where its rule says so, and its own Assign counts for the default alone."""
    assign = {"Assign": state.assign} if state.assign else {}
    ways = [{"Condition": way.when, **assign, "Next": way.next} for way in state.choose]
    head = {"Type": "Choice", "Comment": state.comment}
    return {**head, "Choices": ways, **assign, "Default": state.otherwise}


def _call(name: str, state: Call, scope: Scope, workflow: Workflow) -> Asl:
    payload = state.payload
    if isinstance(payload, Mapping):
        speaks_for = state.speaks_for or workflow.speaks_for
        step = {} if speaks_for == "nobody" else {"step": name}
        payload = {**policies.SPEAKERS[speaks_for], **step, **payload}
    call = {
        "Resource": LAMBDA_INVOKE,
        "Arguments": {"FunctionName": placeholder(state.call), "Payload": payload},
    }
    waits = [policies.WAITS[wait] for wait in state.waits_on]
    retriers = [*waits, *policies.standard_of_calls(waits)]
    return _tried(name, state, scope, "Task", call, "{% $states.result.Payload %}", _limits(state, retriers))


def _start(name: str, state: Start, scope: Scope) -> Asl:
    start = {
        "Resource": START_EXECUTION_AND_WAIT,
        "Arguments": {
            "StateMachineArn": placeholder(state.start, "StateMachine"),
            "Name": state.name,
            # Shows the parent in the child's page of the console.
            "Input": {
                **state.input,
                "AWS_STEP_FUNCTIONS_STARTED_BY_EXECUTION_ID": "{% $states.context.Execution.Id %}",
            },
        },
    }
    limits = _limits(state, policies.STANDARD_OF_STARTS)
    return _tried(name, state, scope, "Task", start, "{% $states.result.Output %}", limits)


def _limits(state: Call | Start, retriers: Sequence[policies.Retrier]) -> Asl:
    return {"TimeoutSeconds": state.timeout_seconds, "Retry": [retrier.asl() for retrier in retriers]}


def _tried(
    name: str, state: Trying, scope: Scope, kind: str, does: Asl, answer: str, limits: Asl | None = None
) -> Asl:
    """A state that may fail: what it does, and where it goes from there. Its output is the answer by default."""
    return {
        "Type": kind,
        "Comment": state.comment,
        **does,
        "Output": answer if state.output is None else state.output,
        **({"Assign": state.assign} if state.assign else {}),
        **(limits or {}),
        "Catch": _catch(name, state, scope),
        **_next(state.next),
    }


def _catch(name: str, state: Trying, scope: Scope) -> list[Asl]:
    """The errors that the source names, those of one way together; then everything else."""
    by_target: dict[str, list[str]] = {}
    for error, target in state.catch.items():
        by_target.setdefault(target, []).append(error)
    failure = policies.caught(name)
    named = [
        {"ErrorEquals": errors, "Output": failure, "Next": target} for target, errors in by_target.items()
    ]
    rest = {
        "ErrorEquals": ["States.ALL"],
        "Output": policies.PASSED_ON[state.passes_on](name),
        "Next": state.on_failure or scope.on_failure,
    }
    return [*named, rest]
