"""Checked at every start: that moto's internals are the ones that the local cloud hooks into.

They are private names. When moto changes, a hook that no longer fits would turn into behaviour that is quietly
wrong, so the local cloud does not start and says which hook it is.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
from collections.abc import Mapping
from datetime import UTC, datetime

EXPECTED_VERSIONS = {"moto": "5.2.5", "jsonata-python": "0.7.1"}
ASL_COMPONENT = "moto.stepfunctions.parser.asl.component"
TASK_SERVICE = f"{ASL_COMPONENT}.state.exec.state_task.service"
EC2_ACTIONS = (
    *("run_instances", "describe_instances", "describe_instance_status", "modify_instance_attribute"),
    "reboot_instances",
)
EBS_ACTIONS = (
    *(
        "create_volume",
        "delete_volume",
        "attach_volume",
        "detach_volume",
        "describe_volumes",
        "describe_volume_status",
    ),
    *(
        "create_snapshot",
        "create_snapshots",
        "delete_snapshot",
        "describe_snapshots",
        "copy_snapshot",
        "modify_volume",
    ),
    *("modify_snapshot_tier", "restore_snapshot_tier"),
)
DIRECT_ACTIONS = (
    *("list_snapshot_blocks", "list_changed_blocks", "get_snapshot_block"),
    *("start_snapshot", "put_snapshot_block", "complete_snapshot"),
)
# What is replaced or called, by module, with its parameters; ... stands for any more.
HOOKS: Mapping[str, Mapping[str, str]] = {
    "moto.core.responses": {
        "BaseResponse.call_action": "self",
        "BaseResponse.serialized": "self action_result",
        "BaseResponse._get_action": "self",
        "BaseResponse._transform_response": "headers response",
        "BaseResponse._enrich_response": "headers body",
    },
    "moto.core.base_backend": {
        "BackendDict.reset": "",
    },
    "moto.ec2.responses.instances": {f"InstanceResponse.{name}": "self" for name in EC2_ACTIONS},
    "moto.ec2.responses.elastic_block_store": {f"ElasticBlockStore.{name}": "self" for name in EBS_ACTIONS},
    "moto.ec2.responses.amis": {"AmisResponse.copy_image": "self"},
    "moto.ec2.responses.tags": {"TagResponse.create_tags": "self"},
    "moto.ec2.responses._base_response": {
        "EC2BaseResponse._parse_tag_specification": "self expected_type",
        "EC2BaseResponse._filters_from_querystring": "self",
    },
    "moto.ec2.models": {
        "EC2Backend.run_instances": "self image_id count user_data security_group_names kwargs",
        "EC2Backend.get_instance_by_id": "self instance_id",
        "EC2Backend.get_subnet": "self subnet_id",
    },
    "moto.ec2.models.instances": {f"Instance.{name}": "self" for name in ("start", "stop", "terminate")},
    "moto.ec2.models.vpcs": {"random_vpc_id": ""},
    "moto.ec2.models.subnets": {"random_subnet_id": "", "Subnet.del_subnet_ip": "self ip"},
    "moto.ec2.models.security_groups": {"random_security_group_id": ""},
    "moto.ec2.models.elastic_block_store": {
        "Snapshot": "ec2_backend snapshot_id volume description encrypted kms_key_id owner_id from_ami",
        "VolumeAttachment": "volume instance device status",
    },
    "moto.ebs.responses": {f"EBSResponse.{name}": "self" for name in DIRECT_ACTIONS},
    "moto.ssm.responses": {
        f"SimpleSystemManagerResponse.{name}": "self"
        for name in ("send_command", "get_command_invocation", "list_commands")
    },
    "moto.elbv2.models": {
        "FakeTargetGroup.register": "self targets",
        "FakeTargetGroup.deregister": "self targets",
        "FakeTargetGroup.deregister_terminated_instances": "self instance_ids",
        "ELBv2Backend.describe_target_health": "self target_group_arn targets",
        "ELBv2Backend.create_target_group": "self name kwargs",
        "ELBv2Backend.create_listener": "self load_balancer_arn protocol port ssl_policy certificate actions ...",
        "ELBv2Backend.modify_listener": "self arn port protocol ssl_policy certificates actions",
        "ELBv2Backend.delete_listener": "self listener_arn",
        "ELBv2Backend.delete_load_balancer": "self arn",
    },
    "moto.awslambda_simple.models": {
        "LambdaSimpleBackend.invoke": "self function_name qualifier body headers response_headers",
    },
    "moto.awslambda.models": {
        "LambdaBackend.update_function_code": "self function_name qualifier body",
        "LambdaBackend.update_function_configuration": "self function_name qualifier body",
        "LambdaBackend.delete_function": "self function_name qualifier",
        "LambdaBackend.get_function": "self function_name_or_arn qualifier",
        "LambdaFunction._set_function_code": "self updated_spec",
    },
    "moto.ssm.models": {
        "Documents.find": "self document_version version_name strict",
        "SimpleSystemManagerBackend.put_parameter": "self name description value ...",
    },
    "moto.route53.responses": {
        "Route53.change_resource_record_sets": "self",
        "Route53.create_health_check": "self",
        "Route53.get_change": "self",
    },
    "moto.events.models": {
        "Rule.send_to_targets": "self original_event transform_input",
        "EventPattern.matches_event": "self event",
        "EventPattern.get_pattern": "self",
        "EventsBackend.put_events": "self events",
    },
    "moto.cloudwatch.models": {
        "CloudWatchBackend.put_metric_data": "self namespace metric_data",
        "CloudWatchBackend.get_metric_data": "self queries start_time end_time scan_by",
        "CloudWatchBackend.get_filtered_metrics": "self metric_name namespace dimensions",
        "CloudWatchBackend.put_metric_alarm": "self name ...",
        "CloudWatchBackend._validate_parameters_put_metric_data": "self metric query_num",
        "Alarm.update_state": "self reason reason_data state_value",
    },
    "moto.cloudwatch.responses": {
        "CloudWatchResponse.get_metric_statistics": "self",
    },
    "moto.cloudformation.responses": {
        "CloudFormationResponse._get_stack_from_s3_url": "self template_url",
    },
    "moto.s3.models": {
        "FakeBucket.get_permission": "self action resource",
    },
    "moto.s3.responses": {
        "S3Response._key_response": "self request full_url",
    },
    "moto.kms.responses": {
        "KmsResponse.generate_data_key_without_plaintext": "self",
        "KmsResponse._validate_key_id": "self key_id",
    },
    "moto.logs.models": {
        "LogsBackend.create_log_group": "self log_group_name tags ...",
    },
    "moto.sns.models": {
        "Subscription.publish": "self message message_id ...",
    },
    "moto.sqs.models": {
        "SQSBackend.change_message_visibility": "self queue_name receipt_handle visibility_timeout",
        "SQSBackend.receive_message": "self queue_name ...",
        "SQSBackend.is_message_valid_based_on_retention_period": "self queue_name message",
        "Message.had_receipt_handle": "self receipt_handle",
    },
    "moto.sts.models": {
        "STSBackend.assume_role": "self region_name role_session_name role_arn policy duration external_id",
    },
    "moto.iam.models": {
        "IAMBackend.get_groups_for_user": "self user_name",
    },
    "moto.stepfunctions.parser.asl.utils.boto_client": {
        "boto_client_for": "region service state_credentials",
    },
    f"{ASL_COMPONENT}.common.string.string_expression": {
        "StringJSONata._eval_body": "self env",
    },
    f"{ASL_COMPONENT}.common.error_name.failure_event": {
        "FailureEventException.get_execution_failed_event_details": "self",
        "FailureEventException.extract_error_cause_pair": "self",
    },
    f"{ASL_COMPONENT}.common.error_name.error_name": {"ErrorName": "error_name"},
    f"{ASL_COMPONENT}.state.exec.state_map.iteration.iteration_worker": {"CustomErrorName": "error_name"},
    f"{ASL_COMPONENT}.state.exec.state_parallel.branches_decl": {"CustomErrorName": "error_name"},
    f"{ASL_COMPONENT}.state.fail.state_fail": {"CustomErrorName": "error_name"},
    f"{ASL_COMPONENT}.state.exec.state_task.lambda_eval_utils": {
        "_invoke_lambda_function": "parameters region state_credentials",
        "boto_client_for": "region service state_credentials",
        "LambdaFunctionErrorException": "function_error payload",
    },
    f"{ASL_COMPONENT}.state.exec.execute_state": {
        "ExecutionState._evaluate_with_timeout": "self env",
        "ExecutionState._eval_state_output": "self env",
    },
    f"{ASL_COMPONENT}.common.error_name.error_equals_decl": {
        "ErrorEqualsDecl._eval_body": "self env",
    },
    f"{ASL_COMPONENT}.common.retry.retrier_decl": {
        "RetrierDecl._eval_body": "self env",
    },
    f"{ASL_COMPONENT}.state.exec.state_map.iteration.inline_iteration_component": {
        "InlineIterationComponent._eval_body": "self env",
    },
    f"{ASL_COMPONENT}.state.wait.wait_function.wait_function": {
        "WaitFunction._wait_interval": "self env wait_seconds",
    },
    f"{ASL_COMPONENT}.state.wait.wait_function.timestamp": {
        "Timestamp._get_wait_seconds": "self env",
    },
    f"{TASK_SERVICE}.resource": {
        "Resource._eval_runtime_part": "self env",
    },
    f"{TASK_SERVICE}.state_task_service_sfn": {
        "StateTaskServiceSfn._from_error": "self env ex",
        "StateTaskServiceSfn._build_sync_resolver": (
            "self env resource_runtime_part normalised_parameters state_credentials"
        ),
        "StateTaskServiceSfn._build_sync2_resolver": (
            "self env resource_runtime_part normalised_parameters state_credentials"
        ),
    },
    f"{TASK_SERVICE}.state_task_service": {
        "StateTaskService._get_boto_service_action": "self service_action_name",
        "StateTaskService._normalise_parameters": "self parameters boto_service_name service_action_name",
        "StateTaskService._normalise_response": "self response boto_service_name service_action_name",
        "StateTaskService._to_boto_request": "self parameters structure_shape",
        "StateTaskService._from_boto_response": "self response structure_shape",
    },
    f"{TASK_SERVICE}.state_task_service_aws_sdk": {
        "StateTaskServiceAwsSdk._normalise_service_error_name": "service_name",
    },
    "moto.stepfunctions.parser.backend.execution": {
        "BaseExecutionWorkerCommunication.terminated": "self",
        "BaseExecutionWorkerCommunication._reflect_execution_status": "self",
        "Execution.stop": "self stop_date error cause",
        "Execution._get_start_execution_worker": "self",
    },
    "moto.stepfunctions.parser.backend.execution_worker": {
        "ExecutionWorker._get_evaluation_entrypoint": "self",
        "ExecutionWorker._get_evaluation_environment": "self",
    },
    "moto.stepfunctions.parser.models": {
        "StepFunctionsParserBackend.start_execution": "self state_machine_arn name execution_input trace_header",
    },
    "moto.stepfunctions.models": {
        "StepFunctionBackend.list_executions": "self state_machine_arn status_filter",
    },
    "moto.stepfunctions.responses": {
        "StepFunctionResponse.list_executions": "self",
        "StepFunctionResponse.stop_execution": "self",
        "StepFunctionResponse.get_execution_history": "self",
        "StepFunctionResponse.describe_execution": "self",
    },
}


class HookMoved(Exception):
    """A library is not the one that the local cloud was made for: names the hook, the versions and the remedy."""


def check() -> None:
    """Raises HookMoved for the first thing that is not as expected."""
    for name, version in EXPECTED_VERSIONS.items():
        _check_version(name, version)
    for module_name, hooks in HOOKS.items():
        for path, parameters in hooks.items():
            _check_hook(module_name, path, parameters)
    for behaviour in (_jsonata_binds_values, _templates_are_filled):
        behaviour()


def _check_version(name: str, expected: str) -> None:
    found = importlib.metadata.version(name)
    if found != expected:
        raise HookMoved(f"{name} {found} is installed, {expected} is needed: run `make setup`.")


def _check_hook(module_name: str, path: str, parameters: str) -> None:
    hook = f"{module_name}.{path}"
    try:
        target: object = importlib.import_module(module_name)
        for part in path.split("."):
            target = getattr(target, part)
    except (ImportError, AttributeError) as error:
        raise HookMoved(f"hook {hook} is gone ({error}): {_remedy()}") from error
    if not callable(target):
        raise HookMoved(f"hook {hook} is no function any more: {_remedy()}")
    found = " ".join(inspect.signature(target).parameters)
    beginning, more, _ = parameters.partition("...")
    if found != parameters and not (more and found.startswith(beginning)):
        raise HookMoved(f"hook {hook} has parameters ({found}), not ({parameters}): {_remedy()}")


def _remedy() -> str:
    return f"moto {EXPECTED_VERSIONS['moto']} has it; {importlib.metadata.version('moto')} is installed."


def _jsonata_binds_values() -> None:
    from localcloud.extensions.stepfunctions.jsonata import evaluate

    awkward = 'it\'s "quoted", \\ and {% %}'
    bindings = {"states": {"input": {"text": awkward, "none": None}}, "other": [1, awkward]}
    expression = '{"text": $states.input.text, "second": $other[1], "none": $states.input.none, "n": 2}'
    found = evaluate(expression, bindings, datetime(2026, 1, 1, tzinfo=UTC))
    wanted = {"text": awkward, "second": awkward, "none": None, "n": 2}
    if found != wanted:
        raise HookMoved(f"hook jsonata evaluates {expression} to {found}, not {wanted}.")


def _templates_are_filled() -> None:
    from localcloud.extensions.events.target_payload import transform

    found = transform('{"a": "<x>", "b": <x>}', {"x": 'say "hi"'})
    if found != '{"a": "say \\"hi\\"", "b": "say \\"hi\\""}':
        raise HookMoved(f"input templates are filled wrongly: {found}")
