"""Functions, workflows and Systems Manager: the types that hold the product's code."""

from __future__ import annotations

import json
from typing import Any

from botocore.exceptions import ClientError

from localcloud.extensions.cloudformation.resource_type import (
    Made,
    Request,
    ResourceType,
    call,
    deletes,
    gone,
    tag_list,
    tag_map,
)
from localcloud.extensions.cloudformation.template import TemplateError

NO_RESOURCE = "ResourceNotFoundException"


def _code(request: Request) -> dict[str, Any]:
    code = request.properties["Code"]
    return {key: code[key] for key in ("S3Bucket", "S3Key")}


def _create_function(request: Request) -> Made:
    name = request.name("FunctionName")
    ignored = ("RuntimeManagementConfig", "ReservedConcurrentExecutions", "RecursiveLoop")
    answer = call(
        request,
        "lambda",
        "create_function",
        *ignored,
        FunctionName=name,
        Code=_code(request),
        Tags=tag_map(request) or None,
    )
    return Made(name, {"Arn": answer["FunctionArn"]})


def _update_function(request: Request, made: Made) -> Made:
    client = request.client("lambda")
    client.update_function_code(FunctionName=made.physical_id, **_code(request))
    ignored = (
        "Code",
        "Tags",
        "Architectures",
        "ReservedConcurrentExecutions",
        "RuntimeManagementConfig",
        "PackageType",
    )
    call(request, "lambda", "update_function_configuration", *ignored, FunctionName=made.physical_id)
    return made


def _create_permission(request: Request) -> Made:
    statement = f"{request.logical_id}-{request.random}"
    call(request, "lambda", "add_permission", StatementId=statement)
    return Made(statement, {"function": request.properties["FunctionName"]})


@gone(NO_RESOURCE)
def _delete_permission(request: Request, made: Made) -> None:
    name = made.attributes["function"]
    request.client("lambda").remove_permission(FunctionName=name, StatementId=made.physical_id)


def _put_invoke_config(request: Request) -> Made:
    if request.properties.get("Qualifier", "$LATEST") != "$LATEST":
        raise TemplateError(f"{request.logical_id}: property Qualifier is not supported")
    name = str(request.properties["FunctionName"])
    call(request, "lambda", "put_function_event_invoke_config")
    return Made(f"{name}/$LATEST", {"function": name})


def _change_invoke_config(request: Request, made: Made) -> Made:
    _delete_invoke_config(request, made)
    return _put_invoke_config(request)


@gone(NO_RESOURCE)
def _delete_invoke_config(request: Request, made: Made) -> None:
    request.client("lambda").delete_function_event_invoke_config(FunctionName=made.attributes["function"])


def _definition(request: Request) -> str:
    properties = request.properties
    text = properties["DefinitionString"]
    for name, value in properties.get("DefinitionSubstitutions", {}).items():
        text = text.replace("${" + name + "}", str(value))
    return str(text)


def _create_machine(request: Request) -> Made:
    name = request.name("StateMachineName", 80)
    answer = request.client("stepfunctions").create_state_machine(
        name=name,
        definition=_definition(request),
        roleArn=request.properties["RoleArn"],
        type=request.properties.get("StateMachineType", "STANDARD"),
        tags=[{"key": key, "value": value} for key, value in tag_map(request).items()],
    )
    arn = answer["stateMachineArn"]
    return Made(arn, {"Arn": arn, "Name": name})


def _update_machine(request: Request, made: Made) -> Made:
    request.client("stepfunctions").update_state_machine(
        stateMachineArn=made.physical_id,
        definition=_definition(request),
        roleArn=request.properties["RoleArn"],
    )
    return made


def _content(request: Request) -> str:
    content = request.properties["Content"]
    return content if isinstance(content, str) else json.dumps(content)


def _create_document(request: Request) -> Made:
    name, tags = request.name("Name", 128), tag_list(request)
    call(request, "ssm", "create_document", "UpdateMethod", Name=name, Content=_content(request), Tags=tags)
    return Made(name)


def _update_document(request: Request, made: Made) -> Made:
    client, name = request.client("ssm"), made.physical_id
    arguments = {
        key: request.properties[key] for key in ("DocumentFormat", "TargetType") if key in request.properties
    }
    # The default version stays, as it may on AWS (cloudformation-coverage-roadmap#2539).
    try:
        client.update_document(Name=name, Content=_content(request), DocumentVersion="$LATEST", **arguments)
    except ClientError as error:
        if error.response["Error"]["Code"] != "DuplicateDocumentContent":
            raise
    return made


def _put_parameter(request: Request, overwrite: bool) -> Made:
    name = request.name("Name", 128)
    tags = None if overwrite else tag_list(request)
    call(request, "ssm", "put_parameter", "Tags", Name=name, Overwrite=overwrite, Tags=tags)
    return Made(name, {"Type": request.properties["Type"], "Value": request.properties["Value"]})


TYPES: dict[str, ResourceType] = {
    "AWS::Lambda::Function": ResourceType(
        _create_function,
        deletes("lambda", "delete_function", "FunctionName", NO_RESOURCE),
        _update_function,
        ("FunctionName",),
    ),
    "AWS::Lambda::EventInvokeConfig": ResourceType(
        _put_invoke_config, _delete_invoke_config, _change_invoke_config, ("FunctionName",)
    ),
    "AWS::Lambda::Permission": ResourceType(_create_permission, _delete_permission),
    "AWS::SSM::Document": ResourceType(
        _create_document,
        deletes("ssm", "delete_document", "Name", "InvalidDocument"),
        _update_document,
        ("Name", "DocumentType"),
    ),
    "AWS::SSM::Parameter": ResourceType(
        lambda request: _put_parameter(request, overwrite=False),
        deletes("ssm", "delete_parameter", "Name", "ParameterNotFound"),
        lambda request, made: _put_parameter(request, overwrite=True),
        ("Name",),
    ),
    "AWS::StepFunctions::StateMachine": ResourceType(
        _create_machine,
        deletes("stepfunctions", "delete_state_machine", "stateMachineArn"),
        _update_machine,
        ("StateMachineName", "StateMachineType"),
    ),
}
