"""The rights of `peaker rehearse`: to make, use and remove what carries a rehearsal's tag or name, and nothing else."""

from __future__ import annotations

from stacks.naming import Names
from stacks.rights.hosts import use_volume_keys
from stacks.rights.statement import MAY_USE, NO_RESOURCE_LEVEL, Statement, listed

TAG, PREFIX, NAMESPACE, EVENT_SOURCE = (
    "peaker:rehearsal",
    "peaker-rehearsal-",
    "PeakerRehearsal",
    "peaker.rehearsal",
)
TO_BE_TAGGED = {"StringLike": {f"aws:RequestTag/{TAG}": "?*"}}
TAGGED = {"StringLike": {f"aws:ResourceTag/{TAG}": "?*"}}
OWN = "A rehearsal's things have a tag or a name of their own, which ends in its time."
MAKING = ("RunInstances", "CreateVolume", "CreateSnapshot", "CreateSnapshots")


def rehearse(names: Names) -> list[Statement]:
    """The statements of a rehearsal of any cluster of the environment."""
    looking = (
        *(f"ec2:Describe{what}" for what in ("Instances", "Volumes", "Snapshots", "Subnets")),
        *(
            f"elasticloadbalancing:Describe{what}"
            for what in ("LoadBalancers", "TargetGroups", "Listeners", "TargetHealth")
        ),
        *("ssm:DescribeInstanceInformation", "ssm:GetCommandInvocation", "ssm:ListCommands"),
        *("cloudwatch:GetMetricData", "events:ListRules", "sqs:ListQueues", "states:ListStateMachines"),
    )
    return [
        Statement(looking, ("*",), wildcard_reason=NO_RESOURCE_LEVEL),
        Statement(
            ("ssm:CancelCommand",),
            ("*",),
            wildcard_reason="AWS offers no resource-level permission for CancelCommand.",
        ),
        Statement(
            ("ssm:GetParameter",),
            (names.cluster_parameter_arn("*"), names.prices_parameter_arn),
            wildcard_reason="A rehearsal reads the settings of its cluster, and the prices.",
        ),
        *_hosts_and_storage(names),
        *_endpoint(names),
        *_named(names),
    ]


def _hosts_and_storage(names: Names) -> list[Statement]:
    reach, arn = names.reach, names.arn
    instance, volume = arn("ec2", "instance/*"), arn("ec2", "volume/*")
    snapshot = arn("ec2", "snapshot/*", account="")
    given = (
        *(arn("ec2", f"image/{one}", account="") for one in reach.image_patterns),
        *(arn("ec2", f"subnet/{one}", account="*") for one in reach.subnet_patterns),
        *(arn("ec2", f"security-group/{one}", account="*") for one in reach.security_group_patterns),
    )
    actions = tuple(f"ec2:{one}" for one in MAKING)
    ending = ("TerminateInstances", "AttachVolume", "DeleteVolume", "DeleteSnapshot")
    using = ("CreateVolume", "CreateSnapshot", "CreateSnapshots")
    granted = [
        Statement(actions, (instance, volume, snapshot), TO_BE_TAGGED, OWN),
        Statement(
            tuple(f"ec2:{one}" for one in (*ending, *using)), (instance, volume, snapshot), TAGGED, OWN
        ),
        Statement(
            ("ec2:RunInstances",),
            (arn("ec2", "network-interface/*"),),
            wildcard_reason="The interface is made by the launch, in the subnets and groups named above.",
        ),
        Statement(("ec2:RunInstances",), given, wildcard_reason=MAY_USE),
        Statement(
            ("ec2:CreateTags",),
            (instance, volume, snapshot),
            {"StringEquals": {"ec2:CreateAction": list(MAKING)}},
            "Tags may be set only on what is being made; the id does not exist before.",
        ),
        Statement(("ssm:SendCommand",), (instance,), {"StringLike": {f"ssm:resourceTag/{TAG}": "?*"}}, OWN),
        Statement(
            ("ssm:SendCommand",),
            (arn("ssm", "document/AWS-RunShellScript", account=""), arn("ssm", f"document/{PREFIX}*")),
            wildcard_reason=OWN,
        ),
    ]
    if reach.instance_role_patterns:
        to_ec2 = {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}}
        granted.append(listed(("iam:PassRole",), reach.instance_role_patterns, to_ec2))
    return [*granted, *use_volume_keys(names)]


def _endpoint(names: Names) -> list[Statement]:
    kinds = (f"loadbalancer/net/{PREFIX}*/*", f"targetgroup/{PREFIX}*/*", f"listener/net/{PREFIX}*/*")
    making = ("LoadBalancer", "TargetGroup", "Listener")
    actions = (
        *(f"{verb}{what}" for verb in ("Create", "Delete") for what in making),
        *("AddTags", "RegisterTargets", "DeregisterTargets"),
    )
    own = tuple(names.arn("elasticloadbalancing", kind) for kind in kinds)
    return [Statement(tuple(f"elasticloadbalancing:{one}" for one in actions), own, wildcard_reason=OWN)]


def _named(names: Names) -> list[Statement]:
    """What has a name. The role holds no policy, and these statements give it none."""
    queue = ("CreateQueue", "TagQueue", "GetQueueUrl", "GetQueueAttributes", "SetQueueAttributes")
    rules = ("PutRule", "TagResource", "PutTargets", "RemoveTargets", "DeleteRule")
    machines = (
        *("CreateStateMachine", "TagResource", "DeleteStateMachine", "DescribeStateMachine"),
        *("StartExecution", "ListExecutions"),
    )
    executions = ("DescribeExecution", "GetExecutionHistory", "StopExecution", "RedriveExecution")
    table = (
        *("CreateTable", "TagResource", "DescribeTable", "UpdateTimeToLive", "DeleteTable"),
        *("PutItem", "ConditionCheckItem", "Query"),
    )
    role = names.iam_arn(f"role/{PREFIX}*")
    to_states = {"StringEquals": {"iam:PassedToService": "states.amazonaws.com"}}
    by_name: tuple[tuple[str, tuple[str, ...], str], ...] = (
        ("sqs", (*queue, "ReceiveMessage", "DeleteMessage", "DeleteQueue"), f"{PREFIX}*"),
        ("events", rules, f"rule/{PREFIX}*"),
        ("cloudwatch", ("PutMetricAlarm", "DeleteAlarms"), f"alarm:{PREFIX}*"),
        ("cloudwatch", ("DescribeAlarms",), "alarm:*"),
        (
            "ssm",
            ("CreateDocument", "DescribeDocument", "DeleteDocument", "AddTagsToResource"),
            f"document/{PREFIX}*",
        ),
        ("ssm", ("PutParameter",), f"parameter/{PREFIX}*"),
        ("states", machines, f"stateMachine:{PREFIX}*"),
        ("states", executions, f"execution:{PREFIX}*"),
        ("dynamodb", table, f"table/{PREFIX}*"),
    )
    return [
        *(
            Statement(
                tuple(f"{service}:{one}" for one in actions),
                (names.arn(service, resource),),
                wildcard_reason=OWN,
            )
            for service, actions, resource in by_name
        ),
        Statement(
            ("events:PutEvents",),
            (names.event_bus_arn,),
            {"StringEquals": {"events:source": EVENT_SOURCE}},
        ),
        Statement(
            ("cloudwatch:PutMetricData",),
            ("*",),
            {"StringEquals": {"cloudwatch:namespace": NAMESPACE}},
            "AWS offers no resource-level permission for PutMetricData; the namespace is the rehearsal's.",
        ),
        Statement(
            tuple(f"iam:{one}" for one in ("CreateRole", "TagRole", "GetRole", "DeleteRole")),
            (role,),
            wildcard_reason=OWN,
        ),
        Statement(("iam:PassRole",), (role,), to_states, OWN),
    ]
