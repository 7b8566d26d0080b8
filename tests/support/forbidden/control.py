"""Functions, workflows, rules, alarms, read endpoints, logs and rights that a role must not change or call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from peaker_contract.catalogue import FUNCTIONS
from peaker_contract.permissions import Permission as P
from stacks.people_statements import WORKFLOWS_TO_START
from statemachines.expansion import workflow_names
from statemachines.structure import placeholders
from tests.support.forbidden.cell import Cell
from tests.support.forbidden.roles import Role
from tests.support.forbidden.setting import FOREIGN_ROLE, OTHER, Setting
from tests.support.workflows import MACHINES

CHILDREN = {
    "scale_out": ("add_replica",),
    "add_replica": ("prewarm",),
    "scale_in": ("remove_replica",),
}
Action = Callable[[Any], object]


def cells(role: Role, s: Setting) -> Iterator[Cell]:
    yield from _functions(role, s)
    yield from _workflows(role, s)
    yield from _rights(role, s)
    yield from _balancers(role, s)
    yield from _records(role, s)
    yield from _alarms(role, s)
    yield from _rules(role, s)
    yield from _logs(role, s)


def _functions(role: Role, s: Setting) -> Iterator[Cell]:
    called = placeholders(MACHINES[role.job]) if role.kind == "workflow" else set()
    for one in FUNCTIONS:
        replays = role.is_set("operate") and one.is_asynchronous
        if f"{one.pascal_name}Arn" not in called and not replays:
            name = s.names.function(one.name)
            invoke = lambda c, name=name: c.invoke(FunctionName=name)  # noqa: E731
            yield Cell(f"invoke {name}", "lambda", invoke, True)
    for name in (f"peaker-{OTHER}-undo_run", "foreign-function"):
        yield Cell(f"invoke {name}", "lambda", lambda c, name=name: c.invoke(FunctionName=name))


def _workflows(role: Role, s: Setting) -> Iterator[Cell]:
    for name in workflow_names():
        own = s.names.state_machine_arn(name)
        if not _starts(role, name):
            yield Cell(
                f"start {name}", "stepfunctions", lambda c, m=own: c.start_execution(stateMachineArn=m), True
            )
        theirs = s.names.arn("states", f"stateMachine:peaker-{OTHER}-{name}")
        yield Cell(
            f"start another environment's {name}",
            "stepfunctions",
            lambda c, m=theirs: c.start_execution(stateMachineArn=m),
        )
        if not _stops(role, name):
            stop = f"execution:{s.names.state_machine(name)}:one"
            yield Cell(
                f"stop an execution of {name}",
                "stepfunctions",
                lambda c, e=s.names.arn("states", stop): c.stop_execution(executionArn=e),
                True,
            )
        stop = s.names.arn("states", f"execution:peaker-{OTHER}-{name}:one")
        yield Cell(
            f"stop another environment's execution of {name}",
            "stepfunctions",
            lambda c, e=stop: c.stop_execution(executionArn=e),
        )
        yield Cell(
            f"delete {name}", "stepfunctions", lambda c, m=own: c.delete_state_machine(stateMachineArn=m)
        )
    foreign = s.names.arn("states", "stateMachine:foreign")
    yield Cell(
        "start a foreign workflow", "stepfunctions", lambda c: c.start_execution(stateMachineArn=foreign)
    )


def _starts(role: Role, workflow: str) -> bool:
    """A rule's role starts what its rule is for."""
    if role.kind == "workflow":
        return workflow in CHILDREN.get(role.job, ())
    if role.kind == "other":
        named = role.job.lower().replace("_", "")
        return role.service == "events.amazonaws.com" and workflow.replace("_", "") in named
    if workflow == "scale_out" and role.holds(P.START_SCALE_OUT):
        return True
    return role.is_set("operate") and workflow in WORKFLOWS_TO_START


def _stops(role: Role, workflow: str) -> bool:
    if role.is_set("operate"):
        return True
    return role.kind == "workflow" and workflow in CHILDREN.get(role.job, ())


def _arn(s: Setting, role: str) -> str:
    return f"arn:aws:iam::{s.account}:role/{role}"


def _rights(role: Role, s: Setting) -> Iterator[Cell]:
    """Whoever takes on another role may do what it may."""
    bootstrap = [
        f"cdk-{s.names.environment.bootstrap_qualifier}-{name}-role-{s.account}-{s.names.environment.region}"
        for name in ("cfn-exec", "deploy", "file-publishing", "lookup")
    ]
    for name in (FOREIGN_ROLE, "peaker-replica", role.name, *bootstrap):
        if role.is_set("deploy") and name in bootstrap[1:]:
            continue
        assume = lambda c, name=name: c.assume_role(RoleArn=_arn(s, name), RoleSessionName="somebody")  # noqa: E731
        yield Cell(f"act as {name}", "sts", assume, name in bootstrap)


def _balancers(role: Role, s: Setting) -> Iterator[Cell]:
    target = [{"Id": s.own_instance}]
    register = lambda c, group: c.register_targets(TargetGroupArn=group, Targets=target)  # noqa: E731
    remove = lambda c, group: c.deregister_targets(TargetGroupArn=group, Targets=target)  # noqa: E731
    yield Cell("register at a foreign target group", "elbv2", lambda c: register(c, s.group))
    yield Cell("deregister from a foreign target group", "elbv2", lambda c: remove(c, s.group))
    if not role.holds(P.REGISTER_TARGETS) and not role.is_set("operate"):
        yield Cell("register at the own target group", "elbv2", lambda c: register(c, s.own_group), True)
    if not role.holds(P.DEREGISTER_TARGETS):
        yield Cell("deregister from the own target group", "elbv2", lambda c: remove(c, s.own_group), True)
    listeners = {
        "a foreign": s.own_listener.replace(f"peaker-{s.environment}", "foreign"),
        "the own": s.own_listener,
    }
    for whose, listener in listeners.items():
        if whose == "a foreign" or not role.holds(P.SET_WEIGHTS):
            yield Cell(
                f"send the traffic of {whose} listener elsewhere",
                "elbv2",
                lambda c, listener=listener: c.modify_listener(
                    ListenerArn=listener, DefaultActions=[{"Type": "forward", "TargetGroupArn": s.group}]
                ),
                whose == "the own",
            )
        yield Cell(
            f"delete {whose} listener",
            "elbv2",
            lambda c, listener=listener: c.delete_listener(ListenerArn=listener),
        )
    for whose, group in (("a foreign", s.group), ("the own", s.own_group)):
        yield Cell(
            f"delete {whose} target group",
            "elbv2",
            lambda c, group=group: c.delete_target_group(TargetGroupArn=group),
        )


def _records(role: Role, s: Setting) -> Iterator[Cell]:
    def change(
        zone: str, name: str, kind: str = "A", action: str = "UPSERT", value: str = "10.0.0.9"
    ) -> Action:
        record = {
            "Name": name, "Type": kind, "SetIdentifier": "me", "Weight": 1, "TTL": 30,
            "ResourceRecords": [{"Value": value}],
        }  # fmt: skip
        batch = {"Changes": [{"Action": action, "ResourceRecordSet": record}]}
        return lambda c: c.change_resource_record_sets(HostedZoneId=zone, ChangeBatch=batch)

    jobs = {
        "UPSERT": role.is_set("operate"),
        "DELETE": role.holds(P.DEREGISTER_TARGETS, P.REGISTER_TARGETS, P.SET_WEIGHTS),
        "CREATE": role.holds(P.REGISTER_TARGETS, P.SET_WEIGHTS),
    }
    for action, job in jobs.items():
        yield Cell(
            f"{action} a record of a foreign zone",
            "route53",
            change(s.foreign_zone, s.record_name, action=action),
        )
        yield Cell(
            f"{action} another name of the zone",
            "route53",
            change(s.own_zone, "www.shop.internal", action=action),
            True,
        )
        yield Cell(
            f"{action} a CNAME in the clusters' name",
            "route53",
            change(s.own_zone, s.record_name, "CNAME", action, "elsewhere.example"),
            True,
        )
        if not job:
            yield Cell(
                f"{action} the clusters' own record",
                "route53",
                change(s.own_zone, s.record_name, action=action),
                True,
            )
    if not role.holds(P.DEREGISTER_TARGETS):
        yield Cell(
            "delete a health check",
            "route53",
            lambda c: c.delete_health_check(HealthCheckId="0b0d0000-0000-0000-0000-000000000001"),
            True,
        )


def _alarms(role: Role, s: Setting) -> Iterator[Cell]:
    operators = f"{s.names.prefix}-scale_out-workflow-failed"
    theirs, product = f"peaker-{OTHER}-orders-serves-i-0a", "another-product"
    replica = f"{s.names.prefix}-reports-serves-i-0123456789abcdef0"

    def put(name: str, *actions: str) -> Action:
        return lambda c: c.put_metric_alarm(
            AlarmName=name, EvaluationPeriods=1, ComparisonOperator="LessThanThreshold", Threshold=1.0,
            Namespace="Peaker/local", MetricName="ReplicaServes", Period=60, Statistic="Minimum",
            **({"AlarmActions": list(actions)} if actions else {}),
        )  # fmt: skip

    for name in (operators, theirs, product):
        yield Cell(f"silence {name}", "cloudwatch", lambda c, name=name: c.delete_alarms(AlarmNames=[name]))
        if not (name == operators and role.is_set("operate")):
            silence = lambda c, name=name: c.disable_alarm_actions(AlarmNames=[name])  # noqa: E731
            yield Cell(f"switch off {name}", "cloudwatch", silence, name == operators)
        yield Cell(f"write {name}", "cloudwatch", put(name))
    region = s.names.environment.region
    for action in (f"arn:aws:automate:{region}:ec2:terminate", f"arn:aws:automate:{region}:ec2:stop"):
        yield Cell(f"have an alarm end a host by {action}", "cloudwatch", put(replica, action))
    if not role.holds(P.REGISTER_TARGETS) and not role.is_set("operate"):
        yield Cell("write the alarm of a replica", "cloudwatch", put(replica), True)
    if not role.holds(P.DEREGISTER_TARGETS):
        yield Cell(
            "delete the alarm of a replica",
            "cloudwatch",
            lambda c: c.delete_alarms(AlarmNames=[replica]),
            True,
        )


def _rules(role: Role, s: Setting) -> Iterator[Cell]:
    for name in (f"{s.names.prefix}-prices", f"peaker-{OTHER}-prices"):
        own = name.startswith(s.names.prefix)
        if not (own and role.is_set("operate")):
            yield Cell(f"switch off {name}", "events", lambda c, name=name: c.disable_rule(Name=name), own)
        yield Cell(
            f"write {name}",
            "events",
            lambda c, name=name: c.put_rule(Name=name, ScheduleExpression="rate(1 minute)"),
        )
        yield Cell(
            f"add a target to {name}",
            "events",
            lambda c, name=name: c.put_targets(
                Rule=name, Targets=[{"Id": "me", "Arn": s.names.function_arn("undo_run")}]
            ),
        )
        yield Cell(
            f"take the targets of {name}",
            "events",
            lambda c, name=name: c.remove_targets(Rule=name, Ids=["a"]),
        )
        yield Cell(f"delete {name}", "events", lambda c, name=name: c.delete_rule(Name=name))
    entry = {"Source": "aws.states", "DetailType": "Step Functions Execution Status Change", "Detail": "{}"}
    yield Cell("send an event", "events", lambda c: c.put_events(Entries=[entry]))


def _logs(role: Role, s: Setting) -> Iterator[Cell]:
    for name in ("acquire_lease", "undo_run"):
        if role.kind == "function" and role.job == name:
            continue
        group = f"/aws/lambda/{s.names.function(name)}"
        yield Cell(
            f"write to the log of {name}",
            "logs",
            lambda c, group=group: c.put_log_events(
                logGroupName=group, logStreamName="s", logEvents=[{"timestamp": 0, "message": "x"}]
            ),
            True,
        )
    group = f"/aws/lambda/{s.names.function('undo_run')}"
    theirs = f"/aws/lambda/peaker-{OTHER}-undo_run"
    for log, a_job in ((group, True), (theirs, False)):
        if a_job and role.is_set("read", "operate"):
            continue
        yield Cell(
            f"read the log {log}", "logs", lambda c, log=log: c.filter_log_events(logGroupName=log), a_job
        )
