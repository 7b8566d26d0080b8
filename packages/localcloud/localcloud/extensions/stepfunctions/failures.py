"""What a state fails with: any name of an error, a function's own text as the cause, an Output that cannot be had.

moto lets no Fail state and no branch hand on an error of the States Language, writes a function's answer anew, and
looks for no Catch when an Output cannot be evaluated.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud

_GIVEN = "output-given"


def install(cloud: OpenCloud) -> None:
    _install_names(cloud)
    _install_causes(cloud)
    _install_outputs(cloud)


def _install_names(cloud: OpenCloud) -> None:
    """Fail's Error may be any text, such as that of a timeout which was caught."""
    from moto.stepfunctions.parser.asl.component.common.error_name.custom_error_name import CustomErrorName
    from moto.stepfunctions.parser.asl.component.common.error_name.error_name import ErrorName
    from moto.stepfunctions.parser.asl.component.common.error_name.failure_event import FailureEventException
    from moto.stepfunctions.parser.asl.component.state.exec.state_map.iteration import iteration_worker
    from moto.stepfunctions.parser.asl.component.state.exec.state_parallel import branches_decl
    from moto.stepfunctions.parser.asl.component.state.fail import state_fail

    class AnyErrorName(CustomErrorName):
        def __init__(self, error_name: str | None) -> None:
            ErrorName.__init__(self, error_name)

    told = FailureEventException.get_execution_failed_event_details

    def as_given(self: Any) -> Any:
        """The text of a Fail state stands alone; moto puts the state's name before that of some errors."""
        given = self.extract_error_cause_pair()
        if given is None or not isinstance(self.failure_event.error_name, AnyErrorName):
            return told(self)
        return {name: text for name, text in zip(("error", "cause"), given, strict=True) if text}

    cloud.patch(FailureEventException, "get_execution_failed_event_details", as_given)
    for module in (iteration_worker, branches_decl, state_fail):
        cloud.patch(module, "CustomErrorName", AnyErrorName)


def _install_causes(cloud: OpenCloud) -> None:
    """The cause is the payload as the function's runtime wrote it."""
    from moto.stepfunctions.parser.asl.component.state.exec.state_task import lambda_eval_utils as utils

    def invoke(parameters: dict[str, Any], region: str, state_credentials: Any) -> Any:
        client_for: Any = vars(utils)["boto_client_for"]
        client = client_for(service="lambda", region=region, state_credentials=state_credentials)
        answer = client.invoke(**parameters)
        text = answer["Payload"].read().decode()
        if "FunctionError" in answer:
            raise utils.LambdaFunctionErrorException(answer["FunctionError"], text)
        try:
            answer["Payload"] = json.loads(text)
        except ValueError:
            answer["Payload"] = text
        return answer

    cloud.patch(utils, "_invoke_lambda_function", invoke)


def _install_outputs(cloud: OpenCloud) -> None:
    """Retry and Catch see States.QueryEvaluationError of an Output too."""
    from moto.stepfunctions.parser.asl.component.state.exec.execute_state import ExecutionState

    evaluate, give = ExecutionState._evaluate_with_timeout, ExecutionState._eval_state_output

    def with_output(self: Any, env: Any) -> None:
        evaluate(self, env)
        if self.output:
            self.output.eval(env=env)
            env.heap[_GIVEN] = True

    def once(self: Any, env: Any) -> None:
        if not env.heap.pop(_GIVEN, False):
            give(self, env)

    cloud.patch(ExecutionState, "_evaluate_with_timeout", with_output)
    cloud.patch(ExecutionState, "_eval_state_output", once)
