"""What workflows call: botocore's names for AWS SDK integrations, and the errors as Step Functions names them."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from botocore import xform_name
from botocore.exceptions import ClientError, UnknownServiceError
from botocore.model import ServiceModel

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud


# Of StartExecution the guide names the first; an error that its model does not have, such as a throttled call's, comes
# under the last name. Moto adds "Exception" to any code.
LIMIT_OF_EXECUTIONS, NOT_MODELLED = (
    "StepFunctions.ExecutionLimitExceeded",
    "StepFunctions.AWSStepFunctionsException",
)
# What no Catch and no Retry sees, also where it says States.ALL (Step Functions guide, "Error names").
PAST_EVERY_CATCH = frozenset({"States.DataLimitExceeded", "States.Runtime"})
NO_ERROR_TYPE = "The cause could not be determined because Lambda did not return an error type."


def install_integrations(cloud: OpenCloud) -> None:
    from moto.stepfunctions.parser.asl.component.state.exec.state_task.service.state_task_service import (
        StateTaskService,
    )
    from moto.stepfunctions.parser.asl.component.state.exec.state_task.service.state_task_service_aws_sdk import (
        StateTaskServiceAwsSdk,
    )
    from moto.stepfunctions.parser.asl.component.state.exec.state_task.service.state_task_service_lambda import (
        StateTaskServiceLambda,
    )
    from moto.stepfunctions.parser.asl.component.state.exec.state_task.service.state_task_service_sfn import (
        StateTaskServiceSfn,
    )

    def action_name(self: Any, service_action_name: str | None = None) -> str:
        name = service_action_name or self.resource.api_action
        return name if "_" in name else xform_name(name[:1].upper() + name[1:])

    def normalise_parameters(
        self: Any,
        parameters: dict[str, Any],
        boto_service_name: str | None = None,
        service_action_name: str | None = None,
    ) -> None:
        operation = _operation(
            self._get_boto_service_name(boto_service_name), self._get_boto_service_action(service_action_name)
        )
        if operation is not None and operation.input_shape is not None:
            self._to_boto_request(parameters, operation.input_shape)

    def normalise_response(
        self: Any, response: Any, boto_service_name: str | None = None, service_action_name: str | None = None
    ) -> None:
        operation = _operation(
            self._get_boto_service_name(boto_service_name), self._get_boto_service_action(service_action_name)
        )
        if operation is not None and operation.output_shape is not None:
            self._from_boto_response(response, operation.output_shape)
        _dates_to_text(response)

    def error_service(service: str) -> str:
        """As in Ec2.Ec2Exception, Ssm.ParameterNotFoundException; moto knows six services."""
        return service[:1].upper() + service[1:]

    _install_partitions(cloud)
    cloud.patch(StateTaskServiceLambda, "_from_error", _typed_errors(StateTaskServiceLambda._from_error))
    cloud.patch(StateTaskServiceSfn, "_from_error", _named_as_aws_does(StateTaskServiceSfn._from_error))
    cloud.patch(StateTaskService, "_get_boto_service_action", action_name)
    cloud.patch(StateTaskService, "_normalise_parameters", normalise_parameters)
    cloud.patch(StateTaskService, "_normalise_response", normalise_response)
    cloud.patch(StateTaskServiceAwsSdk, "_normalise_service_error_name", staticmethod(error_service))


def _install_partitions(cloud: OpenCloud) -> None:
    """A task whose integration is of another partition ends its execution, whatever the state catches."""
    from moto.stepfunctions.parser.asl.component.common.error_name.error_equals_decl import ErrorEqualsDecl
    from moto.stepfunctions.parser.asl.component.state.exec.state_task.service.resource import Resource
    from moto.utilities.utils import get_partition

    placed, equals = Resource._eval_runtime_part, ErrorEqualsDecl._eval_body

    def in_its_partition(self: Any, env: Any) -> Any:
        expected = get_partition(env.aws_execution_details.region)
        if self.partition != expected:
            raise _runtime_error(
                env,
                "The resource belongs to a different partition from the running execution. "
                f"Expected '{expected}', was '{self.partition}'",
            )
        return placed(self, env)

    def but_for_the_runtimes_own(self: Any, env: Any) -> None:
        name = env.stack[-1].error_name
        equals(self, env)
        env.stack[-1] = env.stack[-1] and name not in PAST_EVERY_CATCH

    cloud.patch(Resource, "_eval_runtime_part", in_its_partition)
    cloud.patch(ErrorEqualsDecl, "_eval_body", but_for_the_runtimes_own)


def _runtime_error(env: Any, cause: str) -> Exception:
    from moto.stepfunctions.parser.api import HistoryEventType
    from moto.stepfunctions.parser.asl.component.common.error_name.failure_event import (
        FailureEvent,
        FailureEventException,
    )
    from moto.stepfunctions.parser.asl.component.common.error_name.states_error_name import StatesErrorName
    from moto.stepfunctions.parser.asl.component.common.error_name.states_error_name_type import (
        StatesErrorNameType,
    )

    kind = StatesErrorNameType.StatesRuntime
    details: Any = {"taskFailedEventDetails": {"error": kind.to_name(), "cause": cause}}
    event = FailureEvent(
        env=env,
        error_name=StatesErrorName(typ=kind),
        event_type=HistoryEventType.TaskFailed,
        event_details=details,
    )
    return FailureEventException(failure_event=event)


def _typed_errors(original: Callable[[Any, Any, Exception], Any]) -> Callable[[Any, Any, Exception], Any]:
    """A function's error without a type is Lambda.Unknown, whatever Lambda gave with it; moto says Exception."""
    from moto.stepfunctions.parser.asl.component.common.error_name.custom_error_name import CustomErrorName
    from moto.stepfunctions.parser.asl.component.state.exec.state_task.lambda_eval_utils import (
        LambdaFunctionErrorException,
    )

    def from_error(self: Any, env: Any, ex: Exception) -> Any:
        event = original(self, env, ex)
        if isinstance(ex, LambdaFunctionErrorException) and not _has_error_type(ex.payload):
            event.error_name = CustomErrorName("Lambda.Unknown")
            event.event_details["taskFailedEventDetails"] |= {
                "error": "Lambda.Unknown",
                "cause": f"{NO_ERROR_TYPE} Returned payload: {ex.payload}",
            }
        return event

    return from_error


def _named_as_aws_does(
    original: Callable[[Any, Any, Exception], Any],
) -> Callable[[Any, Any, Exception], Any]:
    """What a nested start was refused with."""
    from moto.stepfunctions.parser.asl.component.common.error_name.custom_error_name import CustomErrorName

    modelled = {shape.name for shape in _operation("stepfunctions", "start_execution").error_shapes}

    def from_error(self: Any, env: Any, ex: Exception) -> Any:
        event = original(self, env, ex)
        code = ex.response["Error"]["Code"] if isinstance(ex, ClientError) else ""
        if code == "ExecutionLimitExceeded":
            name = LIMIT_OF_EXECUTIONS
        elif code and code not in modelled:
            name = NOT_MODELLED
        else:
            return event
        event.error_name = CustomErrorName(name)
        event.event_details["taskFailedEventDetails"] |= {"error": name}
        return event

    return from_error


def _has_error_type(payload: str) -> bool:
    try:
        answer = json.loads(payload)
    except ValueError:
        return False
    return isinstance(answer, dict) and "errorType" in answer


def _operation(service: str, action: str) -> Any:
    """botocore's model of an action, or None when botocore does not know the service or the action."""
    from moto.core.utils import get_service_model

    try:
        model: ServiceModel = get_service_model(service)
    except UnknownServiceError:
        return None
    name = next((name for name in model.operation_names if xform_name(name) == action), None)
    return None if name is None else model.operation_model(name)


def _dates_to_text(value: Any) -> Any:
    """Times in an integration's result as ISO 8601 text, in place, as AWS gives them."""
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, dict):
        for key in value:
            value[key] = _dates_to_text(value[key])
    elif isinstance(value, list):
        value[:] = [_dates_to_text(item) for item in value]
    elif isinstance(value, bytes):
        return value.decode(errors="replace")
    return value
