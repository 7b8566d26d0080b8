"""Rules, alarms, dashboards and logs."""

from __future__ import annotations

import json

from localcloud.extensions.cloudformation.resource_type import (
    Made,
    Request,
    ResourceType,
    call,
    deletes,
    gone,
    in_shape,
    named,
    tag_list,
    tag_map,
)


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
        Tags=tag_list(request),
    )
    bus = {"EventBusName": request.properties["EventBusName"]} if "EventBusName" in request.properties else {}
    wanted = request.properties.get("Targets", [])
    known = client.list_targets_by_rule(Rule=name, **bus)["Targets"]
    stale = {target["Id"] for target in known} - {target["Id"] for target in wanted}
    if stale:
        client.remove_targets(Rule=name, Ids=sorted(stale), **bus)
    if wanted:
        members = client.meta.service_model.operation_model("PutTargets").input_shape.members["Targets"]
        client.put_targets(Rule=name, Targets=in_shape(wanted, members), **bus)
    return Made(name, {"Arn": answer["RuleArn"], "bus": bus})


@gone("ResourceNotFoundException")
def _delete_rule(request: Request, made: Made) -> None:
    client, bus = request.client("events"), made.attributes["bus"]
    targets = client.list_targets_by_rule(Rule=made.physical_id, **bus)["Targets"]
    if targets:
        client.remove_targets(Rule=made.physical_id, Ids=[target["Id"] for target in targets], **bus)
    client.delete_rule(Name=made.physical_id, **bus)


def _put_alarm(request: Request, name: str) -> Made:
    call(request, "cloudwatch", "put_metric_alarm", AlarmName=name, Tags=tag_list(request))
    return Made(name, {"Arn": request.arn("cloudwatch", f"alarm:{name}")})


def _put_dashboard(request: Request, name: str) -> Made:
    request.client("cloudwatch").put_dashboard(
        DashboardName=name, DashboardBody=request.properties["DashboardBody"]
    )
    return Made(name)


def _create_log_group(request: Request) -> Made:
    name, client = request.name("LogGroupName", 512), request.client("logs")
    key = request.properties.get("KmsKeyId")
    client.create_log_group(
        logGroupName=name, tags=tag_map(request), **({"kmsKeyId": str(key)} if key else {})
    )
    if "RetentionInDays" in request.properties:
        client.put_retention_policy(
            logGroupName=name, retentionInDays=int(request.properties["RetentionInDays"])
        )
    return Made(name, {"Arn": request.arn("logs", f"log-group:{name}:*")})


TYPES: dict[str, ResourceType] = {
    "AWS::CloudWatch::Alarm": ResourceType(
        delete=lambda request, made: request.client("cloudwatch").delete_alarms(
            AlarmNames=[made.physical_id]
        ),
        **named(_put_alarm, "AlarmName", 255),
    ),
    "AWS::CloudWatch::Dashboard": ResourceType(
        delete=lambda request, made: request.client("cloudwatch").delete_dashboards(
            DashboardNames=[made.physical_id]
        ),
        **named(_put_dashboard, "DashboardName", 255),
    ),
    "AWS::Events::Rule": ResourceType(delete=_delete_rule, **named(_put_rule, "Name", 64)),
    "AWS::Logs::LogGroup": ResourceType(
        _create_log_group, deletes("logs", "delete_log_group", "logGroupName", "ResourceNotFoundException")
    ),
}
