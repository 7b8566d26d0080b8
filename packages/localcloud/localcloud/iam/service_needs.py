"""What the calls of the other services need. A service's own page of the Service Authorization Reference says it."""

from __future__ import annotations

from collections.abc import Iterator

from localcloud.iam.account import Account
from localcloud.iam.administration_needs import ADMINISTRATION, on_iam
from localcloud.iam.dynamodb_needs import DYNAMODB
from localcloud.iam.ec2_needs import EC2
from localcloud.iam.need import Need, Needs, Params, arn, for_each, listed, named
from localcloud.iam.s3_needs import S3

AWS_DOCUMENTS = ("AWS-", "AmazonCloudWatch-", "AmazonSSM-")


# -- Systems Manager ------------------------------------------------------------------------------------------


def _send_command(params: Params, look: Account) -> Iterator[Need]:
    document = str(params["DocumentName"])
    if not document.startswith("arn:"):
        owner = "" if document.startswith(AWS_DOCUMENTS) else None
        document = arn(look, "ssm", f"document/{document}", account=owner)
    yield Need("ssm:SendCommand", document, "document", resource_tags={})
    instances = list(listed(params.get("InstanceIds")))
    for target in listed(params.get("Targets")):
        if target["Key"] == "InstanceIds":
            instances += target["Values"]
        elif target["Key"].startswith("tag:"):
            for value in target["Values"]:
                tags = {target["Key"].removeprefix("tag:"): value}
                yield Need("ssm:SendCommand", arn(look, "ec2", "instance/*"), "instance", resource_tags=tags)
        else:
            yield Need("ssm:SendCommand", arn(look, "ec2", "instance/*"), "instance", resource_tags={})
    for instance in instances:
        yield Need(
            "ssm:SendCommand",
            arn(look, "ec2", f"instance/{instance}"),
            "instance",
            resource_tags=look.ec2_tags(instance),
        )


def parameter_arn(look: Account, name: str) -> str:
    return name if name.startswith("arn:") else arn(look, "ssm", f"parameter/{name.removeprefix('/')}")


def _parameters(action: str, parameter: str) -> Needs:
    return lambda params, look: [
        Need(f"ssm:{action}", parameter_arn(look, name), "parameter") for name in listed(params[parameter])
    ]


# -- CloudWatch, load balancing, Route 53 ---------------------------------------------------------------------


def _put_metric_data(params: Params, look: Account) -> list[Need]:
    return [Need("cloudwatch:PutMetricData", keys={"cloudwatch:namespace": (params["Namespace"],)})]


def _alarm(look: Account, name: str) -> str:
    return arn(look, "cloudwatch", f"alarm:{name}")


def _alarms(action: str, *, all_without_names: bool = False) -> Needs:
    def needs(params: Params, look: Account) -> list[Need]:
        names = listed(params.get("AlarmNames")) or (["*"] if all_without_names else [])
        return [Need(f"cloudwatch:{action}", _alarm(look, name), "alarm") for name in names]

    return needs


def _put_metric_alarm(params: Params, look: Account) -> Iterator[Need]:
    tags = {tag["Key"]: tag["Value"] for tag in listed(params.get("Tags"))}
    actions = [
        action
        for key in ("AlarmActions", "OKActions", "InsufficientDataActions")
        for action in listed(params.get(key))
    ]
    resource = _alarm(look, params["AlarmName"])
    keys = {"cloudwatch:alarmactions": tuple(actions) or None}
    yield Need("cloudwatch:PutMetricAlarm", resource, "alarm", keys, request_tags=tags)
    if tags:
        yield Need("cloudwatch:TagResource", resource, "alarm", request_tags=tags)


def _set_alarm_state(params: Params, look: Account) -> list[Need]:
    return [Need("cloudwatch:SetAlarmState", _alarm(look, params["AlarmName"]), "alarm")]


def _on_arn(action: str, kind: str, parameter: str) -> Needs:
    return lambda params, look: [Need(action, str(params[parameter]), kind)]


def _listener(action: str) -> Needs:
    def needs(params: Params, look: Account) -> list[Need]:
        resource = str(params["ListenerArn"])
        family = resource.split("listener/", 1)[-1].split("/")[0]
        return [Need(f"elasticloadbalancing:{action}", resource, f"listener/{family}")]

    return needs


def _zone(params: Params) -> str:
    name = str(params.get("HostedZoneId") or params.get("Id")).rsplit("/", 1)[-1]
    return f"arn:aws:route53:::hostedzone/{name}"


def _in_zone(action: str) -> Needs:
    return lambda params, look: [Need(f"route53:{action}", _zone(params), "hostedzone")]


def _change_records(params: Params, look: Account) -> list[Need]:
    changes = listed(params["ChangeBatch"]["Changes"])
    sets = [change["ResourceRecordSet"] for change in changes]
    prefix = "route53:changeresourcerecordsets"
    keys = {
        f"{prefix}normalizedrecordnames": tuple(one["Name"].rstrip(".").lower() for one in sets),
        f"{prefix}recordtypes": tuple(one["Type"] for one in sets),
        f"{prefix}actions": tuple(change["Action"] for change in changes),
    }
    return [Need("route53:ChangeResourceRecordSets", _zone(params), "hostedzone", keys)]


def _health_check(action: str) -> Needs:
    return lambda params, look: [
        Need(f"route53:{action}", f"arn:aws:route53:::healthcheck/{params['HealthCheckId']}", "healthcheck")
    ]


def _tag_route53(action: str) -> Needs:
    return lambda params, look: [
        Need(
            f"route53:{action}",
            f"arn:aws:route53:::{params['ResourceType']}/{params['ResourceId']}",
            str(params["ResourceType"]),
        )
    ]


# -- Lambda, Step Functions, events, messages, logs -----------------------------------------------------------


def function_arn(look: Account, name: str) -> str:
    """From a name, a partial ARN (account:function:name) or an ARN."""
    if name.startswith("arn:"):
        return name
    return arn(look, "lambda", f"function:{name.split('function:', 1)[-1]}")


def _function(action: str) -> Needs:
    return lambda params, look: [
        Need(f"lambda:{action}", function_arn(look, str(params["FunctionName"])), "function")
    ]


def _execution(action: str) -> Needs:
    return _on_arn(f"states:{action}", "execution", "executionArn")


def _machine(action: str) -> Needs:
    return _on_arn(f"states:{action}", "statemachine", "stateMachineArn")


def _put_events(params: Params, look: Account) -> list[Need]:
    """An entry each: a condition may ask for its source and its detail-type."""
    return [
        Need(
            "events:PutEvents",
            bus if bus.startswith("arn:") else arn(look, "events", f"event-bus/{bus}"),
            "event-bus",
            {
                "events:source": (str(entry.get("Source", "")),),
                "events:detail-type": (str(entry.get("DetailType", "")),),
            },
        )
        for entry in params["Entries"]
        for bus in [str(entry.get("EventBusName") or "default")]
    ]


def _rule(action: str, parameter: str = "Name") -> Needs:
    return named(f"events:{action}", "rule-on-default-event-bus", "events", "rule/{}", parameter)


def _queue(action: str) -> Needs:
    def needs(params: Params, look: Account) -> list[Need]:
        name = str(params.get("QueueName") or str(params["QueueUrl"]).rsplit("/", 1)[-1])
        queue = arn(look, "sqs", name)
        return [Need(f"sqs:{action}", queue, "queue"), *_key_of_queue(action, queue, look)]

    return needs


def _key_of_queue(action: str, queue: str, look: Account) -> Iterator[Need]:
    """A sender makes a data key and opens it again, a receiver opens it."""
    needs = key_of_message(look.key_of_queue(queue), "sqs", look)
    match action:
        case "SendMessage":
            yield from needs
        case "ReceiveMessage":
            yield from (need for need in needs if need.action == "kms:Decrypt")
        case _:
            pass


def _publish(params: Params, look: Account) -> list[Need]:
    return delivery_needs("sns", str(params.get("TopicArn") or params.get("TargetArn")), look)


def delivery_needs(service: str, target_arn: str, look: Account) -> list[Need]:
    """What it takes to deliver to a target of one of the services in DELIVERED."""
    action, kind = DELIVERED[service]
    keys = {"sns": look.key_of_topic, "sqs": look.key_of_queue}
    key = keys[service](target_arn) if service in keys else None
    return [Need(action, target_arn, kind), *key_of_message(key, service, look)]


def key_of_message(key: str | None, service: str, look: Account) -> Iterator[Need]:
    """A message to an encrypted topic or queue: the sender makes its data key."""
    via = {
        "kms:viaservice": (f"{service}.{look.region}.amazonaws.com",),
        "kms:calleraccount": (look.account_id,),
    }
    for action in ("GenerateDataKey", "Decrypt") if key else ():
        yield Need(f"kms:{action}", str(key), "key", via)


def _log_stream(action: str) -> Needs:
    return lambda params, look: [
        Need(
            f"logs:{action}",
            arn(look, "logs", f"log-group:{params['logGroupName']}:log-stream:{params['logStreamName']}"),
            "log-stream",
        )
    ]


def _log_group(action: str) -> Needs:
    def needs(params: Params, look: Account) -> list[Need]:
        names = [params.get("logGroupName"), *listed(params.get("logGroupNames"))]
        arns = [params.get("logGroupIdentifier"), *listed(params.get("logGroupIdentifiers"))]
        given = [name for name in names if name] + [
            str(each).split("log-group:", 1)[-1] for each in arns if each
        ]
        return [
            Need(
                f"logs:{action}",
                arn(look, "logs", f"log-group:{name.removesuffix(':*')}:log-stream:"),
                "log-group",
            )
            for name in given or [""]
        ]

    return needs


def _assume_role(params: Params, look: Account) -> list[Need]:
    return [Need("sts:AssumeRole", str(params["RoleArn"]), "role")]


# -- all of them ----------------------------------------------------------------------------------------------


def _key(action: str) -> Needs:
    def needs(params: Params, look: Account) -> list[Need]:
        given = str(params["KeyId"])
        own = look.customer_key(given) or (given if given.startswith("arn:") else None)
        keys = {
            "kms:viaservice": None,
            "kms:grantisforawsresource": None,
            "kms:calleraccount": (look.account_id,),
        }
        constraints = params.get("Constraints") or {}
        context: dict[str, str] = params.get("EncryptionContext") or next(iter(constraints.values()), {})
        key = own or arn(look, "kms", f"key/{given}")
        return [Need(f"kms:{action}", key, "key", keys, encryption_context=context)]

    return needs


def _simulate(params: Params, _: Account) -> list[Need]:
    principal = str(params["PolicySourceArn"])
    return [Need("iam:SimulatePrincipalPolicy", principal, principal.split(":")[5].split("/")[0])]


def _quota(params: Params, look: Account) -> list[Need]:
    quota = arn(look, "servicequotas", f"{params['ServiceCode']}/{params['QuotaCode']}")
    keys = {"servicequotas:service": (params["ServiceCode"],)}
    return [Need("servicequotas:GetServiceQuota", quota, "quota", keys)]


# By the service of a target.
DELIVERED = {
    "states": ("states:StartExecution", "statemachine"),
    "lambda": ("lambda:InvokeFunction", "function"),
    "sqs": ("sqs:SendMessage", "queue"),
    "sns": ("sns:Publish", "topic"),
}
# By botocore's service and operation; the action that it needs may have another prefix.
NEEDS: dict[str, Needs] = {
    **EC2,
    **ADMINISTRATION,
    **DYNAMODB,
    **S3,
    "ssm:SendCommand": _send_command,
    "ssm:GetParameter": _parameters("GetParameter", "Name"),
    "ssm:GetParametersByPath": _parameters("GetParametersByPath", "Path"),
    "ssm:PutParameter": _parameters("PutParameter", "Name"),
    "ssm:DeleteParameter": _parameters("DeleteParameter", "Name"),
    "cloudwatch:PutMetricData": _put_metric_data,
    "cloudwatch:PutMetricAlarm": _put_metric_alarm,
    "cloudwatch:SetAlarmState": _set_alarm_state,
    "cloudwatch:DescribeAlarms": _alarms("DescribeAlarms", all_without_names=True),
    **for_each(_alarms, ("DeleteAlarms", "DisableAlarmActions", "EnableAlarmActions"), "cloudwatch"),
    "cloudwatch:DescribeAlarmHistory": lambda params, look: [
        Need("cloudwatch:DescribeAlarmHistory", _alarm(look, params.get("AlarmName") or "*"), "alarm")
    ],
    **for_each(
        lambda action: _on_arn(f"elasticloadbalancing:{action}", "targetgroup", "TargetGroupArn"),
        ("RegisterTargets", "DeregisterTargets", "ModifyTargetGroup", "DeleteTargetGroup"),
        "elbv2",
    ),
    **for_each(_listener, ("ModifyListener", "DeleteListener"), "elbv2"),
    **for_each(_in_zone, ("ListResourceRecordSets", "GetHostedZone"), "route53"),
    "route53:ChangeResourceRecordSets": _change_records,
    **for_each(_health_check, ("GetHealthCheck", "DeleteHealthCheck"), "route53"),
    **for_each(_tag_route53, ("ChangeTagsForResource", "ListTagsForResource"), "route53"),
    "lambda:Invoke": _function("InvokeFunction"),
    **for_each(
        _function,
        (
            *("GetFunction", "GetFunctionConfiguration", "UpdateFunctionCode", "UpdateFunctionConfiguration"),
            *("AddPermission", "DeleteFunction"),
        ),
        "lambda",
    ),
    **for_each(
        _machine,
        (
            *("StartExecution", "ListExecutions"),
            *("DescribeStateMachine", "UpdateStateMachine", "DeleteStateMachine"),
        ),
        "stepfunctions",
    ),
    **for_each(
        _execution,
        ("DescribeExecution", "StopExecution", "RedriveExecution", "GetExecutionHistory"),
        "stepfunctions",
    ),
    "events:PutEvents": _put_events,
    **for_each(_rule, ("PutRule", "DescribeRule", "EnableRule", "DisableRule", "DeleteRule"), "events"),
    **for_each(
        lambda action: _rule(action, "Rule"), ("PutTargets", "ListTargetsByRule", "RemoveTargets"), "events"
    ),
    "sns:Publish": _publish,
    **for_each(
        lambda action: _on_arn(f"sns:{action}", "topic", "TopicArn"),
        ("Subscribe", "SetTopicAttributes", "DeleteTopic", "ListSubscriptionsByTopic"),
        "sns",
    ),
    **for_each(
        _queue,
        (
            *("SendMessage", "ReceiveMessage", "DeleteMessage", "ChangeMessageVisibility"),
            *("GetQueueUrl", "GetQueueAttributes", "PurgeQueue", "DeleteQueue", "SetQueueAttributes"),
        ),
        "sqs",
    ),
    **for_each(_log_stream, ("CreateLogStream", "PutLogEvents"), "logs"),
    **for_each(
        _log_group,
        (
            *("CreateLogGroup", "FilterLogEvents", "DescribeLogStreams"),
            *("DeleteLogGroup", "PutRetentionPolicy"),
        ),
        "logs",
    ),
    "sts:AssumeRole": _assume_role,
    **for_each(
        _key,
        (
            *("Encrypt", "Decrypt", "GenerateDataKey", "GenerateDataKeyWithoutPlaintext"),
            *("DescribeKey", "CreateGrant", "ScheduleKeyDeletion", "PutKeyPolicy", "DisableKey"),
        ),
        "kms",
    ),
    "iam:GetInstanceProfile": on_iam("GetInstanceProfile", "instance-profile", "InstanceProfileName"),
    "iam:SimulatePrincipalPolicy": _simulate,
    "service-quotas:GetServiceQuota": _quota,
}
IAM_PREFIX = {"elbv2": "elasticloadbalancing", "service-quotas": "servicequotas", "stepfunctions": "states"}
