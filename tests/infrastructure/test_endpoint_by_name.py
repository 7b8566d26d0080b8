"""An environment whose readers find their replicas by a DNS name: no load balancer, narrow rights on one name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from fnmatch import fnmatchcase

import pytest
from peaker.adapters.read_endpoint.health_checks import alarm_name

from environments.schema import Environment
from peaker_contract.catalogue import FUNCTIONS
from peaker_contract.cluster import ClusterSettings
from peaker_contract.metrics import SERVICE
from peaker_contract.permissions import Permission
from stacks import application
from stacks.rights.hosts import command_statements
from stacks.rights.permissions import statements
from stacks.rights.statement import Statement
from tests.infrastructure.conftest import Assembly, behind_a_name, lint_errors, synthesize, what_differs
from tests.infrastructure.permissions.test_permissions import BY_NAME, DEPLOYMENT, listed
from tests.infrastructure.test_state_and_endpoint import resolved, settings_parameter

ZONE = "arn:aws:route53:::hostedzone/Z0123456789ABCDEFGHIJ"
REPLICA = "i-0123456789abcdef0"
DATA_KEY = "arn:aws:kms:us-east-1:222222222222:key/1234abcd-12ab-34cd-56ef-1234567890ab"


def with_a_key(environment: str, now: datetime | None = None) -> Environment:
    del now
    return behind_a_name(environment).model_copy(update={"data_key_arn": DATA_KEY})


@pytest.fixture(scope="module")
def by_name(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Assembly]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(application, "load_environment", with_a_key)
        yield synthesize("prod", tmp_path_factory.mktemp("by-name"))


def granted(action: str) -> list[Statement]:
    found = [s for permission in Permission for s in statements(permission, BY_NAME)]
    return [statement for statement in found if action in statement.actions]


def test_all_that_the_environment_keeps_is_under_its_key(by_name: Assembly) -> None:
    """Here because it needs a synth of its own."""
    [table] = by_name.properties("AWS::DynamoDB::Table")
    assert table["SSESpecification"] == {"KMSMasterKeyId": DATA_KEY, "SSEEnabled": True, "SSEType": "KMS"}
    assert {one["KmsMasterKeyId"] for one in by_name.properties("AWS::SNS::Topic")} == {DATA_KEY}
    assert {one["KmsMasterKeyId"] for one in by_name.properties("AWS::SQS::Queue")} == {DATA_KEY}
    groups = by_name.properties("AWS::Logs::LogGroup")
    assert {one["KmsKeyId"] for one in groups} == {DATA_KEY}
    [bucket] = by_name.properties("AWS::S3::Bucket")
    [rule] = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert rule["BucketKeyEnabled"] is True
    assert rule["ServerSideEncryptionByDefault"] == {"KMSMasterKeyID": DATA_KEY, "SSEAlgorithm": "aws:kms"}


def test_there_is_no_load_balancer(by_name: Assembly) -> None:
    kinds = {r["Type"] for template in by_name.templates.values() for r in template["Resources"].values()}
    assert [kind for kind in kinds if "LoadBalancing" in kind] == []


def test_readers_are_told_the_name_and_the_replicas_own_port(by_name: Assembly) -> None:
    outputs = by_name.templates["orders"]["Outputs"]
    assert outputs["ReadEndpointName"]["Value"] == "reads.orders.internal"
    assert outputs["ReadEndpointName"]["Description"].endswith("on 3306")
    assert "TargetGroup" not in outputs


def test_the_functions_accept_what_is_deployed(by_name: Assembly) -> None:
    parameter = settings_parameter(by_name)
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


def test_alarms_are_made_and_deleted_only_under_the_names_of_replicas(by_name: Assembly) -> None:
    parameter = settings_parameter(by_name)
    settings = ClusterSettings.model_validate(json.loads(resolved(parameter["Value"])))
    pattern = "arn:aws:cloudwatch:us-east-1:222222222222:alarm:peaker-prod-*-serves-i-*"
    for action in ("cloudwatch:PutMetricAlarm", "cloudwatch:DeleteAlarms"):
        assert {statement.resources for statement in granted(action)} == {(pattern,)}
    assert fnmatchcase(alarm_name(settings, REPLICA), pattern.split("alarm:")[1])


def test_the_alarms_ask_for_the_service_that_the_functions_report_under(by_name: Assembly) -> None:
    services = {
        function["Environment"]["Variables"]["POWERTOOLS_SERVICE_NAME"]
        for function in by_name.properties("AWS::Lambda::Function")
    }
    assert services == {SERVICE}


def test_every_statement_reaches_its_function(by_name: Assembly) -> None:
    policies = [policy["Properties"]["PolicyDocument"] for _, policy in by_name.resources("AWS::IAM::Policy")]
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


def test_cfn_lint_finds_nothing(by_name: Assembly, prod: Assembly) -> None:
    # test_synth.py lints prod. A finding of cdk-nag would have ended the synth.
    for stack, template in by_name.templates.items():
        assert lint_errors(what_differs(template, prod.templates[stack])) == []
