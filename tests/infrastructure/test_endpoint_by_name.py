"""An environment whose readers find their replicas by a DNS name: no load balancer, narrow rights on one name."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase

from peaker.adapters.read_endpoint.health_checks import alarm_name

from peaker_contract.catalogue import FUNCTIONS
from peaker_contract.cluster import ClusterSettings
from peaker_contract.metrics import SERVICE
from peaker_contract.permissions import Permission
from stacks.rights.hosts import command_statements
from stacks.rights.permissions import statements
from stacks.rights.statement import Statement
from tests.infrastructure.conftest import DATA_KEY, Assembly
from tests.infrastructure.permissions.test_permissions import BY_NAME, DEPLOYMENT, listed
from tests.infrastructure.test_state_and_endpoint import resolved, settings_parameter

ZONE = "arn:aws:route53:::hostedzone/Z0123456789ABCDEFGHIJ"
REPLICA = "i-0123456789abcdef0"


def granted(action: str) -> list[Statement]:
    found = [s for permission in Permission for s in statements(permission, BY_NAME)]
    return [statement for statement in found if action in statement.actions]


def test_all_that_the_environment_keeps_is_under_its_key(wide: Assembly) -> None:
    [table] = wide.properties("AWS::DynamoDB::Table")
    assert table["SSESpecification"] == {"KMSMasterKeyId": DATA_KEY, "SSEEnabled": True, "SSEType": "KMS"}
    assert {one["KmsMasterKeyId"] for one in wide.properties("AWS::SNS::Topic")} == {DATA_KEY}
    assert {one["KmsMasterKeyId"] for one in wide.properties("AWS::SQS::Queue")} == {DATA_KEY}
    groups = wide.properties("AWS::Logs::LogGroup")
    assert {one["KmsKeyId"] for one in groups} == {DATA_KEY}
    [bucket] = wide.properties("AWS::S3::Bucket")
    [rule] = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert rule["BucketKeyEnabled"] is True
    assert rule["ServerSideEncryptionByDefault"] == {"KMSMasterKeyID": DATA_KEY, "SSEAlgorithm": "aws:kms"}


def test_there_is_no_load_balancer(wide: Assembly) -> None:
    kinds = {resource["Type"] for resource in wide.templates["orders"]["Resources"].values()}
    assert [kind for kind in kinds if "LoadBalancing" in kind] == []


def test_readers_are_told_the_name_and_the_replicas_own_port(wide: Assembly) -> None:
    outputs = wide.templates["orders"]["Outputs"]
    assert outputs["ReadEndpointName"]["Value"] == "reads.orders.internal"
    assert outputs["ReadEndpointName"]["Description"].endswith("on 3306")
    assert "TargetGroup" not in outputs


def test_the_functions_accept_what_is_deployed(wide: Assembly) -> None:
    parameter = settings_parameter(wide, "orders")
    settings = ClusterSettings.model_validate(json.loads(resolved(parameter["Value"])))
    assert settings.read_endpoint.kind == "route53"
    assert settings.read_endpoint.clients_follow_within_seconds == 90


def test_only_the_a_records_of_the_clusters_name_are_changed() -> None:
    changes = granted("route53:ChangeResourceRecordSets")
    assert {statement.resources for statement in changes} == {(ZONE,)}
    for statement in changes:
        names = statement.conditions["ForAllValues:StringLike"]
        assert names["route53:ChangeResourceRecordSetsNormalizedRecordNames"] == ["reads.orders.internal"]
        kinds = statement.conditions["ForAllValues:StringEquals"]
        assert kinds["route53:ChangeResourceRecordSetsRecordTypes"] == ["A"]


def test_only_who_takes_replicas_out_deletes_records_and_health_checks() -> None:
    """I1"""
    for action in ("route53:DeleteHealthCheck", "cloudwatch:DeleteAlarms"):
        may = {
            definition.name
            for definition in FUNCTIONS
            for permission in definition.permissions
            if any(action in statement.actions for statement in statements(permission, BY_NAME))
        }
        assert may == {
            "undo_run",
            "sweep_orphans",
            "deregister_replica",
            "retire_replica",
            "undo_removal",  # what booted anew leaves before its database is started
        }


def test_alarms_are_made_and_deleted_only_under_the_names_of_replicas(wide: Assembly) -> None:
    parameter = settings_parameter(wide, "orders")
    settings = ClusterSettings.model_validate(json.loads(resolved(parameter["Value"])))
    pattern = "arn:aws:cloudwatch:us-east-1:222222222222:alarm:peaker-prod-*-serves-i-*"
    for action in ("cloudwatch:PutMetricAlarm", "cloudwatch:DeleteAlarms"):
        assert {statement.resources for statement in granted(action)} == {(pattern,)}
    assert fnmatchcase(alarm_name(settings, REPLICA), pattern.split("alarm:")[1])


def test_the_alarms_ask_for_the_service_that_the_functions_report_under(wide: Assembly) -> None:
    services = {
        function["Environment"]["Variables"]["POWERTOOLS_SERVICE_NAME"]
        for function in wide.properties("AWS::Lambda::Function")
    }
    assert services == {SERVICE}


def test_every_statement_reaches_its_function(wide: Assembly) -> None:
    policies = [policy["Properties"]["PolicyDocument"] for _, policy in wide.resources("AWS::IAM::Policy")]
    actions = {
        action for document in policies for one in document["Statement"] for action in listed(one["Action"])
    }
    assert {"route53:ChangeResourceRecordSets", "route53:CreateHealthCheck"} <= actions


def test_an_environment_with_load_balancers_alone_gets_nothing_of_it() -> None:
    found: list[Statement] = [s for permission in Permission for s in statements(permission, DEPLOYMENT)]
    found += [
        s for definition in FUNCTIONS for s in command_statements(definition.sent_documents, DEPLOYMENT)
    ]
    actions = {action for statement in found for action in statement.actions}
    foreign = ("route53:", "cloudwatch:PutMetricAlarm", "cloudwatch:DeleteAlarms", "cloudwatch:Describe")
    assert [action for action in actions if action.startswith(foreign)] == []
