"""Every call at the local cloud is authorized: by key, on each resource, as AWS refuses it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from moto.ec2.models import ec2_backends

from cloud_rig.control import eventually, unique
from cloud_rig.resources import IMAGE, SUBNET_A, ResourceCloud, open_cloud
from localcloud.iam import reference
from localcloud.iam.service_needs import IAM_PREFIX, NEEDS

ACCOUNT = "123456789012"
EC2 = f"arn:aws:ec2:us-east-1:{ACCOUNT}"
OWNER = "peaker:owner"
TO_OWN = {"StringEquals": {f"aws:RequestTag/{OWNER}": "prod"}}
OWNED = {"StringEquals": {f"aws:ResourceTag/{OWNER}": "prod"}}


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ResourceCloud]:
    with open_cloud(Path(tmp_path_factory.mktemp("cloud"))) as opened:
        yield opened


def allow(action: str | list[str], resource: str | list[str] = "*", **condition: Any) -> dict[str, Any]:
    statement: dict[str, Any] = {"Effect": "Allow", "Action": action, "Resource": resource}
    return {**statement, "Condition": condition} if condition else statement


class Person:
    """Somebody with a role that holds these statements; clients as attributes."""

    def __init__(self, aws: ResourceCloud, *statements: dict[str, Any]) -> None:
        self._aws, self.role = aws, unique("person")
        trust = {
            "Effect": "Allow",
            "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"},
            "Action": "sts:AssumeRole",
        }
        aws.iam.create_role(
            RoleName=self.role,
            AssumeRolePolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [trust]}),
        )
        if statements:
            aws.iam.put_role_policy(
                RoleName=self.role,
                PolicyName="own",
                PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": list(statements)}),
            )
        arn = f"arn:aws:iam::{ACCOUNT}:role/{self.role}"
        self.keys = aws.sts.assume_role(RoleArn=arn, RoleSessionName="somebody")["Credentials"]

    def __getattr__(self, service: str) -> Any:
        return client(self._aws, service.rstrip("_"), self.keys)


def client(aws: ResourceCloud, service: str, keys: dict[str, str]) -> Any:
    return boto3.client(  # type: ignore[call-overload]
        service,
        endpoint_url=aws.cloud.endpoint_url,
        region_name="us-east-1",
        aws_access_key_id=keys["AccessKeyId"],
        aws_secret_access_key=keys["SecretAccessKey"],
        aws_session_token=keys["SessionToken"],
        config=Config(retries={"total_max_attempts": 1}),
    )


def refusal(call: Callable[[], Any]) -> tuple[str, int, str]:
    """(code, status, message) of a call that must be refused."""
    with pytest.raises(ClientError) as caught:
        call()
    answer = caught.value.response
    return answer["Error"]["Code"], answer["ResponseMetadata"]["HTTPStatusCode"], answer["Error"]["Message"]


def tags(kind: str, **given: str) -> list[dict[str, Any]]:
    return [{"ResourceType": kind, "Tags": [{"Key": key, "Value": value} for key, value in given.items()]}]


# -- how a refusal looks --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("service", "method", "arguments", "code", "status", "sentence"),
    [
        (
            "ec2",
            "describe_instances",
            {},
            "UnauthorizedOperation",
            403,
            "perform: ec2:DescribeInstances on resource: *",
        ),
        (
            "dynamodb",
            "get_item",
            {"TableName": "t", "Key": {"pk": {"S": "x"}}},
            "AccessDeniedException",
            400,
            "table/t",
        ),
        ("ssm", "get_parameter", {"Name": "/a/b"}, "AccessDeniedException", 400, f"{ACCOUNT}:parameter/a/b"),
        (
            "stepfunctions",
            "list_state_machines",
            {},
            "AccessDeniedException",
            400,
            "perform: states:ListStateMachines",
        ),
        (
            "lambda",
            "invoke",
            {"FunctionName": "f"},
            "AccessDeniedException",
            403,
            "perform: lambda:InvokeFunction",
        ),
        ("s3", "get_object", {"Bucket": "bbb", "Key": "k"}, "AccessDenied", 403, "arn:aws:s3:::bbb/k"),
        ("route53", "list_health_checks", {}, "AccessDenied", 403, "perform: route53:ListHealthChecks"),
        (
            "elbv2",
            "describe_target_groups",
            {},
            "AccessDenied",
            403,
            "elasticloadbalancing:DescribeTargetGroups",
        ),
        (
            "ebs",
            "list_snapshot_blocks",
            {"SnapshotId": "snap-1"},
            "AccessDeniedException",
            403,
            "us-east-1::snapshot/snap-1",
        ),
    ],
)
def test_a_refusal_is_the_services_own(
    aws: ResourceCloud,
    service: str,
    method: str,
    arguments: dict[str, Any],
    code: str,
    status: int,
    sentence: str,
) -> None:
    nobody = Person(aws)
    found = refusal(lambda: getattr(client(aws, service, nobody.keys), method)(**arguments))
    assert found[:2] == (code, status)
    assert f"User: arn:aws:sts::{ACCOUNT}:assumed-role/{nobody.role}/somebody is not authorized" in found[2]
    assert sentence in found[2]
    assert "because no identity-based policy allows the" in found[2]


def test_ec2_adds_an_encoded_message(aws: ResourceCloud) -> None:
    message = refusal(Person(aws).ec2.describe_volumes)[2]
    assert message.startswith("You are not authorized to perform this operation. User: arn:aws:sts::")
    assert "Encoded authorization failure message: " in message


def test_a_key_that_nobody_has_is_refused(aws: ResourceCloud) -> None:
    stranger = {"AccessKeyId": "AKIASTRANGER", "SecretAccessKey": "x", "SessionToken": "y"}
    code, _, message = refusal(client(aws, "dynamodb", stranger).list_tables)
    assert code == "UnrecognizedClientException"
    assert "the local cloud knows no access key AKIASTRANGER" in message


def test_another_sessions_token_is_refused(aws: ResourceCloud) -> None:
    keys = {**Person(aws, allow("*")).keys, "SessionToken": "of-another"}
    assert refusal(client(aws, "ec2", keys).describe_volumes)[0] == "AuthFailure"


def test_what_the_local_cloud_does_not_know_it_refuses_and_says_so(aws: ResourceCloud) -> None:
    everything = Person(aws, allow("*"))
    url = f"{aws.cloud.endpoint_url}/{ACCOUNT}/q"
    message = refusal(lambda: everything.sqs.untag_queue(QueueUrl=url, TagKeys=["a"]))[2]
    assert "the local cloud does not know how to authorize sqs:UntagQueue" in message


def test_a_condition_on_a_key_that_is_not_known_is_refused_and_says_so(aws: ResourceCloud) -> None:
    person = Person(aws, allow("ec2:DeleteVolume", StringEquals={"ec2:VolumeType": "gp3"}))
    volume = aws.available_volume()
    message = refusal(lambda: person.ec2.delete_volume(VolumeId=volume))[2]
    assert (
        "a policy asks for ec2:VolumeType, which the local cloud does not know of ec2:DeleteVolume" in message
    )


def test_a_key_that_aws_has_not_for_an_action_is_absent(aws: ResourceCloud) -> None:
    """The trap of aws:ResourceTag on what is only being made: nothing ever fits."""
    person = Person(aws, allow(["ec2:CreateVolume", "ec2:CreateTags"], **OWNED))
    call = {
        "AvailabilityZone": "us-east-1a",
        "Size": 1,
        "TagSpecifications": tags("volume", **{OWNER: "prod"}),
    }
    assert refusal(lambda: person.ec2.create_volume(**call))[0] == "UnauthorizedOperation"


@pytest.mark.parametrize("known", sorted(NEEDS))
def test_every_action_that_we_authorize_is_in_awss_reference(known: str) -> None:
    service, operation = known.split(":")
    own_name = {"lambda:Invoke": "lambda:InvokeFunction"}.get(
        known, f"{IAM_PREFIX.get(service, service)}:{operation}"
    )
    made_of_others = {"dynamodb:TransactGetItems", "dynamodb:TransactWriteItems"}
    if service != "s3" and known not in made_of_others:
        assert own_name in reference.actions()


# -- each resource and each tag -------------------------------------------------------------------------------

LAUNCH = {
    "ImageId": IMAGE,
    "InstanceType": "r6i.large",
    "MinCount": 1,
    "MaxCount": 1,
    "SubnetId": SUBNET_A,
    "SecurityGroupIds": ["sg-0a770000000000001"],
    "TagSpecifications": [*tags("instance", **{OWNER: "prod"}), *tags("volume", **{OWNER: "prod"})],
}
LAUNCHER = {
    "image": allow("ec2:RunInstances", f"arn:aws:ec2:us-east-1::image/{IMAGE}"),
    "subnet": allow("ec2:RunInstances", f"{EC2}:subnet/{SUBNET_A}"),
    "security-group": allow("ec2:RunInstances", f"{EC2}:security-group/sg-0a770000000000001"),
    "network-interface": allow("ec2:RunInstances", f"{EC2}:network-interface/*"),
    "instance": allow("ec2:RunInstances", f"{EC2}:instance/*", **TO_OWN),
    "volume": allow("ec2:RunInstances", f"{EC2}:volume/*", **TO_OWN),
    "tags": allow("ec2:CreateTags", f"{EC2}:*/*", StringEquals={"ec2:CreateAction": "RunInstances"}),
}


def test_a_launch_with_all_of_its_permissions_goes_through(aws: ResourceCloud) -> None:
    person = Person(aws, *LAUNCHER.values())
    assert person.ec2.run_instances(**LAUNCH)["Instances"]


@pytest.mark.parametrize("missing", LAUNCHER)
def test_a_launch_needs_every_resource_that_it_uses_or_makes(aws: ResourceCloud, missing: str) -> None:
    person = Person(aws, *(statement for name, statement in LAUNCHER.items() if name != missing))
    message = refusal(lambda: person.ec2.run_instances(**LAUNCH))[2]
    assert ("ec2:CreateTags" if missing == "tags" else f"{missing}/") in message


def test_a_launch_whose_tags_are_not_those_asked_for_is_refused(aws: ResourceCloud) -> None:
    person = Person(aws, *LAUNCHER.values())
    other = {**LAUNCH, "TagSpecifications": tags("instance", **{OWNER: "dev"})}
    assert refusal(lambda: person.ec2.run_instances(**other))[0] == "UnauthorizedOperation"
    untagged_volume = {**LAUNCH, "TagSpecifications": tags("instance", **{OWNER: "prod"})}
    assert "volume/*" in refusal(lambda: person.ec2.run_instances(**untagged_volume))[2]


def test_a_launch_with_a_profile_passes_its_role(aws: ResourceCloud) -> None:
    role, profile = unique("host"), unique("profile")
    aws.iam.create_role(RoleName=role, AssumeRolePolicyDocument="{}")
    aws.iam.create_instance_profile(InstanceProfileName=profile)
    aws.iam.add_role_to_instance_profile(InstanceProfileName=profile, RoleName=role)
    call = {**LAUNCH, "IamInstanceProfile": {"Name": profile}}
    message = refusal(lambda: Person(aws, *LAUNCHER.values()).ec2.run_instances(**call))[2]
    assert f"perform: iam:PassRole on resource: arn:aws:iam::{ACCOUNT}:role/{role}" in message
    to_ec2 = {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}}
    passing = allow("iam:PassRole", f"arn:aws:iam::{ACCOUNT}:role/{role}", **to_ec2)
    assert Person(aws, *LAUNCHER.values(), passing).ec2.run_instances(**call)["Instances"]


def gone(volume_id: str) -> bool:
    """Not only unseen yet: Describe lags."""
    return volume_id not in ec2_backends[ACCOUNT]["us-east-1"].volumes


VOLUME_KEY = ("Decrypt", "DescribeKey", "GenerateDataKeyWithoutPlaintext", "ReEncryptFrom", "ReEncryptTo")


@pytest.mark.parametrize("missing", ["Decrypt", "CreateGrant"])
def test_a_volume_whose_key_ebs_cannot_use_is_answered_for_and_then_vanishes(
    aws: ResourceCloud, missing: str
) -> None:
    key = aws.kms.create_key()["KeyMetadata"]["Arn"]
    may = [f"kms:{action}" for action in (*VOLUME_KEY, "CreateGrant") if action != missing]
    person = Person(aws, allow("ec2:CreateVolume"), allow(may, key))
    wanted = {"AvailabilityZone": "us-east-1a", "Size": 1, "Encrypted": True, "KmsKeyId": key}
    volume = person.ec2.create_volume(**wanted)["VolumeId"]
    eventually(lambda: gone(volume))


def test_a_volume_under_a_key_that_ebs_can_use_stays_and_its_snapshots_carry_the_key(
    aws: ResourceCloud,
) -> None:
    key = aws.kms.create_key()["KeyMetadata"]["Arn"]
    for_ebs = {"Bool": {"kms:GrantIsForAWSResource": "true"}}
    may = [f"kms:{action}" for action in VOLUME_KEY]
    person = Person(aws, allow("ec2:CreateVolume"), allow(may, key), allow("kms:CreateGrant", key, **for_ebs))
    wanted = {"AvailabilityZone": "us-east-1a", "Size": 1, "Encrypted": True, "KmsKeyId": key}
    volume = person.ec2.create_volume(**wanted)["VolumeId"]
    eventually(lambda: aws.volume(volume).get("State") == "available")
    snapshot = aws.completed_snapshot(volume)
    assert aws.snapshot(snapshot)["KmsKeyId"] == key
    copy = person.ec2.create_volume(AvailabilityZone="us-east-1a", SnapshotId=snapshot)["VolumeId"]
    eventually(lambda: aws.volume(copy).get("State") == "available")
    assert aws.volume(copy)["KmsKeyId"] == key
    stranger = Person(aws, allow("ec2:CreateVolume"))
    lost = stranger.ec2.create_volume(AvailabilityZone="us-east-1a", SnapshotId=snapshot)["VolumeId"]
    eventually(lambda: gone(lost))


@pytest.mark.parametrize("missing", ["CreateGrant", None])
def test_an_instance_whose_images_key_ec2_cannot_use_is_answered_for_and_then_ends(
    aws: ResourceCloud, missing: str | None
) -> None:
    """EC2: "Client.InternalError: Client error on launch" is the state reason, and the only word about it."""
    key = aws.kms.create_key()["KeyMetadata"]["Arn"]
    made = {"SourceImageId": IMAGE, "SourceRegion": "us-east-1", "Name": unique("image")}
    image = aws.ec2.copy_image(**made, Encrypted=True, KmsKeyId=key)["ImageId"]
    may = [f"kms:{action}" for action in (*VOLUME_KEY, "CreateGrant") if action != missing]
    its_image = allow("ec2:RunInstances", f"arn:aws:ec2:us-east-1::image/{image}")
    person = Person(aws, *LAUNCHER.values(), its_image, allow(may, key))
    with aws.held("launch", "terminate"):
        answer = person.ec2.run_instances(**{**LAUNCH, "ImageId": image})["Instances"][0]
    assert answer["State"]["Name"] == "pending"
    wanted = "running" if missing is None else "terminated"
    eventually(lambda: aws.instance_state(answer["InstanceId"]) == wanted)
    if missing is not None:
        reason = aws.instance(answer["InstanceId"])["StateReason"]
        assert reason["Code"] == "Client.InternalError"
        assert reason["Message"] == "Client.InternalError: Client error on launch"


def test_one_foreign_instance_refuses_the_whole_call(aws: ResourceCloud) -> None:
    person = Person(aws, allow("ec2:TerminateInstances", f"{EC2}:instance/*", **OWNED))
    own = aws.launched(TagSpecifications=tags("instance", **{OWNER: "prod"}))
    foreign = aws.launched()
    assert foreign in refusal(lambda: person.ec2.terminate_instances(InstanceIds=[own, foreign]))[2]
    assert aws.instance_state(own) == "running"


def test_a_command_needs_its_document_and_its_host(aws: ResourceCloud) -> None:
    name = unique("Document")
    step = {"action": "aws:runShellScript", "name": "Run", "inputs": {"runCommand": ["true"]}}
    content = {"schemaVersion": "2.2", "description": "d", "mainSteps": [step]}
    aws.ssm.create_document(Name=name, DocumentType="Command", Content=json.dumps(content))
    replica = aws.launched(TagSpecifications=tags("instance", **{"peaker:cluster": "orders"}))
    other = aws.launched(TagSpecifications=tags("instance", **{"peaker:cluster": "invoices"}))
    on_orders = {"StringEquals": {"ssm:resourceTag/peaker:cluster": "orders"}}
    person = Person(
        aws,
        allow("ssm:SendCommand", f"arn:aws:ssm:us-east-1:{ACCOUNT}:document/{name}"),
        allow("ssm:SendCommand", f"{EC2}:instance/*", **on_orders),
    )
    assert person.ssm.send_command(DocumentName=name, InstanceIds=[replica])["Command"]
    assert other in refusal(lambda: person.ssm.send_command(DocumentName=name, InstanceIds=[other]))[2]
    script = {"DocumentName": "AWS-RunShellScript", "Parameters": {"commands": ["id"]}}
    message = refusal(lambda: person.ssm.send_command(InstanceIds=[replica], **script))[2]
    assert "arn:aws:ssm:us-east-1::document/AWS-RunShellScript" in message


def test_a_transaction_needs_the_actions_of_its_parts(aws: ResourceCloud) -> None:
    table = unique("table")
    aws.dynamodb.create_table(
        TableName=table,
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    arn = f"arn:aws:dynamodb:us-east-1:{ACCOUNT}:table/{table}"
    key = {"pk": {"S": "orders"}}
    check = {"TableName": table, "Key": key, "ConditionExpression": "attribute_not_exists(pk)"}
    parts = [{"ConditionCheck": check}, {"Put": {"TableName": table, "Item": {"pk": {"S": "a"}}}}]
    write = Person(aws, allow("dynamodb:PutItem", arn))
    assert (
        "dynamodb:ConditionCheckItem"
        in refusal(lambda: write.dynamodb.transact_write_items(TransactItems=parts))[2]
    )
    both = Person(aws, allow(["dynamodb:PutItem", "dynamodb:ConditionCheckItem"], arn))
    both.dynamodb.transact_write_items(TransactItems=parts)


def test_leading_keys_narrow_a_table(aws: ResourceCloud) -> None:
    table = unique("table")
    aws.dynamodb.create_table(
        TableName=table,
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    own_rows = {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["cluster#orders*"]}}
    person = Person(aws, allow("dynamodb:GetItem", f"arn:aws:dynamodb:*:*:table/{table}", **own_rows))
    person.dynamodb.get_item(TableName=table, Key={"pk": {"S": "cluster#orders"}})
    assert refusal(lambda: person.dynamodb.get_item(TableName=table, Key={"pk": {"S": "cluster#other"}}))


# -- who acts -------------------------------------------------------------------------------------------------


def trusting(aws: ResourceCloud, service: str, *statements: dict[str, Any]) -> str:
    role = unique("role")
    trust = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
    aws.iam.create_role(
        RoleName=role, AssumeRolePolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    )
    if statements:
        policy = json.dumps({"Version": "2012-10-17", "Statement": list(statements)})
        aws.iam.put_role_policy(RoleName=role, PolicyName="own", PolicyDocument=policy)
    return f"arn:aws:iam::{ACCOUNT}:role/{role}"


def test_a_role_is_assumed_only_by_whom_it_trusts(aws: ResourceCloud) -> None:
    role = trusting(aws, "lambda.amazonaws.com")
    person = Person(aws, allow("sts:AssumeRole"))
    assert refusal(lambda: person.sts.assume_role(RoleArn=role, RoleSessionName="me"))[0] == "AccessDenied"


# -- policies of resources ------------------------------------------------------------------------------------


def test_a_queue_takes_a_rules_events_only_when_its_policy_says_so(aws: ResourceCloud) -> None:
    name, source = unique("queue"), unique("source")
    url = aws.sqs.create_queue(QueueName=name)["QueueUrl"]
    arn = f"arn:aws:sqs:us-east-1:{ACCOUNT}:{name}"
    dead = unique("dead")
    rule = aws.events.put_rule(Name=unique("rule"), EventPattern=json.dumps({"source": [source]}))["RuleArn"]
    letters = f"arn:aws:sqs:us-east-1:{ACCOUNT}:{dead}"

    def policy(queue: str) -> str:
        of_rule = {"ArnEquals": {"aws:SourceArn": rule}}
        statement = allow("sqs:SendMessage", queue, **of_rule)
        named = {**statement, "Principal": {"Service": "events.amazonaws.com"}}
        return json.dumps({"Version": "2012-10-17", "Statement": [named]})

    dead_url = aws.sqs.create_queue(QueueName=dead, Attributes={"Policy": policy(letters)})["QueueUrl"]
    target = {"Id": "1", "Arn": arn, "DeadLetterConfig": {"Arn": letters}}
    aws.events.put_targets(Rule=rule.rsplit("/", 1)[1], Targets=[target])
    event = {"Source": source, "DetailType": "T", "Detail": "{}"}

    aws.events.put_events(Entries=[event])
    lost = eventually(
        lambda: aws.sqs.receive_message(QueueUrl=dead_url, MessageAttributeNames=["All"]).get("Messages")
    )
    assert lost[0]["MessageAttributes"]["ERROR_CODE"]["StringValue"] == "NO_PERMISSIONS"

    aws.sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy(arn)})
    aws.events.put_events(Entries=[event])
    assert eventually(lambda: aws.sqs.receive_message(QueueUrl=url).get("Messages"))


def test_a_bucket_policy_refuses_what_a_role_may(aws: ResourceCloud) -> None:
    bucket = unique("bucket")
    aws.s3.create_bucket(Bucket=bucket)
    aws.s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    person = Person(aws, allow("s3:GetObject", f"arn:aws:s3:::{bucket}/*"))
    assert person.s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"x"
    statement = {"Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": f"arn:aws:s3:::{bucket}/*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    aws.s3.put_bucket_policy(Bucket=bucket, Policy=policy)
    message = refusal(lambda: person.s3.get_object(Bucket=bucket, Key="k"))[2]
    assert "with an explicit deny in a resource-based policy" in message


@pytest.mark.parametrize(
    ("condition", "key"), [("Bool", "aws:SecureTransport"), ("Null", "aws:PrincipalArn")]
)
def test_what_a_bucket_policy_denies_under_a_condition_is_let_through_when_it_is_not_met(
    aws: ResourceCloud, condition: str, key: str
) -> None:
    bucket = unique("bucket")
    aws.s3.create_bucket(Bucket=bucket)
    place = f"arn:aws:s3:::{bucket}/*"
    deny = {"Effect": "Deny", "Principal": {"AWS": "*"}, "Action": "s3:*", "Resource": place}
    met = {"Bool": "false", "Null": "true"}[condition]
    policy = {"Version": "2012-10-17", "Statement": [{**deny, "Condition": {condition: {key: met}}}]}
    aws.s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps(policy))
    person = Person(aws, allow(["s3:PutObject", "s3:GetObject"], place))
    person.s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    assert person.s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"x"


def test_what_is_under_an_encryption_context_is_judged_by_what_the_call_says(aws: ResourceCloud) -> None:
    key = aws.kms.create_key()["KeyMetadata"]["Arn"]
    orders = {"StringEquals": {"kms:EncryptionContext:table": "orders"}}
    person = Person(aws, allow("kms:GenerateDataKey", key, **orders))
    call = {"KeyId": key, "KeySpec": "AES_256"}
    assert person.kms.generate_data_key(**call, EncryptionContext={"table": "orders"})["Plaintext"]
    for given in ({}, {"table": "lines"}):
        refused = refusal(lambda given=given: person.kms.generate_data_key(**call, EncryptionContext=given))
        assert refused[0] == "AccessDeniedException"


def test_an_encrypted_object_needs_its_customers_key(aws: ResourceCloud) -> None:
    bucket = unique("bucket")
    key = aws.kms.create_key()["KeyMetadata"]["Arn"]
    aws.s3.create_bucket(Bucket=bucket)
    aws.s3.put_object(Bucket=bucket, Key="k", Body=b"x", ServerSideEncryption="aws:kms", SSEKMSKeyId=key)
    may_read = allow("s3:GetObject", f"arn:aws:s3:::{bucket}/*")
    message = refusal(lambda: Person(aws, may_read).s3.get_object(Bucket=bucket, Key="k"))[2]
    assert f"perform: kms:Decrypt on resource: {key}" in message
    via_s3 = {"StringEquals": {"kms:ViaService": "s3.us-east-1.amazonaws.com"}}
    person = Person(aws, may_read, allow("kms:Decrypt", key, **via_s3))
    assert person.s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"x"
