"""The CloudFormation resource types that the local cloud makes, each through the service's own API.

A type that is not here is refused before anything is created. INERT types are accepted and do nothing, because
nothing on one machine follows from them.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError
from botocore.model import ListShape, MapShape, Shape, StructureShape

from localcloud.extensions.cloudformation.template import TemplateError

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud

INERT = frozenset(
    {
        "AWS::CDK::Metadata",
        "AWS::CloudFormation::WaitConditionHandle",
        "AWS::Logs::MetricFilter",
        "AWS::Logs::QueryDefinition",
    }
)


@dataclass(frozen=True)
class Request:
    """What a type's functions get: the resource's place and its resolved properties."""

    cloud: OpenCloud
    stack_name: str
    logical_id: str
    properties: Mapping[str, Any]
    random: str

    def client(self, service: str) -> Any:
        return self.cloud.client(service)

    def name(self, property_name: str, longest: int = 64) -> str:
        """The given name, or one as CloudFormation generates."""
        given = self.properties.get(property_name)
        if given:
            return str(given)
        stem = f"{self.stack_name}-{self.logical_id}"[: longest - len(self.random) - 1].rstrip("-")
        return f"{stem}-{self.random}"

    def arn(self, service: str, resource: str) -> str:
        return f"arn:aws:{service}:{self.cloud.settings.region}:{self.cloud.settings.account_id}:{resource}"


@dataclass
class Made:
    """A resource that exists: its physical id (Ref) and its attributes (Fn::GetAtt)."""

    physical_id: str
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ResourceType:
    """How to make, change and delete one type. Without `update`, a change replaces the resource."""

    create: Callable[[Request], Made]
    delete: Callable[[Request, Made], None]
    update: Callable[[Request, Made], Made] | None = None
    update_replaces: tuple[str, ...] = ()  # a change of these properties replaces the resource all the same


def call(request: Request, service: str, action: str, *ignored: str, **overrides: Any) -> dict[str, Any]:
    """Call an API action with those properties that it knows by the same name.

    Raises TemplateError for a property that the action does not know and that is not named in `ignored`: what the
    local cloud cannot do must not look done.
    """
    client = request.client(service)
    operation = client.meta.service_model.operation_model(client.meta.method_to_api_mapping[action])
    members = operation.input_shape.members
    unknown = set(request.properties) - set(members) - set(ignored) - set(overrides)
    if unknown:
        raise TemplateError(f"{request.logical_id}: property {sorted(unknown)[0]} is not supported")
    arguments = {
        name: _coerce(value, members[name])
        for name, value in request.properties.items()
        if name in members and name not in ignored and name not in overrides
    }
    arguments.update({name: value for name, value in overrides.items() if value is not None})
    answer: dict[str, Any] = getattr(client, action)(**arguments)
    return answer


def _coerce(value: Any, shape: Shape) -> Any:
    """CloudFormation's loose scalars ("5", "true") as the API wants them."""
    if isinstance(shape, StructureShape) and isinstance(value, Mapping):
        return {
            name: _coerce(item, shape.members[name]) for name, item in value.items() if name in shape.members
        }
    if isinstance(shape, ListShape) and isinstance(value, list):
        return [_coerce(item, shape.member) for item in value]
    if isinstance(shape, MapShape) and isinstance(value, Mapping):
        return {name: _coerce(item, shape.value) for name, item in value.items()}
    if shape.type_name in ("integer", "long") and isinstance(value, str):
        return int(value)
    if shape.type_name in ("double", "float") and isinstance(value, str | int):
        return float(value)
    if shape.type_name == "boolean" and isinstance(value, str):
        return value.lower() == "true"
    if shape.type_name == "string" and not isinstance(value, str):
        return json.dumps(value) if isinstance(value, dict | list | bool) else str(value)
    return value


def _tag_map(request: Request, key: str = "Tags") -> dict[str, str]:
    tags = request.properties.get(key, [])
    return dict(tags) if isinstance(tags, Mapping) else {tag["Key"]: str(tag["Value"]) for tag in tags}


def _tag_list(request: Request) -> list[dict[str, str]] | None:
    tags = [{"Key": key, "Value": value} for key, value in _tag_map(request).items()]
    return tags or None


def _gone(*codes: str) -> Callable[[Callable[[Request, Made], None]], Callable[[Request, Made], None]]:
    """Deleting what is already gone is done."""

    def decorate(delete: Callable[[Request, Made], None]) -> Callable[[Request, Made], None]:
        def guarded(request: Request, made: Made) -> None:
            try:
                delete(request, made)
            except ClientError as error:
                if error.response["Error"]["Code"] not in codes:
                    raise

        return guarded

    return decorate


# -- Lambda -------------------------------------------------------------------------------------------------


def _code(request: Request) -> dict[str, Any]:
    code = dict(request.properties["Code"])
    if "ZipFile" in code:  # inline source: CloudFormation packs it as index.py
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("index.py", code["ZipFile"])
        return {"ZipFile": packed.getvalue()}
    return {key: code[key] for key in ("S3Bucket", "S3Key", "S3ObjectVersion") if key in code}


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
        Tags=_tag_map(request) or None,
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


@_gone("ResourceNotFoundException")
def _delete_function(request: Request, made: Made) -> None:
    request.client("lambda").delete_function(FunctionName=made.physical_id)


def _create_permission(request: Request) -> Made:
    statement = f"{request.logical_id}-{request.random}"
    call(request, "lambda", "add_permission", StatementId=statement)
    return Made(statement, {"function": request.properties["FunctionName"]})


@_gone("ResourceNotFoundException")
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


@_gone("ResourceNotFoundException")
def _delete_invoke_config(request: Request, made: Made) -> None:
    request.client("lambda").delete_function_event_invoke_config(FunctionName=made.attributes["function"])


# -- Step Functions -----------------------------------------------------------------------------------------


def _definition(request: Request) -> str:
    properties = request.properties
    if "DefinitionS3Location" in properties:
        place = properties["DefinitionS3Location"]
        text = (
            request.client("s3").get_object(Bucket=place["Bucket"], Key=place["Key"])["Body"].read().decode()
        )
    else:
        text = properties.get("DefinitionString") or json.dumps(properties["Definition"])
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
        tags=[{"key": key, "value": value} for key, value in _tag_map(request).items()],
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


def _delete_machine(request: Request, made: Made) -> None:
    request.client("stepfunctions").delete_state_machine(stateMachineArn=made.physical_id)


# -- Systems Manager ----------------------------------------------------------------------------------------


def _content(request: Request) -> str:
    content = request.properties["Content"]
    return content if isinstance(content, str) else json.dumps(content)


def _create_document(request: Request) -> Made:
    name = request.name("Name", 128)
    ignored = ("UpdateMethod",)
    call(
        request,
        "ssm",
        "create_document",
        *ignored,
        Name=name,
        Content=_content(request),
        Tags=_tag_list(request),
    )
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


@_gone("InvalidDocument")
def _delete_document(request: Request, made: Made) -> None:
    request.client("ssm").delete_document(Name=made.physical_id)


def _put_parameter(request: Request, overwrite: bool) -> Made:
    name = request.name("Name", 128)
    tags = None if overwrite else _tag_list(request)
    call(request, "ssm", "put_parameter", "Tags", Name=name, Overwrite=overwrite, Tags=tags)
    return Made(name, {"Type": request.properties["Type"], "Value": request.properties["Value"]})


@_gone("ParameterNotFound")
def _delete_parameter(request: Request, made: Made) -> None:
    request.client("ssm").delete_parameter(Name=made.physical_id)


# -- load balancing -----------------------------------------------------------------------------------------


TARGET_GROUP_FIXED = (
    *("Name", "Port", "Protocol", "ProtocolVersion", "TargetType", "VpcId"),
    *("IpAddressType", "HealthCheckProtocol"),
)


def _attribute_list(request: Request, key: str) -> list[dict[str, str]]:
    return [{"Key": item["Key"], "Value": str(item["Value"])} for item in request.properties.get(key, [])]


def _create_balancer(request: Request) -> Made:
    answer = call(
        request,
        "elbv2",
        "create_load_balancer",
        "LoadBalancerAttributes",
        Name=request.name("Name", 32),
        Tags=_tag_list(request),
    )["LoadBalancers"][0]
    arn = answer["LoadBalancerArn"]
    attributes = _attribute_list(request, "LoadBalancerAttributes")
    if attributes:
        request.client("elbv2").modify_load_balancer_attributes(LoadBalancerArn=arn, Attributes=attributes)
    made = {
        "DNSName": answer["DNSName"],
        "LoadBalancerFullName": arn.split("loadbalancer/", 1)[1],
        "LoadBalancerName": answer["LoadBalancerName"],
        "LoadBalancerArn": arn,
        "CanonicalHostedZoneID": answer.get("CanonicalHostedZoneId", ""),
    }
    return Made(arn, made)


def _delete_balancer(request: Request, made: Made) -> None:
    # CloudFormation, unlike the API, deletes what its own attribute protects only after a change; we do as the API.
    request.client("elbv2").delete_load_balancer(LoadBalancerArn=made.physical_id)


def _create_target_group(request: Request) -> Made:
    properties = {**request.properties}
    targets = properties.pop("Targets", None)
    plain = Request(request.cloud, request.stack_name, request.logical_id, properties, request.random)
    answer = call(
        plain,
        "elbv2",
        "create_target_group",
        "TargetGroupAttributes",
        Name=request.name("Name", 32),
        Tags=_tag_list(request),
    )["TargetGroups"][0]
    arn = answer["TargetGroupArn"]
    attributes = _attribute_list(request, "TargetGroupAttributes")
    if attributes:
        request.client("elbv2").modify_target_group_attributes(TargetGroupArn=arn, Attributes=attributes)
    if targets:
        request.client("elbv2").register_targets(TargetGroupArn=arn, Targets=targets)
    name = {"TargetGroupName": answer["TargetGroupName"], "TargetGroupFullName": arn.rsplit(":", 1)[1]}
    return Made(arn, {"TargetGroupArn": arn, **name})


def _update_target_group(request: Request, made: Made) -> Made:
    """In place, with its targets; what cannot be changed so is in TARGET_GROUP_FIXED."""
    kept = (*TARGET_GROUP_FIXED, "TargetGroupAttributes", "Targets", "Tags")
    call(request, "elbv2", "modify_target_group", *kept, TargetGroupArn=made.physical_id)
    attributes = _attribute_list(request, "TargetGroupAttributes")
    if attributes:
        request.client("elbv2").modify_target_group_attributes(
            TargetGroupArn=made.physical_id, Attributes=attributes
        )
    return made


def _delete_target_group(request: Request, made: Made) -> None:
    request.client("elbv2").delete_target_group(TargetGroupArn=made.physical_id)


def _create_listener(request: Request) -> Made:
    answer = call(request, "elbv2", "create_listener", "ListenerAttributes", Tags=_tag_list(request))[
        "Listeners"
    ][0]
    return Made(answer["ListenerArn"], {"ListenerArn": answer["ListenerArn"]})


def _update_listener(request: Request, made: Made) -> Made:
    """In place: a listener that is replaced would cut every connection."""
    fixed = ("LoadBalancerArn", "ListenerAttributes", "Tags")
    call(request, "elbv2", "modify_listener", *fixed, ListenerArn=made.physical_id)
    return made


@_gone("ListenerNotFound")
def _delete_listener(request: Request, made: Made) -> None:
    request.client("elbv2").delete_listener(ListenerArn=made.physical_id)


# -- events and schedules -----------------------------------------------------------------------------------


def _put_rule(request: Request, name: str) -> Made:
    pattern = request.properties.get("EventPattern")
    client = request.client("events")
    answer = call(
        request,
        "events",
        "put_rule",
        "Targets",
        Name=name,
        EventPattern=pattern if pattern is None or isinstance(pattern, str) else json.dumps(pattern),
        Tags=_tag_list(request),
    )
    bus = {"EventBusName": request.properties["EventBusName"]} if "EventBusName" in request.properties else {}
    wanted = request.properties.get("Targets", [])
    known = client.list_targets_by_rule(Rule=name, **bus)["Targets"]
    stale = {target["Id"] for target in known} - {target["Id"] for target in wanted}
    if stale:
        client.remove_targets(Rule=name, Ids=sorted(stale), **bus)
    if wanted:
        members = client.meta.service_model.operation_model("PutTargets").input_shape.members["Targets"]
        client.put_targets(Rule=name, Targets=_coerce(wanted, members), **bus)
    return Made(name, {"Arn": answer["RuleArn"], "bus": bus})


@_gone("ResourceNotFoundException")
def _delete_rule(request: Request, made: Made) -> None:
    client, bus = request.client("events"), made.attributes["bus"]
    targets = client.list_targets_by_rule(Rule=made.physical_id, **bus)["Targets"]
    if targets:
        client.remove_targets(Rule=made.physical_id, Ids=[target["Id"] for target in targets], **bus)
    client.delete_rule(Name=made.physical_id, **bus)


def _create_schedule(request: Request) -> Made:
    name = request.name("Name")
    arn = call(request, "scheduler", "create_schedule", Name=name)["ScheduleArn"]
    return Made(name, {"Arn": arn, "group": request.properties.get("GroupName", "default")})


def _update_schedule(request: Request, made: Made) -> Made:
    call(request, "scheduler", "update_schedule", Name=made.physical_id)
    return made


@_gone("ResourceNotFoundException")
def _delete_schedule(request: Request, made: Made) -> None:
    request.client("scheduler").delete_schedule(Name=made.physical_id, GroupName=made.attributes["group"])


def _create_schedule_group(request: Request) -> Made:
    name = request.name("Name")
    answer = request.client("scheduler").create_schedule_group(Name=name, Tags=_tag_list(request) or [])
    return Made(name, {"Arn": answer["ScheduleGroupArn"]})


@_gone("ResourceNotFoundException")
def _delete_schedule_group(request: Request, made: Made) -> None:
    request.client("scheduler").delete_schedule_group(Name=made.physical_id)


# -- CloudWatch and logs ------------------------------------------------------------------------------------


def _put_alarm(request: Request, name: str) -> Made:
    call(request, "cloudwatch", "put_metric_alarm", AlarmName=name, Tags=_tag_list(request))
    return Made(name, {"Arn": request.arn("cloudwatch", f"alarm:{name}")})


def _delete_alarm(request: Request, made: Made) -> None:
    request.client("cloudwatch").delete_alarms(AlarmNames=[made.physical_id])


def _put_dashboard(request: Request, name: str) -> Made:
    request.client("cloudwatch").put_dashboard(
        DashboardName=name, DashboardBody=request.properties["DashboardBody"]
    )
    return Made(name)


def _delete_dashboard(request: Request, made: Made) -> None:
    request.client("cloudwatch").delete_dashboards(DashboardNames=[made.physical_id])


def _create_log_group(request: Request) -> Made:
    name, client = request.name("LogGroupName", 512), request.client("logs")
    key = request.properties.get("KmsKeyId")
    client.create_log_group(
        logGroupName=name, tags=_tag_map(request), **({"kmsKeyId": str(key)} if key else {})
    )
    if "RetentionInDays" in request.properties:
        client.put_retention_policy(
            logGroupName=name, retentionInDays=int(request.properties["RetentionInDays"])
        )
    return Made(name, {"Arn": request.arn("logs", f"log-group:{name}:*")})


@_gone("ResourceNotFoundException")
def _delete_log_group(request: Request, made: Made) -> None:
    request.client("logs").delete_log_group(logGroupName=made.physical_id)


# -- DynamoDB, S3, SQS, SNS ---------------------------------------------------------------------------------


def _create_table(request: Request) -> Made:
    name, client = request.name("TableName", 255), request.client("dynamodb")
    later = (
        "TimeToLiveSpecification",
        "PointInTimeRecoverySpecification",
        "ContributorInsightsSpecification",
    )
    encryption = request.properties.get("SSESpecification")
    answer = call(
        request,
        "dynamodb",
        "create_table",
        *later,
        "SSESpecification",
        "StreamSpecification",
        TableName=name,
        Tags=_tag_list(request),
        SSESpecification=_table_encryption(encryption) if encryption else None,
    )["TableDescription"]
    ttl = request.properties.get("TimeToLiveSpecification")
    if ttl:
        client.update_time_to_live(TableName=name, TimeToLiveSpecification=dict(ttl))
    return Made(name, {"Arn": answer["TableArn"]})


def _table_encryption(given: Mapping[str, Any]) -> dict[str, Any]:
    key = given.get("KMSMasterKeyId")
    own = {"SSEType": "KMS", "KMSMasterKeyId": key} if key else {}
    return {"Enabled": bool(given.get("SSEEnabled")), **own}


@_gone("ResourceNotFoundException")
def _delete_table(request: Request, made: Made) -> None:
    client = request.client("dynamodb")
    if client.describe_table(TableName=made.physical_id)["Table"].get("DeletionProtectionEnabled"):
        raise TemplateError(f"{request.logical_id}: the table has deletion protection")
    client.delete_table(TableName=made.physical_id)


def _create_bucket(request: Request) -> Made:
    name = request.name("BucketName", 63).lower()
    request.client("s3").create_bucket(Bucket=name)
    versioning = request.properties.get("VersioningConfiguration")
    if versioning:
        request.client("s3").put_bucket_versioning(Bucket=name, VersioningConfiguration=versioning)
    encryption = request.properties.get("BucketEncryption")
    if encryption:
        _encrypt_bucket(request, name, encryption)
    return Made(name, {"Arn": f"arn:aws:s3:::{name}", "DomainName": f"{name}.s3.amazonaws.com"})


def _encrypt_bucket(request: Request, name: str, encryption: Mapping[str, Any]) -> None:
    rules = []
    for given in encryption["ServerSideEncryptionConfiguration"]:
        default = given["ServerSideEncryptionByDefault"]
        rule: dict[str, Any] = {"SSEAlgorithm": default["SSEAlgorithm"]}
        if "KMSMasterKeyID" in default:
            rule["KMSMasterKeyID"] = default["KMSMasterKeyID"]
        rules.append({"ApplyServerSideEncryptionByDefault": rule})
    request.client("s3").put_bucket_encryption(
        Bucket=name, ServerSideEncryptionConfiguration={"Rules": rules}
    )


@_gone("NoSuchBucket")
def _delete_bucket(request: Request, made: Made) -> None:
    request.client("s3").delete_bucket(Bucket=made.physical_id)


def _create_queue(request: Request) -> Made:
    name, client = request.name("QueueName", 80), request.client("sqs")
    given = {key: value for key, value in request.properties.items() if key not in ("QueueName", "Tags")}
    attributes = {
        key: json.dumps(value) if isinstance(value, dict | list | bool) else str(value)
        for key, value in given.items()
    }
    url = client.create_queue(QueueName=name, Attributes=attributes, tags=_tag_map(request))["QueueUrl"]
    arn = client.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    return Made(url, {"Arn": arn, "QueueName": name, "QueueUrl": url})


@_gone("AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist")
def _delete_queue(request: Request, made: Made) -> None:
    request.client("sqs").delete_queue(QueueUrl=made.physical_id)


def _create_topic(request: Request) -> Made:
    name, client = request.name("TopicName", 256), request.client("sns")
    kept = {"DisplayName", "FifoTopic", "KmsMasterKeyId"}
    attributes = {key: str(value) for key, value in request.properties.items() if key in kept}
    arn = client.create_topic(Name=name, Attributes=attributes, Tags=_tag_list(request) or [])["TopicArn"]
    for subscription in request.properties.get("Subscription", []):
        client.subscribe(TopicArn=arn, Protocol=subscription["Protocol"], Endpoint=subscription["Endpoint"])
    return Made(arn, {"TopicArn": arn, "TopicName": name})


def _delete_topic(request: Request, made: Made) -> None:
    request.client("sns").delete_topic(TopicArn=made.physical_id)


def _create_subscription(request: Request) -> Made:
    properties = request.properties
    answer = request.client("sns").subscribe(
        TopicArn=properties["TopicArn"],
        Protocol=properties["Protocol"],
        Endpoint=properties["Endpoint"],
        ReturnSubscriptionArn=True,
    )
    return Made(answer["SubscriptionArn"], {"Arn": answer["SubscriptionArn"]})


@_gone("NotFound", "NotFoundException")
def _delete_subscription(request: Request, made: Made) -> None:
    request.client("sns").unsubscribe(SubscriptionArn=made.physical_id)


# -- policies of resources ------------------------------------------------------------------------------------


def _put_bucket_policy(request: Request, bucket: str) -> Made:
    document = json.dumps(request.properties["PolicyDocument"])
    request.client("s3").put_bucket_policy(Bucket=bucket, Policy=document)
    return Made(bucket)


@_gone("NoSuchBucket")
def _delete_bucket_policy(request: Request, made: Made) -> None:
    request.client("s3").delete_bucket_policy(Bucket=made.physical_id)


def _put_topic_policy(request: Request) -> Made:
    """The document *replaces* the topic's policy, the default one of the owner too."""
    document = json.dumps(request.properties["PolicyDocument"])
    for topic in request.properties["Topics"]:
        request.client("sns").set_topic_attributes(
            TopicArn=topic, AttributeName="Policy", AttributeValue=document
        )
    return Made(f"{request.logical_id}-{request.random}", {"topics": list(request.properties["Topics"])})


@_gone("NotFound", "NotFoundException")
def _delete_topic_policy(request: Request, made: Made) -> None:
    """CloudFormation leaves the topic with its default policy: the account that owns it."""
    account = request.cloud.settings.account_id
    for topic in made.attributes["topics"]:
        statement = {
            "Effect": "Allow",
            "Principal": {"AWS": "*"},
            "Action": ["SNS:Publish", "SNS:Subscribe", "SNS:GetTopicAttributes"],
            "Resource": topic,
            "Condition": {"StringEquals": {"AWS:SourceOwner": account}},
        }
        document = json.dumps({"Version": "2008-10-17", "Statement": [statement]})
        request.client("sns").set_topic_attributes(
            TopicArn=topic, AttributeName="Policy", AttributeValue=document
        )


def _put_queue_policy(request: Request) -> Made:
    document = json.dumps(request.properties["PolicyDocument"])
    for url in request.properties["Queues"]:
        request.client("sqs").set_queue_attributes(QueueUrl=url, Attributes={"Policy": document})
    return Made(f"{request.logical_id}-{request.random}", {"queues": list(request.properties["Queues"])})


@_gone("AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist")
def _delete_queue_policy(request: Request, made: Made) -> None:
    for url in made.attributes["queues"]:
        request.client("sqs").set_queue_attributes(QueueUrl=url, Attributes={"Policy": ""})


def _put_log_policy(request: Request, name: str) -> Made:
    document = request.properties["PolicyDocument"]
    text = document if isinstance(document, str) else json.dumps(document)
    request.client("logs").put_resource_policy(policyName=name, policyDocument=text)
    return Made(name)


@_gone("ResourceNotFoundException")
def _delete_log_policy(request: Request, made: Made) -> None:
    request.client("logs").delete_resource_policy(policyName=made.physical_id)


# -- IAM ----------------------------------------------------------------------------------------------------


def _create_role(request: Request) -> Made:
    name, client = request.name("RoleName"), request.client("iam")
    boundary = request.properties.get("PermissionsBoundary")
    role = client.create_role(
        RoleName=name,
        AssumeRolePolicyDocument=json.dumps(request.properties["AssumeRolePolicyDocument"]),
        **({"PermissionsBoundary": boundary} if boundary else {}),
        Path=request.properties.get("Path", "/"),
        Description=request.properties.get("Description", ""),
        Tags=_tag_list(request) or [],
    )["Role"]
    _put_role_policies(request, name)
    return Made(name, {"Arn": role["Arn"], "RoleId": role["RoleId"]})


def _put_role_policies(request: Request, name: str) -> None:
    client = request.client("iam")
    for policy in request.properties.get("Policies", []):
        document = json.dumps(policy["PolicyDocument"])
        client.put_role_policy(RoleName=name, PolicyName=policy["PolicyName"], PolicyDocument=document)
    for arn in request.properties.get("ManagedPolicyArns", []):
        client.attach_role_policy(RoleName=name, PolicyArn=arn)


def _update_role(request: Request, made: Made) -> Made:
    document = json.dumps(request.properties["AssumeRolePolicyDocument"])
    client, boundary = request.client("iam"), request.properties.get("PermissionsBoundary")
    client.update_assume_role_policy(RoleName=made.physical_id, PolicyDocument=document)
    if boundary:
        client.put_role_permissions_boundary(RoleName=made.physical_id, PermissionsBoundary=boundary)
    else:
        client.delete_role_permissions_boundary(RoleName=made.physical_id)
    _put_role_policies(request, made.physical_id)
    return made


@_gone("NoSuchEntity")
def _delete_role(request: Request, made: Made) -> None:
    client, name = request.client("iam"), made.physical_id
    for policy in client.list_role_policies(RoleName=name)["PolicyNames"]:
        client.delete_role_policy(RoleName=name, PolicyName=policy)
    for attached in client.list_attached_role_policies(RoleName=name)["AttachedPolicies"]:
        client.detach_role_policy(RoleName=name, PolicyArn=attached["PolicyArn"])
    client.delete_role(RoleName=name)


def _put_policy(request: Request, name: str) -> Made:
    document = json.dumps(request.properties["PolicyDocument"])
    for role in request.properties.get("Roles", []):
        request.client("iam").put_role_policy(RoleName=role, PolicyName=name, PolicyDocument=document)
    return Made(name, {"roles": list(request.properties.get("Roles", []))})


@_gone("NoSuchEntity")
def _delete_policy(request: Request, made: Made) -> None:
    for role in made.attributes["roles"]:
        request.client("iam").delete_role_policy(RoleName=role, PolicyName=made.physical_id)


def _create_managed_policy(request: Request) -> Made:
    document = json.dumps(request.properties["PolicyDocument"])
    name = request.name("ManagedPolicyName")
    arn = request.client("iam").create_policy(PolicyName=name, PolicyDocument=document)["Policy"]["Arn"]
    for role in request.properties.get("Roles", []):
        request.client("iam").attach_role_policy(RoleName=role, PolicyArn=arn)
    return Made(arn, {"roles": list(request.properties.get("Roles", []))})


def _update_managed_policy(request: Request, made: Made) -> Made:
    """As a new version; of the old ones, which are five at most, none is kept."""
    client, arn = request.client("iam"), made.physical_id
    versions = client.list_policy_versions(PolicyArn=arn)["Versions"]
    document = json.dumps(request.properties["PolicyDocument"])
    client.create_policy_version(PolicyArn=arn, PolicyDocument=document, SetAsDefault=True)
    for version in versions:
        client.delete_policy_version(PolicyArn=arn, VersionId=version["VersionId"])
    return made


@_gone("NoSuchEntity")
def _delete_managed_policy(request: Request, made: Made) -> None:
    client = request.client("iam")
    for role in made.attributes["roles"]:
        client.detach_role_policy(RoleName=role, PolicyArn=made.physical_id)
    client.delete_policy(PolicyArn=made.physical_id)


def _create_instance_profile(request: Request) -> Made:
    name, client = request.name("InstanceProfileName", 128), request.client("iam")
    profile = client.create_instance_profile(InstanceProfileName=name)["InstanceProfile"]
    for role in request.properties.get("Roles", []):
        client.add_role_to_instance_profile(InstanceProfileName=name, RoleName=role)
    return Made(name, {"Arn": profile["Arn"], "roles": list(request.properties.get("Roles", []))})


@_gone("NoSuchEntity")
def _delete_instance_profile(request: Request, made: Made) -> None:
    client, name = request.client("iam"), made.physical_id
    for role in made.attributes["roles"]:
        client.remove_role_from_instance_profile(InstanceProfileName=name, RoleName=role)
    client.delete_instance_profile(InstanceProfileName=name)


def _named(put: Callable[[Request, str], Made], property_name: str, longest: int = 128) -> dict[str, Any]:
    """create and update of a type whose API has one put action for both."""
    return {
        "create": lambda request: put(request, request.name(property_name, longest)),
        "update": lambda request, made: put(request, made.physical_id),
        "update_replaces": (property_name,),
    }


RESOURCE_TYPES: dict[str, ResourceType] = {
    "AWS::CloudWatch::Alarm": ResourceType(delete=_delete_alarm, **_named(_put_alarm, "AlarmName", 255)),
    "AWS::CloudWatch::Dashboard": ResourceType(
        delete=_delete_dashboard, **_named(_put_dashboard, "DashboardName", 255)
    ),
    "AWS::DynamoDB::Table": ResourceType(_create_table, _delete_table),
    "AWS::ElasticLoadBalancingV2::Listener": ResourceType(
        _create_listener, _delete_listener, _update_listener, ("LoadBalancerArn",)
    ),
    "AWS::ElasticLoadBalancingV2::LoadBalancer": ResourceType(_create_balancer, _delete_balancer),
    "AWS::ElasticLoadBalancingV2::TargetGroup": ResourceType(
        _create_target_group, _delete_target_group, _update_target_group, TARGET_GROUP_FIXED
    ),
    "AWS::Events::Rule": ResourceType(delete=_delete_rule, **_named(_put_rule, "Name", 64)),
    "AWS::IAM::InstanceProfile": ResourceType(_create_instance_profile, _delete_instance_profile),
    "AWS::IAM::ManagedPolicy": ResourceType(
        _create_managed_policy, _delete_managed_policy, _update_managed_policy, ("ManagedPolicyName", "Roles")
    ),
    "AWS::IAM::Policy": ResourceType(delete=_delete_policy, **_named(_put_policy, "PolicyName")),
    "AWS::IAM::Role": ResourceType(_create_role, _delete_role, _update_role, ("RoleName", "Path")),
    "AWS::Lambda::Function": ResourceType(
        _create_function, _delete_function, _update_function, ("FunctionName",)
    ),
    "AWS::Lambda::EventInvokeConfig": ResourceType(
        _put_invoke_config, _delete_invoke_config, _change_invoke_config, ("FunctionName",)
    ),
    "AWS::Lambda::Permission": ResourceType(_create_permission, _delete_permission),
    "AWS::Logs::LogGroup": ResourceType(_create_log_group, _delete_log_group),
    "AWS::Logs::ResourcePolicy": ResourceType(
        delete=_delete_log_policy, **_named(_put_log_policy, "PolicyName", 255)
    ),
    "AWS::S3::Bucket": ResourceType(_create_bucket, _delete_bucket),
    "AWS::S3::BucketPolicy": ResourceType(
        lambda request: _put_bucket_policy(request, request.properties["Bucket"]),
        _delete_bucket_policy,
        lambda request, made: _put_bucket_policy(request, made.physical_id),
        ("Bucket",),
    ),
    "AWS::SNS::Subscription": ResourceType(_create_subscription, _delete_subscription),
    "AWS::SNS::Topic": ResourceType(_create_topic, _delete_topic),
    "AWS::SNS::TopicPolicy": ResourceType(
        _put_topic_policy, _delete_topic_policy, lambda request, made: _put_topic_policy(request), ("Topics",)
    ),
    "AWS::SQS::Queue": ResourceType(_create_queue, _delete_queue),
    "AWS::SQS::QueuePolicy": ResourceType(
        _put_queue_policy, _delete_queue_policy, lambda request, made: _put_queue_policy(request), ("Queues",)
    ),
    "AWS::SSM::Document": ResourceType(
        _create_document, _delete_document, _update_document, ("Name", "DocumentType")
    ),
    "AWS::SSM::Parameter": ResourceType(
        lambda request: _put_parameter(request, overwrite=False),
        _delete_parameter,
        lambda request, made: _put_parameter(request, overwrite=True),
        ("Name",),
    ),
    "AWS::Scheduler::Schedule": ResourceType(
        _create_schedule, _delete_schedule, _update_schedule, ("Name", "GroupName")
    ),
    "AWS::Scheduler::ScheduleGroup": ResourceType(_create_schedule_group, _delete_schedule_group),
    "AWS::StepFunctions::StateMachine": ResourceType(
        _create_machine, _delete_machine, _update_machine, ("StateMachineName", "StateMachineType")
    ),
}
for _name in INERT:
    RESOURCE_TYPES[_name] = ResourceType(
        lambda request: Made(f"{request.logical_id}-{request.random}"),
        lambda request, made: None,
        lambda request, made: made,
    )
