"""An environment whose data is under a customer-managed key: who may use it, and who must be let in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from peaker_cli.doctor.deployed import DEPLOYED, look_at_data_key, read_data_key
from peaker_cli.doctor.finding import Finding

from cloud_rig.control import OPEN_QUEUE, TRUST, Control, control
from environments.schema import Environment, EnvironmentFileError, load_environment
from localcloud.extensions.events.eventbridge import Delivery, authorize
from localcloud.iam.access import Refused
from localcloud.iam.service_needs import key_of_message
from peaker_contract.catalogue import FUNCTIONS
from stacks import data_key
from stacks.data_key import key_policy
from stacks.naming import Names
from stacks.people_statements import statements_for
from stacks.rights.role_statements import function_statements, policy_document
from tests.support.builders import orders

CLOUDWATCH = "cloudwatch.amazonaws.com"
LAMBDA = "lambda.amazonaws.com"
KEYS = [("pk", "HASH"), ("sk", "RANGE")]


@dataclass(frozen=True)
class UnderKey:
    """A topic, a queue and a table under the key, by the names of the local environment."""

    aws: Control
    names: Names
    key: str

    @property
    def key_id(self) -> str:
        return self.key.rsplit("/", 1)[-1]

    def allow(self, *without: str) -> None:
        """Give the key its policy, but for these statements."""
        policy = key_policy(self.names)
        policy["Statement"] = [one for one in policy["Statement"] if one["Sid"] not in without]
        self.aws.kms.put_key_policy(KeyId=self.key, PolicyName="default", Policy=json.dumps(policy))


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UnderKey]:
    with control(Path(tmp_path_factory.mktemp("cloud"))) as aws:
        key = str(aws.kms.create_key()["KeyMetadata"]["Arn"])
        under = UnderKey(aws, Names(environment(key)), key)
        topic = aws.sns.create_topic(Name="operators", Attributes={"KmsMasterKeyId": key})["TopicArn"]
        everybody = {"Effect": "Allow", "Principal": "*", "Action": "sns:Publish", "Resource": "*"}
        policy = json.dumps({"Version": "2012-10-17", "Statement": [everybody]})
        aws.sns.set_topic_attributes(TopicArn=topic, AttributeName="Policy", AttributeValue=policy)
        aws.sqs.create_queue(
            QueueName="letters", Attributes={"KmsMasterKeyId": key, "Policy": json.dumps(OPEN_QUEUE)}
        )
        aws.dynamodb.create_table(
            TableName=under.names.ledger_table,
            KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in KEYS],
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name, _ in KEYS],
            BillingMode="PAY_PER_REQUEST",
            SSESpecification={"Enabled": True, "SSEType": "KMS", "KMSMasterKeyId": key},
        )
        yield under


@pytest.fixture
def under(made_once: UnderKey) -> UnderKey:
    made_once.allow()
    return made_once


def environment(key: str | None) -> Environment:
    return load_environment("local").model_copy(update={"data_key_arn": key})


def doctors_line(under: UnderKey) -> Finding:
    topic = under.aws.sns.list_topics()["Topics"][0]["TopicArn"]
    [found] = look_at_data_key(DEPLOYED, orders(), read_data_key(under.aws.cloud.client, topic))
    return found


def page(under: UnderKey) -> None:
    """An alarm tells the topic. Raises ClientError."""
    alarm = under.names.arn("cloudwatch", f"alarm:{under.names.prefix}-roll_back-workflow-failed")
    delivery = Delivery(alarm, under.names.arn("sns", "operators"), "", service=CLOUDWATCH)
    authorize(under.aws.cloud, delivery)


def keep_a_dead_letter(under: UnderKey) -> None:
    """EventBridge puts an event into the queue of its rule. Raises ClientError."""
    rule = under.names.arn("events", f"rule/{under.names.prefix}-prices")
    authorize(under.aws.cloud, Delivery(rule, under.names.arn("sqs", "letters"), "{}"))


def keep_a_page(under: UnderKey) -> None:
    """SNS puts a page into the queue of the topic's subscription. Raises Refused."""
    queue, account = under.names.arn("sqs", "letters"), under.aws.cloud.access.account
    for need in key_of_message(account.key_of_queue(queue), "sqs", account):
        under.aws.cloud.access.check_service("sns.amazonaws.com", under.names.operator_topic_arn, need)


def make_a_log_group(under: UnderKey) -> None:
    """As CloudFormation makes one for a function. Raises ClientError."""
    name = f"/aws/lambda/{under.names.prefix}-tried"
    under.aws.logs.create_log_group(logGroupName=name, kmsKeyId=under.key)
    under.aws.logs.delete_log_group(logGroupName=name)


@pytest.mark.parametrize(
    ("statement", "use", "service"),
    [
        ("AlarmsPublish", page, "cloudwatch.amazonaws.com is not let in: alarms page nobody"),
        ("DeadLettersOfRules", keep_a_dead_letter, "events.amazonaws.com is not let in"),
        ("DeadLettersOfPages", keep_a_page, "sns.amazonaws.com is not let in"),
        ("LogGroups", make_a_log_group, "logs.us-east-1.amazonaws.com is not let in"),
    ],
)
def test_each_statement_of_the_keys_policy_is_needed_and_enough_and_the_doctor_misses_it(
    under: UnderKey, statement: str, use: Any, service: str
) -> None:
    use(under)
    under.allow(statement)
    with pytest.raises((ClientError, Refused), match="kms:"):
        use(under)
    line = doctors_line(under)
    assert (line.verdict.value, service in line.detail) == ("refuse", True), line
    assert "python -m stacks.data_key" in line.remedy


def test_the_key_is_not_for_log_groups_of_others(under: UnderKey) -> None:
    with pytest.raises(ClientError, match="not allowed to be used with"):
        under.aws.logs.create_log_group(logGroupName="/aws/lambda/payroll", kmsKeyId=under.key)


@pytest.mark.parametrize("with_key", [True, False])
def test_a_function_reads_the_ledger_by_its_right_on_the_key(under: UnderKey, with_key: bool) -> None:
    names = under.names if with_key else Names(environment(None))
    [definition] = [one for one in FUNCTIONS if one.name == "acquire_lease"]
    document = json.dumps(policy_document(function_statements(definition, names)))
    role = f"acquire-{with_key}"
    under.aws.iam.create_role(RoleName=role, AssumeRolePolicyDocument=json.dumps(TRUST))
    under.aws.iam.put_role_policy(RoleName=role, PolicyName="own", PolicyDocument=document)
    arn = f"arn:aws:iam::123456789012:role/{role}"
    ledger = under.aws.cloud.client_as(arn, "reads", LAMBDA, "dynamodb")
    key = {"pk": {"S": "cluster#orders"}, "sk": {"S": "lease"}}
    if with_key:
        assert "Item" not in ledger.get_item(TableName=names.ledger_table, Key=key)
    else:
        with pytest.raises(ClientError, match="not authorized to perform: kms:Decrypt"):
            ledger.get_item(TableName=names.ledger_table, Key=key)


def key_uses(statements: Any) -> set[tuple[str, str]]:
    """(service through which, action) of each right on a key."""
    return {
        (one.conditions["StringEquals"]["kms:ViaService"].split(".")[0], action)
        for one in statements
        for action in one.actions
        if "kms:ViaService" in one.conditions.get("StringEquals", {}) and action.startswith("kms:")
    }


def test_a_role_uses_the_key_only_through_the_services_that_it_calls(under: UnderKey) -> None:
    for definition in FUNCTIONS:
        statements = function_statements(definition, under.names)
        called = {action.split(":")[0] for one in statements for action in one.actions}
        assert {service for service, _ in key_uses(statements)} <= called, definition.name
        reads_table = any("ledger" in resource for one in statements for resource in one.resources)
        assert (("dynamodb", "kms:Decrypt") in key_uses(statements)) == reads_table
        assert (("sqs", "kms:GenerateDataKey") in key_uses(statements)) == definition.is_asynchronous
    assert key_uses(statements_for("read", under.names)) == {
        ("dynamodb", "kms:Decrypt"),
        ("dynamodb", "kms:DescribeKey"),
    }
    assert ("sqs", "kms:Decrypt") in key_uses(statements_for("operate", under.names))


def test_without_a_key_nobody_has_a_right_on_one() -> None:
    names = Names(load_environment("local"))
    granted = [one for each in FUNCTIONS for one in function_statements(each, names)]
    granted += [one for who in ("read", "operate") for one in statements_for(who, names)]
    assert not [
        one for one in granted if any("kms:" in action for action in one.actions) and not one.wildcards
    ]


def test_a_key_of_another_region_is_refused_by_its_field() -> None:
    document = load_environment("local").model_dump(mode="json")
    document["data_key_arn"] = "arn:aws:kms:eu-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
    with pytest.raises(EnvironmentFileError, match=r"data_key_arn.*must be a key of the region us-east-1"):
        Environment.parse(document, "local.yaml")


def test_the_policy_is_printed_for_one_environment(capsys: pytest.CaptureFixture[str]) -> None:
    assert data_key.main(["prod"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == key_policy(Names(load_environment("prod")))
    assert "222222222222" in json.dumps(printed)
    assert data_key.main(["nowhere"]) == 2


class TestDoctor:
    """`peaker doctor` reads the key and its policy, and has a line for each fault."""

    def test_a_key_with_its_policy_passes(self, under: UnderKey) -> None:
        assert doctors_line(under).verdict.value == "pass"

    def test_a_condition_on_the_source_shuts_eventbridge_out(self, under: UnderKey) -> None:
        policy = key_policy(under.names)
        [statement] = [one for one in policy["Statement"] if one["Sid"] == "DeadLettersOfRules"]
        statement["Condition"] = {"StringEquals": {"aws:SourceAccount": "123456789012"}}
        under.aws.kms.put_key_policy(KeyId=under.key, PolicyName="default", Policy=json.dumps(policy))
        with pytest.raises(ClientError, match="kms:GenerateDataKey"):
            keep_a_dead_letter(under)
        assert "events.amazonaws.com is not let in" in doctors_line(under).detail

    def test_a_key_that_is_going_is_refused(self, under: UnderKey) -> None:
        under.aws.kms.schedule_key_deletion(KeyId=under.key_id, PendingWindowInDays=7)
        try:
            line = doctors_line(under)
        finally:
            under.aws.kms.cancel_key_deletion(KeyId=under.key_id)
            under.aws.kms.enable_key(KeyId=under.key_id)
        assert (line.verdict.value, "is PendingDeletion and goes on" in line.detail) == ("refuse", True), line
        assert "cancel-key-deletion" in line.remedy

    def test_a_disabled_key_is_refused(self, under: UnderKey) -> None:
        under.aws.kms.disable_key(KeyId=under.key_id)
        try:
            assert "is Disabled" in doctors_line(under).detail
        finally:
            under.aws.kms.enable_key(KeyId=under.key_id)
