"""A deployed Peaker, as a person uses it: start a workflow, follow it, read what it recorded."""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from boto3.dynamodb.types import TypeDeserializer
from botocore.config import Config
from botocore.exceptions import ClientError
from peaker.adapters.aws_clients import config_for
from peaker.adapters.dynamodb.items import LedgerTable
from peaker.adapters.dynamodb.ledger import DynamoDbLedger
from peaker.domain.decoding import parsed_json, understood
from peaker.domain.runs.failure import Failure

from peaker_cli.aws_failures import EXPECTED
from peaker_cli.aws_session import AwsClock, session_of
from peaker_cli.deployment import DeploymentOptions, is_local_cloud
from peaker_cli.failures import ControlPlaneError
from peaker_contract import names
from peaker_contract.errors import ResourceNotFound

# In what StartExecution answered, which Step Functions keeps as text.
_EXECUTION_ARN = re.compile(r'"ExecutionArn":\s*"([^"]+)"')
_LAST = {"ExecutionSucceeded", "ExecutionFailed", "ExecutionAborted", "ExecutionTimedOut"}
# Of 25,000 events at most; a page has 1,000 at most (Step Functions quotas; API reference, GetExecutionHistory).
_FIRST_PAGE, _LATER_PAGE = 1000, 100


@dataclass
class ExecutionHistory:
    """`states` are those that it has entered: (when, name). `children` are the executions that it waits for."""

    arn: str
    states: list[tuple[datetime, str]] = field(default_factory=list)
    children: list[ExecutionHistory] = field(default_factory=list)
    newest_event: int = 0
    ended: bool = False

    def look(self, stepfunctions: Any) -> Iterator[str]:
        """Yields what it has entered since the last look, then what its children have.

        Raises botocore's errors; then the next look finds what this one has not.
        """
        for event in [] if self.ended else self._new_events(stepfunctions):
            self.newest_event = event["id"]
            self.ended = event["type"] in _LAST
            submitted = event.get("taskSubmittedEventDetails", {})
            if "startExecution.sync" in str(submitted.get("resource", "")):
                found = _EXECUTION_ARN.findall(str(submitted.get("output", "")))
                self.children += [ExecutionHistory(arn) for arn in found]
            if details := event.get("stateEnteredEventDetails"):
                self.states.append((event["timestamp"].astimezone(UTC), str(details["name"])))
                yield str(details["name"])
        for child in self.children:
            yield from child.look(stepfunctions)

    def _new_events(self, stepfunctions: Any) -> list[Any]:
        pages = stepfunctions.get_paginator("get_execution_history").paginate(
            executionArn=self.arn,
            reverseOrder=True,
            maxResults=_LATER_PAGE if self.newest_event else _FIRST_PAGE,
        )
        found: list[Any] = []
        for page in pages:
            for event in page["events"]:
                if event["id"] <= self.newest_event:
                    return found[::-1]
                found.append(event)
        return found[::-1]


_ENDED = {"SUCCEEDED", "FAILED", "TIMED_OUT", "ABORTED"}
# DescribeExecution is eventually consistent: a start may not show yet, an end may show before its output.
_SHOWN_WITHIN_SECONDS = 30
_deserialize = TypeDeserializer().deserialize


@dataclass(frozen=True)
class Execution:
    """A Step Functions execution. `failure` is (error, cause) of one that did not succeed.

    Without `is_whole` it has succeeded, and AWS does not show its output yet.
    """

    arn: str
    status: str
    output: Any
    failure: tuple[str, str] | None
    is_whole: bool = True

    @property
    def ended(self) -> bool:
        return self.status in _ENDED

    @property
    def is_refused(self) -> bool:
        """A rule said no and nothing was changed; the output has `error` and `reason`."""
        return isinstance(self.output, dict) and self.output.get("outcome") == "refused"

    @property
    def is_only_planned(self) -> bool:
        """It did nothing: in mode plan, or where its functions knew the cluster in mode observe."""
        return isinstance(self.output, dict) and "outcome" not in self.output

    @property
    def failure_text(self) -> str:
        """`UnknownCluster: ...`: the error and its message, out of what the workflow wrapped around it."""
        error, cause = self.failure or ("", "")
        step, separator, rest = cause.partition(": ")
        inner = Failure(failed_step=step, error=error, cause=rest if separator else cause).innermost()
        return f"{inner.error}: {inner.cause}" if inner.cause else inner.error


@dataclass(frozen=True)
class ControlPlane:
    """One environment in one region. `endpoint_url` is set for a local cloud and None for AWS."""

    environment: str
    region: str
    endpoint_url: str | None = None
    profile: str | None = None
    clock: AwsClock = field(default_factory=AwsClock, compare=False)

    @classmethod
    def of(cls, deployment: DeploymentOptions, in_environment: bool = True) -> ControlPlane:
        """The control plane that a command's options mean; what is unclear ends the command with status 2.

        Without `in_environment` only the account and the region are meant, and the environment may be "".
        """
        found = deployment.resolve(in_environment)
        return cls(found.environment, found.region, found.endpoint_url, found.profile)

    def client(self, service: str) -> Any:
        """A boto3 client; on a local cloud its administrator's, whose key is no secret, unless a profile is named."""
        local: dict[str, str] = {}
        if is_local_cloud(self.endpoint_url) and not self.profile:
            local = {"aws_access_key_id": "local", "aws_secret_access_key": "local"}
        made = session_of(self.profile, self.region).client(  # type: ignore[call-overload]
            service,
            region_name=self.region,
            endpoint_url=self.endpoint_url,
            config=config_for(
                service,
                Config(
                    connect_timeout=5, read_timeout=60, retries={"mode": "standard", "total_max_attempts": 3}
                ),
            ),
            **local,
        )
        return self.clock.listen(made)

    def caller(self) -> str | None:
        """The IAM principal that calls; None where STS does not say."""
        try:
            return str(self.client("sts").get_caller_identity()["Arn"])
        except EXPECTED:
            return None

    def line(self, *words: str) -> str:
        """A line of `peaker` to type next; it names the environment, which another shell need not have set."""
        return " ".join(("peaker", *words, "--env", self.environment))

    @property
    def ledger_table(self) -> str:
        return names.ledger_table(self.environment)

    def not_deployed(self, missing: str) -> str:
        return (
            f"{missing} of environment {self.environment} in {self.region}. Deploy it (npx cdk deploy "
            f"-c env={self.environment} '**'), or give --env, --region and --profile"
        )

    def state_machine_arn(self, name: str) -> str:
        wanted = names.named(self.environment, name)
        pages = self.client("stepfunctions").get_paginator("list_state_machines").paginate()
        arns = {m["name"]: str(m["stateMachineArn"]) for page in pages for m in page["stateMachines"]}
        if wanted not in arns:
            raise ControlPlaneError(
                self.not_deployed(
                    f"no state machine {wanted} (there are: {', '.join(sorted(arns)) or 'none'})"
                )
            )
        return arns[wanted]

    def start(self, workflow: str, request: Mapping[str, Any], name: str | None = None) -> str:
        """Start a workflow as the console does; returns the execution's ARN.

        While an execution of that name and request runs, another start of it is the same one.
        """
        answer = self.client("stepfunctions").start_execution(
            stateMachineArn=self.state_machine_arn(workflow),
            name=name or f"manual-{uuid.uuid4()}",
            input=json.dumps(dict(request)),
        )
        return str(answer["executionArn"])

    def describe(self, execution_arn: str) -> Execution:
        return _described(self.client("stepfunctions"), execution_arn)

    def wait(
        self,
        execution_arn: str,
        limit_seconds: float,
        progress: Callable[[str], None] | None = None,
        poll_seconds: float = 1.0,
        each_look: Callable[[], None] = lambda: None,
    ) -> Execution:
        """Follow an execution to its end, naming each state that it enters, and those of the members of its batch.

        Raises ControlPlaneError past the limit, and where AWS shows neither it nor its output for half a minute.
        """
        began = seen_running = time.monotonic()
        history = ExecutionHistory(execution_arn)
        stepfunctions = self.client("stepfunctions")
        while True:
            each_look()
            execution = _look(stepfunctions, history, progress)
            if execution is not None and execution.ended and execution.is_whole:
                return execution
            now = time.monotonic()
            if execution is not None and not execution.ended:
                seen_running = now
            if now - seen_running > _SHOWN_WITHIN_SECONDS:
                raise ControlPlaneError(_not_shown(execution_arn, execution))
            if now - began > limit_seconds:
                raise ControlPlaneError(f"{execution_arn} still runs after {limit_seconds:.0f} s")
            time.sleep(poll_seconds)

    def executions(self, workflow: str) -> list[tuple[str, str]]:
        """(ARN, status) of a workflow's executions, by when they ended, or began where they run: the latest first."""
        pages = (
            self.client("stepfunctions")
            .get_paginator("list_executions")
            .paginate(stateMachineArn=self.state_machine_arn(workflow))
        )
        return [(str(e["executionArn"]), str(e["status"])) for page in pages for e in page["executions"]]

    def runs(self, cluster: str, limit: int) -> list[dict[str, Any]]:
        """The ledger's index of a cluster's runs, newest first. Raises ControlPlaneError when there is no ledger."""
        pages = (
            self.client("dynamodb")
            .get_paginator("query")
            .paginate(
                TableName=self.ledger_table,
                KeyConditionExpression="pk = :pk AND begins_with(sk, :sk)",
                ExpressionAttributeValues={":pk": {"S": f"cluster#{cluster}"}, ":sk": {"S": "run#"}},
                ScanIndexForward=False,
                ConsistentRead=True,
                PaginationConfig={"MaxItems": limit, "PageSize": limit},
            )
        )
        with self.reading_ledger():
            return [
                {key: _deserialize(value) for key, value in item.items()}
                for page in pages
                for item in page["Items"]
            ]

    def find_receipt(self, run_id: str) -> dict[str, Any] | None:
        """The receipt of a run, or None. Raises ControlPlaneError when there is no ledger."""
        with self.reading_ledger():
            return DynamoDbLedger(LedgerTable(self.client("dynamodb"), self.ledger_table)).receipt(run_id)

    @contextmanager
    def reading_ledger(self) -> Iterator[None]:
        """Reads the ledger; a missing table means that nothing is deployed."""
        try:
            yield
        except ResourceNotFound as error:
            raise ControlPlaneError(self.not_deployed(f"no ledger {self.ledger_table}")) from error
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") != "ResourceNotFoundException":
                raise
            raise ControlPlaneError(self.not_deployed(f"no ledger {self.ledger_table}")) from error


def _look(
    stepfunctions: Any, history: ExecutionHistory, progress: Callable[[str], None] | None
) -> Execution | None:
    """The execution now, its new states told; None while AWS does not show it, or one of its children, yet."""
    try:
        execution = _described(stepfunctions, history.arn)
        if progress is not None:
            for state in history.look(stepfunctions):
                progress(state)
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") != "ExecutionDoesNotExist":
            raise
        return None
    return execution


def _described(stepfunctions: Any, execution_arn: str) -> Execution:
    found = stepfunctions.describe_execution(executionArn=execution_arn)
    status, failure = str(found["status"]), None
    if status in _ENDED - {"SUCCEEDED"}:
        failure = (str(found.get("error", status)), str(found.get("cause", "")))
    with understood(ControlPlaneError, f"the output of {execution_arn}"):
        output = parsed_json(found["output"]) if found.get("output") else None
    return Execution(
        execution_arn, status, output, failure, is_whole=status != "SUCCEEDED" or bool(found.get("output"))
    )


def _not_shown(execution_arn: str, execution: Execution | None) -> str:
    what = (
        f"Step Functions knows no {execution_arn}"
        if execution is None
        else f"{execution_arn} has succeeded, but Step Functions does not show its output"
    )
    return f"{what}, half a minute after it should; try again"
