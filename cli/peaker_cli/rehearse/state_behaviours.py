"""What Step Functions and DynamoDB do with what a run keeps: names, redrives, JSONata, transactions, expiry."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from botocore.exceptions import ClientError

from peaker_cli.failures import ControlPlaneError
from peaker_cli.rehearse.named import machine, table
from peaker_cli.rehearse.resources import Resources, answer_of, same

# An execution waits so long: each of the calls below finds it running.
_PAUSE_SECONDS = 120
_AWKWARD = 'it\'s "quoted" back\\slash\nline {% $states %} ünï😀 $null'
_DOCUMENT: Mapping[str, Any] = {
    "whole": 3,
    "part": 0.5,
    "none": None,
    "no": False,
    "list": [1, [2]],
    "empty": [],
    "map": {},
}
_KEEP = {"Type": "Pass", "Assign": {"kept": "{% $states.input.text %}"}, "Next": "Pause"}
_WAITING: Mapping[str, Any] = {
    "Keep": _KEEP,
    "Pause": {"Type": "Wait", "Seconds": _PAUSE_SECONDS, "Next": "Give"},
    "Give": {"Type": "Pass", "Output": {"kept": "{% $kept %}"}, "End": True},
}
# An expression over the input, and its value.
_EXPRESSIONS: Mapping[str, tuple[str, Any]] = {
    "JSONata: awkward text in a variable": ("{% $text %}", _AWKWARD),
    "JSONata: numbers, nulls and lists": ("{% $document %}", _DOCUMENT),
    "JSONata: a variable that holds null": ("{% $type($none) & $string($exists($none)) %}", "nulltrue"),
    "JSONata: $range": ("{% $range(1, 9, 2) %}", [1, 3, 5, 7, 9]),
    "JSONata: $partition": ("{% $partition([1, 2, 3], 2) %}", [[1, 2], [3]]),
    "JSONata: $hash": ("{% $hash('a', 'MD5') %}", "0cc175b9c0f1b6a831c399e269772661"),
    "JSONata: $parse": ("{% $parse('{\"a\": null}') %}", {"a": None}),
    "JSONata: $uuid": ("{% $length($uuid()) %}", 36),
}
_VALUES: Mapping[str, Any] = {
    "Keep": {
        "Type": "Pass",
        "Assign": {name: f"{{% $states.input.{name} %}}" for name in ("text", "document", "none")},
        "Next": "Give",
    },
    "Give": {
        "Type": "Pass",
        "Output": {str(index): text for index, (text, _) in enumerate(_EXPRESSIONS.values())},
        "End": True,
    },
}
_UNDEFINED_STATE: Mapping[str, Any] = {"Give": {"Type": "Pass", "Output": "{% $nowhere %}", "End": True}}
_LONG: Mapping[str, Any] = {
    **{f"Step{one}": {"Type": "Pass", "Next": f"Step{one + 1}"} for one in range(59)},
    "Step59": {"Type": "Pass", "End": True},
}
EXECUTIONS: Mapping[str, str] = {
    "StartExecution: same name and input": "the same one",
    "StartExecution: same name, other input": "ExecutionAlreadyExists",
    "StopExecution": "ABORTED, Cancelled",
    "RedriveExecution": "RUNNING, same name",
    "the states of a redrive": "Keep Pause Pause Give",
    "variables after a redrive": "kept",
    "StartExecution: same name, after its end": "ExecutionAlreadyExists",
    "RedriveExecution of one that succeeded": "ExecutionNotRedrivable",
    "ListExecutions' order": "a b d c",
}
EXPRESSIONS: Mapping[str, str] = {
    **dict.fromkeys(_EXPRESSIONS, "as expected"),
    "an undefined result": "FAILED, States.QueryEvaluationError",
    "a page of history": "100 events",
    "a page of 1,001 events": "ValidationException",
}


def role_seconds(resources: Resources) -> float:
    """Returns the seconds until Step Functions takes a role that was just made."""
    return resources.seconds_until("the new role", lambda: machine(resources, "pause", _WAITING), at_most=600)


def ask_executions(resources: Resources) -> dict[str, str]:
    """Starts, stops and redrives executions of machines that wait."""
    return {**_of_names_and_redrives(resources), "ListExecutions' order": _order(resources)}


def ask_expressions(resources: Resources) -> dict[str, str]:
    return {**_of_expressions(resources), **_of_history(resources)}


def _machine(resources: Resources, name: str, states: Mapping[str, Any]) -> str:
    arn = machine(resources, name, states)
    if arn is None:
        raise ControlPlaneError("Step Functions takes the role no more")
    return arn


def _start(resources: Resources, arn: str, document: Any, **named: str) -> str:
    client = resources.client("stepfunctions")
    return str(
        client.start_execution(stateMachineArn=arn, input=json.dumps(document), **named)["executionArn"]
    )


def _described(resources: Resources, execution: str) -> dict[str, Any]:
    """Returns the execution; one that was just started may not show yet, one that succeeded has no output yet."""
    try:
        found = resources.client("stepfunctions").describe_execution(executionArn=execution)
    except ClientError as error:
        if error.response["Error"]["Code"] != "ExecutionDoesNotExist":
            raise
        return {"status": "RUNNING"}
    late = found["status"] == "SUCCEEDED" and "output" not in found
    return {**found, "status": "RUNNING"} if late else dict(found)


def _ended(resources: Resources, execution: str) -> dict[str, Any]:
    resources.seconds_until(
        "the execution", lambda: _described(resources, execution)["status"] != "RUNNING", at_most=900
    )
    return _described(resources, execution)


def _of_names_and_redrives(resources: Resources) -> dict[str, str]:
    states, pause = resources.client("stepfunctions"), _machine(resources, "pause", _WAITING)
    name = f"first-{resources.now():%H%M%S%f}"
    execution = _start(resources, pause, {"text": "a"}, name=name)
    resources.seconds_until("the wait", lambda: "Pause" in _entered(resources, execution))
    found = {
        "StartExecution: same name and input": same(
            execution, _start(resources, pause, {"text": "a"}, name=name)
        ),
        "StartExecution: same name, other input": answer_of(
            lambda: _start(resources, pause, {"text": "b"}, name=name)
        ),
    }
    states.stop_execution(executionArn=execution, error="Cancelled", cause="a rehearsal")
    stopped = _ended(resources, execution)
    found["StopExecution"] = f"{stopped['status']}, {stopped.get('error')}"
    states.redrive_execution(executionArn=execution)
    redriven = states.describe_execution(executionArn=execution)
    called = "same name" if redriven["name"] == name else str(redriven["name"])
    found["RedriveExecution"] = f"{redriven['status']}, {called}"
    ended = _ended(resources, execution)
    kept = json.loads(ended.get("output", "{}")).get("kept") == "a"
    return {
        **found,
        "the states of a redrive": " ".join(_entered(resources, execution)),
        "variables after a redrive": "kept" if kept else "lost",
        "StartExecution: same name, after its end": answer_of(
            lambda: _start(resources, pause, {"text": "a"}, name=name)
        ),
        "RedriveExecution of one that succeeded": answer_of(
            lambda: states.redrive_execution(executionArn=execution)
        ),
    }


def _entered(resources: Resources, execution: str) -> list[str]:
    history = resources.client("stepfunctions").get_execution_history(executionArn=execution)["events"]
    return [one["stateEnteredEventDetails"]["name"] for one in history if "stateEnteredEventDetails" in one]


def _order(resources: Resources) -> str:
    """Starts four, stops the second and then the first; all that run are then stopped."""
    states, pause = resources.client("stepfunctions"), _machine(resources, "order", _WAITING)
    began = {one: _start(resources, pause, {"text": one}) for one in "abcd"}
    for one in "ba":
        states.stop_execution(executionArn=began[one])
        _ended(resources, began[one])
    names = {arn: one for one, arn in began.items()}
    listed = states.list_executions(stateMachineArn=pause)["executions"]
    for one in "cd":
        states.stop_execution(executionArn=began[one])
    return " ".join(names[one["executionArn"]] for one in listed if one["executionArn"] in names)


def _of_expressions(resources: Resources) -> dict[str, str]:
    given = {"text": _AWKWARD, "document": _DOCUMENT, "none": None}
    ended = _ended(resources, _start(resources, _machine(resources, "values", _VALUES), given))
    values = json.loads(ended.get("output", "{}"))
    found = {}
    for index, (name, (_, expected)) in enumerate(_EXPRESSIONS.items()):
        value = values.get(str(index), ended["status"])
        found[name] = "as expected" if value == expected else json.dumps(value)
    undefined = _ended(resources, _start(resources, _machine(resources, "undefined", _UNDEFINED_STATE), {}))
    return {**found, "an undefined result": f"{undefined['status']}, {undefined.get('error')}"}


def _of_history(resources: Resources) -> dict[str, str]:
    """An execution of 122 events: a beginning, an end, and two for each of its 60 states."""
    states = resources.client("stepfunctions")
    execution = _start(resources, _machine(resources, "long", _LONG), {})
    _ended(resources, execution)
    page = states.get_execution_history(executionArn=execution)["events"]
    many = {"executionArn": execution, "maxResults": 1001}
    return {
        "a page of history": f"{len(page)} events",
        "a page of 1,001 events": answer_of(lambda: states.get_execution_history(**many)),
    }


TABLE: Mapping[str, str] = {
    "a transaction with a failed check": "None None ConditionalCheckFailed",
    "what it wrote": "nothing",
    "a transaction that names an item twice": "ValidationException",
    "an item past its time to live": "still read",
    "a query's order": "by the sort key",
}


def ask_dynamodb(resources: Resources) -> dict[str, str]:
    dynamodb, name = resources.client("dynamodb"), table(resources)
    past = str(int((resources.now() - timedelta(days=1)).timestamp()))

    def put(key: str, **more: Any) -> dict[str, Any]:
        return {"TableName": name, "Item": {"pk": {"S": "p"}, "sk": {"S": key}, **more}}

    for key in ("c", "a", "b"):
        dynamodb.put_item(**put(key, value={"S": "1"}, expires={"N": past}))
    check = {
        "TableName": name,
        "Key": {"pk": {"S": "p"}, "sk": {"S": "none"}},
        "ConditionExpression": "attribute_exists(pk)",
    }
    writes = [{"Put": put("a", value={"S": "2"})}, {"Put": put("new")}]
    refused = _reasons(
        lambda: dynamodb.transact_write_items(TransactItems=[*writes, {"ConditionCheck": check}])
    )
    twice = answer_of(lambda: dynamodb.transact_write_items(TransactItems=[writes[0], writes[0]]))
    items = dynamodb.query(
        TableName=name,
        KeyConditionExpression="pk = :pk",
        ExpressionAttributeValues={":pk": {"S": "p"}},
        ConsistentRead=True,
    )["Items"]
    keys, values = [one["sk"]["S"] for one in items], {one["value"]["S"] for one in items if "value" in one}
    return {
        "a transaction with a failed check": refused,
        "what it wrote": "nothing" if "new" not in keys and values <= {"1"} else "something",
        "a transaction that names an item twice": twice,
        "an item past its time to live": "still read" if "a" in keys else "gone",
        "a query's order": "by the sort key" if keys == sorted(keys) else " ".join(keys),
    }


def _reasons(write: Any) -> str:
    try:
        write()
    except ClientError as error:
        reasons = error.response.get("CancellationReasons", [])
        return " ".join(one["Code"] for one in reasons) or str(error.response["Error"]["Code"])
    return "taken"
