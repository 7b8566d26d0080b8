"""RedriveExecution: an execution goes on, under its own name, at the state that it did not end well in.

Step Functions Developer Guide, "Restarting state machine executions with redrive". Here that is a state of the
machine itself: of a Map or a Parallel AWS runs only what had failed in it again, which is refused here.
"""

from __future__ import annotations

import json
from threading import Thread
from typing import TYPE_CHECKING, Any

from localcloud.extensions.stepfunctions.executions import announce

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud

_UNSUCCESSFUL = frozenset({"FAILED", "ABORTED", "TIMED_OUT"})
_REDRIVABLE_DAYS = 14
_WITH_STATES_OF_THEIR_OWN = frozenset({"Map", "Parallel"})


def install(cloud: OpenCloud) -> None:
    """Moto has no such action."""
    from moto.core.responses import ActionResult
    from moto.stepfunctions.parser.backend.execution import BaseExecutionWorkerCommunication
    from moto.stepfunctions.responses import StepFunctionResponse

    ended: Any = BaseExecutionWorkerCommunication.terminated

    def terminated(self: Any) -> None:
        if self.execution.exec_worker._execution_communication is self:
            ended(self)  # of an earlier drive the worker has only now come to its end

    def redrive_execution(self: Any) -> Any:
        execution = self.stepfunction_backend.describe_execution(self._get_param("executionArn"))
        state = _require_redrivable(execution, cloud)
        _go_on(execution, state)
        execution.redrive_date = cloud.clock.now()
        announce(cloud, execution, ended=False)
        return ActionResult({"redriveDate": execution.redrive_date})

    cloud.patch(BaseExecutionWorkerCommunication, "terminated", terminated)
    cloud.add(StepFunctionResponse, "redrive_execution", redrive_execution)


def _require_redrivable(execution: Any, cloud: OpenCloud) -> str:
    """The state at which it goes on. Raises ExecutionNotRedrivable."""
    if execution.status not in _UNSUCCESSFUL:
        raise _refused(f"Execution is {execution.status} and cannot be redriven")
    if (cloud.clock.now() - execution.stop_date).days >= _REDRIVABLE_DAYS:
        raise _refused("Execution has exceeded the redrivable period")
    name = str(execution.exec_worker.env.states.get_context()["State"]["Name"])
    kind = json.loads(execution.state_machine.definition)["States"][name]["Type"]
    if kind in _WITH_STATES_OF_THEIR_OWN:
        raise _refused(f"{name} is a {kind}, of which the local cloud cannot rerun a part")
    return name


def _go_on(execution: Any, state: str) -> None:
    """With its variables, the input of the state, and its history, in which the redrive is an event."""
    from moto.stepfunctions.parser.api import ExecutionStatus, HistoryEventType

    before = execution.exec_worker.env
    worker = execution._get_start_execution_worker()
    program = worker._get_evaluation_entrypoint()
    program.start_at.start_at_name = state
    worker.env = worker._get_evaluation_environment()
    worker.env.variable_store._inner_scope.update(before.variable_store._inner_scope)
    worker.env.states.reset(before.states.get_input())
    worker.env.event_manager = before.event_manager
    worker.env.event_manager.add_event(
        context=worker.env.event_history_context,
        event_type=HistoryEventType.ExecutionRedriven,
    )

    def run() -> None:
        program.eval(worker.env)
        worker._execution_communication.terminated()

    execution.stop_date = execution.error = execution.cause = None
    execution.exec_worker, execution.exec_status = worker, ExecutionStatus.RUNNING
    Thread(target=run, daemon=True).start()


def _refused(message: str) -> Exception:
    from moto.core.exceptions import AWSError

    return AWSError(message, "ExecutionNotRedrivable", 400)
