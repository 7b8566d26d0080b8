"""Rights on Peaker's data: ledger, settings, prices, metrics, files, and the key that they are under."""

from __future__ import annotations

from collections.abc import Sequence

from peaker_contract.names import EVENT_SOURCE
from stacks.naming import Names
from stacks.rights.statement import NO_RESOURCE_LEVEL, Statement

# What a use of the environment's own key takes, where the settings name one.
READ_TABLE = ("Decrypt", "DescribeKey")
WRITE_TABLE = (*READ_TABLE, "Encrypt", "GenerateDataKey", "ReEncryptFrom", "ReEncryptTo")
SEND = ("GenerateDataKey", "Decrypt")
RECEIVE = ("Decrypt",)
MISTYPED = (
    "A name that is no cluster must be answered with not found, which AWS says only to who may read it."
)


def read_cluster_settings(names: Names) -> list[Statement]:
    any_cluster = names.cluster_parameter_arn("*")
    return [
        Statement(("ssm:GetParameter",), (any_cluster,), wildcard_reason=MISTYPED),
        *list_clusters(names),
    ]


def list_clusters(names: Names) -> list[Statement]:
    # Listing by path is authorized on the path itself; with or without the slash at its end.
    path = names.cluster_parameter_arn("")
    return [Statement(("ssm:GetParametersByPath",), (path, path.rstrip("/")))]


def read_prices(names: Names) -> list[Statement]:
    return [Statement(("ssm:GetParameter",), (names.prices_parameter_arn,))]


def fetch_prices(names: Names) -> list[Statement]:
    return [
        Statement(("pricing:GetProducts",), ("*",), wildcard_reason=NO_RESOURCE_LEVEL),
        Statement(("ssm:GetParameter", "ssm:PutParameter"), (names.prices_parameter_arn,)),
    ]


# What runs are planned by: the initialization rate of a region; vCPUs of standard, X and high memory instances; storage
# of gp3 and io2, and the IOPS of io2.
QUOTAS = (
    "ebs/L-A37D9CF3",
    *("ec2/L-1216C47A", "ec2/L-7295265B", "ec2/L-43DA4232"),
    *("ebs/L-7A658B76", "ebs/L-09BD8365", "ebs/L-8D977E7E"),
)


def read_quotas(names: Names) -> list[Statement]:
    """AWS's defaults are of no account, so their call knows no resource."""
    default = ("servicequotas:GetAWSDefaultServiceQuota",)
    return [
        Statement(
            ("servicequotas:GetServiceQuota",),
            tuple(names.arn("servicequotas", one) for one in QUOTAS),
        ),
        Statement(default, ("*",), wildcard_reason=NO_RESOURCE_LEVEL),
    ]


def data_key_statements(names: Names, service: str, actions: Sequence[str]) -> list[Statement]:
    """Returns the rights by which a role uses the environment's own key through one service; nothing where
    there is none.
    """
    environment = names.environment
    if environment.data_key_arn is None:
        return []
    through = {"StringEquals": {"kms:ViaService": f"{service}.{environment.region}.amazonaws.com"}}
    return [Statement(tuple(f"kms:{one}" for one in actions), (environment.data_key_arn,), through)]


def _ledger_statement(names: Names, *actions: str) -> list[Statement]:
    writes = not {"GetItem", "Query"}.issuperset(actions)
    return [
        Statement(tuple(f"dynamodb:{action}" for action in actions), (names.ledger_table_arn,)),
        *data_key_statements(names, "dynamodb", WRITE_TABLE if writes else READ_TABLE),
    ]


def read_ledger(names: Names) -> list[Statement]:
    return _ledger_statement(names, "Query")


def write_ledger(names: Names) -> list[Statement]:
    # A transaction is authorized by the actions of its parts.
    actions = ("GetItem", "Query", "PutItem", "UpdateItem", "ConditionCheckItem")
    return _ledger_statement(names, *actions)


def keep_forecasts(names: Names) -> list[Statement]:
    return _ledger_statement(names, "GetItem", "Query", "PutItem")


WORKFLOWS = ("scale_out", "scale_in", "roll_back")


def list_executions(names: Names) -> list[Statement]:
    arns = tuple(names.state_machine_arn(one) for one in WORKFLOWS)
    return [Statement(("states:ListExecutions",), arns)]


def follow_executions(names: Names) -> list[Statement]:
    return [
        Statement(
            ("states:DescribeExecution",),
            tuple(names.arn("states", f"execution:{names.state_machine(one)}:*") for one in WORKFLOWS),
            wildcard_reason="The executions of this environment's workflows, whose names are made as they start.",
        ),
    ]


def start_scale_out(names: Names) -> list[Statement]:
    return [Statement(("states:StartExecution",), (names.state_machine_arn("scale_out"),))]


def tell_operators(names: Names) -> list[Statement]:
    """Allows pages to the operators' topic; nothing where the environment names no address."""
    if names.environment.alarm_email is None:
        return []
    return [
        Statement(("sns:Publish",), (names.operator_topic_arn,)),
        *data_key_statements(names, "sns", SEND),
    ]


def put_events(names: Names) -> list[Statement]:
    return [
        Statement(
            ("events:PutEvents",),
            (names.event_bus_arn,),
            {"StringEquals": {"events:source": EVENT_SOURCE}},
        )
    ]


def publish_metrics(names: Names) -> list[Statement]:
    return [
        Statement(
            ("cloudwatch:PutMetricData",),
            ("*",),
            {"StringEquals": {"cloudwatch:namespace": names.metric_namespace}},
            "PutMetricData has no resource; the condition narrows it to the environment's namespace.",
        )
    ]


def read_host_package(names: Names) -> list[Statement]:
    """The hosts fetch it by an address that the function signs, so the function's role needs the bucket's key too."""
    environment = names.environment
    granted = [Statement(("s3:GetObject",), (names.host_package_object_arn,))]
    if environment.bootstrap_key_arn:
        via_s3 = {"StringEquals": {"kms:ViaService": f"s3.{environment.region}.amazonaws.com"}}
        granted.append(Statement(("kms:Decrypt",), (environment.bootstrap_key_arn,), via_s3))
    return granted


def publish_run_files(names: Names) -> list[Statement]:
    return [
        Statement(
            ("s3:PutObject", "s3:GetObject"),
            (f"{names.run_files_bucket_arn}/runs/*",),
            wildcard_reason="One folder per run, in a bucket for nothing else; its name exists once the run has begun.",
        ),
        *data_key_statements(names, "s3", SEND),
    ]
