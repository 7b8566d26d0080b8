"""Step Functions on moto's state machine interpreter, with what keeps it from behaving as AWS put right.

Scaled by the cloud clock: Wait states and Retry intervals. Real seconds: TimeoutSeconds of
machines and of other tasks, because they guard work that takes real time here.
"""

from __future__ import annotations

import json
import pickle
import sys
import threading
import uuid
import weakref
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from botocore.exceptions import ClientError

from localcloud.extensions.stepfunctions import failures, jsonata
from localcloud.extensions.stepfunctions.integrations import install_integrations
from localcloud.iam.identities import CannotAssume

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud

SESSION_NAME = "state-machine"
SYNC_POLL_SECONDS = 0.1
# Step Functions guide, "Using Map state in Inline mode": "up to 40 concurrent iterations".
INLINE_ITERATIONS_AT_ONCE = 40
# Step Functions guide, "Automating Step Functions event delivery with EventBridge": 248 KiB.
LONGEST_TEXTS_OF_EVENT = 248 * 1024


def install(cloud: OpenCloud) -> None:
    """Put the interpreter to work on this cloud: its clock, its endpoint, its events."""
    from moto.core.config import default_user_config

    jsonata.install(cloud)
    before = dict(default_user_config["stepfunctions"])
    default_user_config["stepfunctions"] = {"execute_state_machine": True}
    cloud.on_close(lambda: default_user_config["stepfunctions"].update(before))  # type: ignore[typeddict-item]
    _install_clients(cloud)
    _install_parser(cloud)
    _install_waits(cloud)
    _install_map(cloud)
    _install_nested(cloud)
    failures.install(cloud)
    install_integrations(cloud)
    _install_executions(cloud)
    cloud.on_close(lambda: _abort_running(cloud))


def _install_clients(cloud: OpenCloud) -> None:
    """Tasks call this cloud's endpoint as their roles; what they give wrong the service refuses, not the client."""
    import moto.stepfunctions.parser.asl.utils.boto_client as boto_client
    import moto.stepfunctions.parser.models  # noqa: F401  loads the interpreter's modules, to be patched

    def client_for(region: str, service: str, state_credentials: Any = None) -> Any:
        """As the role of the state's Credentials, else of its machine."""
        if service in cloud.task_clients:
            return cloud.task_clients[service]
        try:
            return cloud.client_as(
                state_credentials.role_arn, SESSION_NAME, "states.amazonaws.com", service, validates=False
            )
        except CannotAssume as error:
            raise ClientError(
                {"Error": {"Code": "AccessDeniedException", "Message": str(error)}}, "AssumeRole"
            ) from error

    original = boto_client.boto_client_for
    for name, module in list(sys.modules.items()):
        if name.startswith("moto.stepfunctions.") and getattr(module, "boto_client_for", None) is original:
            cloud.patch(module, "boto_client_for", client_for)


# By definition: the program, and the tree that only its validation reads. For all clouds of this process.
_PARSED: dict[str, tuple[bytes, Any]] = {}
# Executions that have shown their output, or whose end is told to the state that waits for it.
_OUTPUT_SHOWN: weakref.WeakSet[Any] = weakref.WeakSet()


def _install_parser(cloud: OpenCloud) -> None:
    """Parse each definition once: the grammar takes half a second for a large one, at every execution."""
    from moto.stepfunctions.parser.asl.parse.asl_parser import AmazonStateLanguageParser

    original = AmazonStateLanguageParser.parse

    def parse(definition: str) -> tuple[Any, Any]:
        if definition not in _PARSED:
            program, tree = original(definition)
            _PARSED[definition] = (pickle.dumps(program), tree)
        pristine, tree = _PARSED[definition]
        return pickle.loads(pristine), tree  # a copy each, because programs keep state while they run

    cloud.patch(AmazonStateLanguageParser, "parse", staticmethod(parse))


def _install_waits(cloud: OpenCloud) -> None:
    from moto.stepfunctions.parser.asl.component.common.retry.max_attempts_decl import MaxAttemptsOutcome
    from moto.stepfunctions.parser.asl.component.common.retry.retrier_decl import RetrierDecl
    from moto.stepfunctions.parser.asl.component.common.retry.retrier_outcome import RetrierOutcome
    from moto.stepfunctions.parser.asl.component.state.exec.state_task.service import (
        state_task_service_callback,
    )
    from moto.stepfunctions.parser.asl.component.state.wait.wait_function.timestamp import Timestamp
    from moto.stepfunctions.parser.asl.component.state.wait.wait_function.wait_function import WaitFunction

    def pause(env: Any, cloud_seconds: float) -> None:
        cloud.clock.sleep(cloud_seconds, stop=lambda: not env.is_running() or cloud.closing.is_set())

    def wait_interval(self: Any, env: Any, wait_seconds: float) -> None:
        pause(env, wait_seconds)

    def wait_for_timestamp(self: Any, env: Any) -> float:
        self.string.eval(env=env)
        text = env.stack.pop()
        if self._from_timestamp_string(timestamp=text) is None:
            from moto.stepfunctions.parser.asl.component.common.error_name.failure_event import (
                FailureEventException,
            )

            raise FailureEventException(self._create_failure_event(env, text))
        return datetime.fromisoformat(text).timestamp() - cloud.clock.epoch()

    def retry(self: Any, env: Any) -> None:
        self.error_equals.eval(env)
        if not env.stack.pop():
            env.stack.append(RetrierOutcome.Skipped)
            return
        self.max_attempts.eval(env=env)
        if env.stack.pop() == MaxAttemptsOutcome.EXHAUSTED:
            env.stack.append(RetrierOutcome.Failed)
            return
        for part in (self.interval_seconds, self.backoff_rate, self.max_delay_seconds, self.jitter_strategy):
            part.eval(env=env)
        pause(env, env.stack.pop())
        env.stack.append(RetrierOutcome.Executed)

    cloud.patch(WaitFunction, "_wait_interval", wait_interval)
    cloud.patch(Timestamp, "_get_wait_seconds", wait_for_timestamp)
    cloud.patch(RetrierDecl, "_eval_body", retry)
    cloud.patch(state_task_service_callback, "_DELAY_SECONDS_SYNC_CONDITION_CHECK", SYNC_POLL_SECONDS)


def _install_map(cloud: OpenCloud) -> None:
    from moto.stepfunctions.parser.asl.component.state.exec.state_map.iteration.inline_iteration_component import (
        InlineIterationComponent,
    )

    original = InlineIterationComponent._eval_body

    def iterate(self: Any, env: Any) -> None:
        asked = env.stack[-1]
        asked.max_concurrency = min(
            asked.max_concurrency or INLINE_ITERATIONS_AT_ONCE, INLINE_ITERATIONS_AT_ONCE
        )
        original(self, env)

    cloud.patch(InlineIterationComponent, "_eval_body", iterate)


def _install_nested(cloud: OpenCloud) -> None:
    """Ask the API for a nested execution at first, for the permission, and at its end; in between look at it here.

    A call ten times a second for each is a tenth of what this cloud takes of a processor.
    """
    from moto.stepfunctions.parser.asl.component.state.exec.state_task.service.state_task_service_sfn import (
        StateTaskServiceSfn,
    )

    def waiting(build: Callable[..., Any]) -> Callable[..., Any]:
        def resolver_of(self: Any, env: Any, **given: Any) -> Callable[[], Any]:
            arn = env.stack[-1]["ExecutionArn"]
            ask = build(self, env, **given)
            nested = next((one for one in executions() if one.exec_arn == arn), None)
            asked = False
            if nested is not None:
                _OUTPUT_SHOWN.add(nested)

            def look() -> Any:
                nonlocal asked
                if asked and nested is not None and nested.status == "RUNNING":
                    return None
                asked = True
                return ask()

            return look

        return resolver_of

    for name in ("_build_sync_resolver", "_build_sync2_resolver"):
        cloud.patch(StateTaskServiceSfn, name, waiting(getattr(StateTaskServiceSfn, name)))


def _install_executions(cloud: OpenCloud) -> None:
    from moto.core.responses import ActionResult
    from moto.stepfunctions.parser.api import ExecutionStatus, InvalidExecutionInput
    from moto.stepfunctions.parser.backend.execution import BaseExecutionWorkerCommunication, Execution
    from moto.stepfunctions.parser.models import StepFunctionsParserBackend
    from moto.stepfunctions.responses import StepFunctionResponse

    starting = threading.Lock()
    original_start = StepFunctionsParserBackend.start_execution
    original_reflect: Any = BaseExecutionWorkerCommunication._reflect_execution_status
    original_stop: Any = Execution.stop
    original_describe = StepFunctionResponse.describe_execution

    def start_execution(
        self: Any,
        state_machine_arn: str,
        name: str | None = None,
        execution_input: str | None = None,
        trace_header: str | None = None,
    ) -> Any:
        if name:
            self._validate_name(name)
        text = execution_input or "{}"
        try:
            json.loads(text)
        except ValueError as error:
            raise InvalidExecutionInput(f"Invalid State Machine Execution Input: '{error}'") from error
        with starting:  # or two callers with one name both start
            known = len(self.describe_state_machine(state_machine_arn).executions)
            execution = original_start(
                self, state_machine_arn, name or str(uuid.uuid4()), text, trace_header or ""
            )
            is_new = len(self.describe_state_machine(state_machine_arn).executions) > known
        if is_new:
            # It may have ended by now, which has an event of its own.
            announce(cloud, execution, ended=False)
        return execution

    def terminated(self: Any) -> None:
        if self.execution.exec_status != ExecutionStatus.RUNNING:
            return  # stopped before; the worker has only now come to its end
        original_reflect(self)
        announce(cloud, self.execution)

    def stop(self: Any, stop_date: Any, error: str | None, cause: str | None) -> None:
        if self.exec_status != ExecutionStatus.RUNNING:
            return
        self.error, self.cause = error or None, cause or None
        self.exec_status = ExecutionStatus.ABORTED
        self.stop_date = cloud.clock.now()
        if self.exec_worker is not None and self.exec_worker.env is not None:
            original_stop(self, stop_date=stop_date, error=error, cause=cause)
        cloud.clock.wake()
        announce(cloud, self)
        for child in _children(self):
            # AWS's pages give a child that is stopped with its parent no words; which ones it gets was not measured.
            child.stop(stop_date=stop_date, error=None, cause=None)

    def stop_execution(self: Any) -> Any:
        backend = self.stepfunction_backend
        execution = backend.describe_execution(self._get_param("executionArn"))
        execution.stop(cloud.clock.now(), self._get_param("error"), self._get_param("cause"))
        return ActionResult({"stopDate": execution.stop_date})

    def describe_execution(self: Any) -> Any:
        answer = original_describe(self)
        execution = self.stepfunction_backend.describe_execution(self._get_param("executionArn"))
        description = cast(dict[str, Any], answer.result)
        if execution.stop_date is not None:
            description["stopDate"] = execution.stop_date
        if execution.status == "SUCCEEDED":
            description["output"] = json.dumps(execution.output)  # moto leaves the quotes off a text
            if execution not in _OUTPUT_SHOWN:
                # The answer is eventually consistent, and the status may come before the output.
                _OUTPUT_SHOWN.add(execution)
                del description["output"]
        return ActionResult(description)

    cloud.patch(StepFunctionsParserBackend, "start_execution", start_execution)
    cloud.patch(BaseExecutionWorkerCommunication, "terminated", terminated)
    cloud.patch(Execution, "stop", stop)
    cloud.patch(StepFunctionResponse, "stop_execution", stop_execution)
    cloud.patch(StepFunctionResponse, "describe_execution", describe_execution)


def _children(execution: Any) -> list[Any]:
    """Running executions that `execution` started with .sync or .sync:2; AWS stops them with it."""
    started = []
    for event in execution.to_history_output()["events"] if execution.exec_worker is not None else []:
        details = event.get("taskSubmittedEventDetails") or {}
        if "startExecution.sync" in str(details.get("resource", "")):
            started.append(json.loads(details["output"]).get("ExecutionArn"))
    return [other for other in running() if other.exec_arn in started]


def executions() -> list[Any]:
    """Every execution that the process knows."""
    from moto.stepfunctions.parser.models import stepfunctions_parser_backends

    found = []
    for account in list(stepfunctions_parser_backends.values()):
        for backend in list(account.values()):
            for machine in list(backend.state_machines):
                found.extend(machine.executions)
    return found


def running() -> list[Any]:
    """The executions that have not ended."""
    return [execution for execution in executions() if execution.status == "RUNNING"]


def _abort_running(cloud: OpenCloud) -> None:
    for execution in running():
        execution.stop(cloud.clock.now(), "LocalCloudClosed", "The local cloud was closed.")


def announce(cloud: OpenCloud, execution: Any, *, ended: bool = True) -> None:
    """The `Step Functions Execution Status Change` event, shaped as AWS shapes it."""
    if cloud.closing.is_set():
        return
    status = execution.status if ended else "RUNNING"
    given = execution.execution_input
    answer = json.dumps(execution.output) if status == "SUCCEEDED" else None
    input_fits, output_fits = _fits(given, answer), _fits(answer)
    detail = {
        "executionArn": execution.exec_arn,
        "stateMachineArn": execution.state_machine_arn,
        "name": execution.name,
        "status": status,
        "startDate": _milliseconds(execution.start_date),
        "stopDate": _milliseconds(execution.stop_date) if ended else None,
        "input": given if input_fits else None,
        "output": answer if output_fits else None,
        "inputDetails": {"included": input_fits},
        "outputDetails": None if answer is None else {"included": output_fits},
        "error": execution.error if ended else None,
        "cause": execution.cause if ended else None,
    }
    cloud.put_event("aws.states", "Step Functions Execution Status Change", detail, [execution.exec_arn])


def _fits(*texts: str | None) -> bool:
    """An event has room for so much of input and output together, escaped; else it comes without the input."""
    return sum(len(json.dumps(text)) for text in texts if text is not None) <= LONGEST_TEXTS_OF_EVENT


def _milliseconds(moment: datetime | None) -> int | None:
    return None if moment is None else int(moment.timestamp() * 1000)
