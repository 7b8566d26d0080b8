"""Task tokens as Step Functions has them: one for each try of a state, one answer for each token, and no late answer.

Moto gives all tries of a state one token, takes an answer twice and after the end, and drops the cause of a failure.
The wait for an answer lasts cloud seconds: it is a person's or another system's time, not that of work done here.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud


@dataclass
class _Token:
    """`endpoint` is moto's, which a state waits at; `env` that of the state. `closed`: answered, or its try is over."""

    endpoint: Any
    env: Any
    closed: bool = False


def install_task_tokens(cloud: OpenCloud) -> None:
    from moto.stepfunctions.parser.asl.component.state.exec.execute_state import ExecutionState
    from moto.stepfunctions.parser.asl.component.state.exec.state_task.service.resource import (
        ResourceCondition,
    )
    from moto.stepfunctions.parser.asl.component.state.exec.state_task.service.state_task_service_callback import (
        StateTaskServiceCallback,
    )
    from moto.stepfunctions.parser.asl.eval.callback.callback import CallbackOutcomeTimedOut

    tokens = _Tokens()
    original_evaluate: Any = ExecutionState._evaluate_with_timeout
    original_wait: Any = StateTaskServiceCallback._eval_wait_for_task_token

    def waits_for_token(state: Any) -> bool:
        """Also a .sync state has a token at moto, which nobody knows."""
        return isinstance(state, StateTaskServiceCallback) and state.resource.condition == (
            ResourceCondition.WaitForTaskToken
        )

    def evaluate(self: Any, env: Any) -> None:
        if not waits_for_token(self):
            original_evaluate(self, env)
            return
        token = env.states.context_object.update_task_token()
        tokens.open(token, env.callback_pool_manager.add(token), env)
        try:
            original_evaluate(self, env)
        finally:
            tokens.close(token)

    def wait(
        self: Any, env: Any, timeout_seconds: int, callback_endpoint: Any, heartbeat_endpoint: Any
    ) -> Any:
        if heartbeat_endpoint is not None or not waits_for_token(self):
            return original_wait(self, env, timeout_seconds, callback_endpoint, heartbeat_endpoint)

        def over() -> bool:
            return (
                callback_endpoint.get_outcome() is not None or not env.is_running() or cloud.closing.is_set()
            )

        cloud.clock.sleep(timeout_seconds, stop=over)
        tokens.close(callback_endpoint.callback_id)
        return callback_endpoint.get_outcome() or CallbackOutcomeTimedOut(callback_endpoint.callback_id)

    cloud.patch(ExecutionState, "_evaluate_with_timeout", evaluate)
    cloud.patch(StateTaskServiceCallback, "_eval_wait_for_task_token", wait)
    _install_answers(cloud, tokens)


def _install_answers(cloud: OpenCloud, tokens: _Tokens) -> None:
    from moto.core.responses import EmptyResult
    from moto.stepfunctions.parser.asl.eval.callback.callback import (
        CallbackOutcomeFailure,
        CallbackOutcomeSuccess,
    )
    from moto.stepfunctions.responses import StepFunctionResponse

    def send_task_success(self: Any) -> Any:
        token, output = self._get_param("taskToken"), self._get_param("output")
        try:
            json.loads(output)
        except (TypeError, ValueError) as error:
            raise _refused("InvalidOutput", f"Invalid Output: '{error}'") from error
        tokens.answer(token, CallbackOutcomeSuccess(callback_id=token, output=output))
        cloud.clock.wake()
        return EmptyResult()

    def send_task_failure(self: Any) -> Any:
        token = self._get_param("taskToken")
        error, cause = self._get_param("error") or "", self._get_param("cause") or ""
        tokens.answer(token, CallbackOutcomeFailure(callback_id=token, error=error, cause=cause))
        cloud.clock.wake()
        return EmptyResult()

    cloud.patch(StepFunctionResponse, "send_task_success", send_task_success)
    cloud.patch(StepFunctionResponse, "send_task_failure", send_task_failure)


def _refused(code: str, message: str) -> Exception:
    from moto.core.exceptions import AWSError

    return AWSError(message, code, 400)


class _Tokens:
    """All tokens of the process, those whose wait is over too."""

    def __init__(self) -> None:
        self._known: dict[str, _Token] = {}
        self._lock = threading.Lock()

    def open(self, token: str, endpoint: Any, env: Any) -> None:
        with self._lock:
            self._known[token] = _Token(endpoint, env)

    def close(self, token: str) -> None:
        with self._lock:
            self._known[token].closed = True

    def answer(self, token: str, outcome: Any) -> None:
        """Raises InvalidToken for what is none, TaskTimedOut for one that was answered or whose task is over."""
        with self._lock:
            found = self._known.get(token)
            if found is None:
                raise _refused("InvalidToken", "Invalid Token: 'Invalid token'")
            if found.closed or not found.env.is_running():
                raise _refused("TaskTimedOut", "Task Timed Out: 'Provided task does not exist anymore'")
            found.closed = True
            found.endpoint.notify(outcome=outcome)
