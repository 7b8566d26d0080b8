"""SimulatePrincipalPolicy: the policies of a role and its boundary, with the conditions' keys as they are given."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from cloud_rig.control import unique
from cloud_rig.resources import ResourceCloud, open_cloud

SNAPSHOT = "arn:aws:ec2:us-east-1::snapshot/snap-0123456789abcdef0"
READ = "ebs:ListSnapshotBlocks"
TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
    ],
}
OWNED = {"StringEquals": {"aws:ResourceTag/peaker:owner": "prod"}}
OWNER = {"ContextKeyName": "aws:ResourceTag/peaker:owner", "ContextKeyType": "string"}


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ResourceCloud]:
    with open_cloud(Path(tmp_path_factory.mktemp("cloud"))) as opened:
        yield opened


def policy(*statements: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


def statement(effect: str, action: str = READ, **condition: Any) -> dict[str, Any]:
    found = {"Effect": effect, "Action": action, "Resource": "arn:aws:ec2:*::snapshot/*"}
    return {**found, "Condition": condition} if condition else found


def role(aws: ResourceCloud, *statements: dict[str, Any], boundary: str | None = None) -> str:
    name = unique("simulated")
    more = {} if boundary is None else {"PermissionsBoundary": boundary}
    made = aws.iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(TRUST), **more)
    if statements:
        aws.iam.put_role_policy(RoleName=name, PolicyName="own", PolicyDocument=policy(*statements))
    return str(made["Role"]["Arn"])


def simulated(aws: ResourceCloud, arn: str, *owners: str) -> dict[str, Any]:
    entries = [{**OWNER, "ContextKeyValues": list(owners)}] if owners else []
    answer = aws.iam.simulate_principal_policy(
        PolicySourceArn=arn, ActionNames=[READ], ResourceArns=[SNAPSHOT], ContextEntries=entries
    )
    [result] = answer["EvaluationResults"]
    [of_snapshot] = result["ResourceSpecificResults"]
    assert (result["EvalActionName"], of_snapshot["EvalResourceName"]) == (READ, SNAPSHOT)
    assert result["EvalDecision"] == of_snapshot["EvalResourceDecision"]
    return dict(result)


def test_what_a_policy_allows_is_allowed_and_all_else_is_not(aws: ResourceCloud) -> None:
    assert simulated(aws, role(aws, statement("Allow")))["EvalDecision"] == "allowed"
    assert simulated(aws, role(aws))["EvalDecision"] == "implicitDeny"
    assert (
        simulated(aws, role(aws, statement("Allow", "ebs:GetSnapshotBlock")))["EvalDecision"]
        == "implicitDeny"
    )


def test_a_deny_is_said_to_be_one(aws: ResourceCloud) -> None:
    arn = role(aws, statement("Allow"), statement("Deny"))
    assert simulated(aws, arn)["EvalDecision"] == "explicitDeny"


def test_a_boundary_that_does_not_allow_it_counts(aws: ResourceCloud) -> None:
    name = unique("boundary")
    bound = aws.iam.create_policy(
        PolicyName=name, PolicyDocument=policy(statement("Allow", "ec2:CreateTags"))
    )
    arn = role(aws, statement("Allow"), boundary=bound["Policy"]["Arn"])
    assert simulated(aws, arn)["EvalDecision"] == "implicitDeny"


def test_a_condition_sees_what_is_given_and_what_is_not_is_missing(aws: ResourceCloud) -> None:
    arn = role(aws, statement("Allow", **OWNED))
    assert simulated(aws, arn, "prod")["EvalDecision"] == "allowed"
    assert simulated(aws, arn, "dev")["EvalDecision"] == "implicitDeny"
    without = simulated(aws, arn)
    assert without["EvalDecision"] == "implicitDeny"
    assert without["MissingContextValues"] == ["aws:ResourceTag/peaker:owner"]


def test_a_result_is_under_no_resources_name_and_as_its_most_restricted_resource(aws: ResourceCloud) -> None:
    other = SNAPSHOT.replace("us-east-1", "eu-west-1")
    arn = role(aws, {"Effect": "Allow", "Action": READ, "Resource": SNAPSHOT})
    answer = aws.iam.simulate_principal_policy(
        PolicySourceArn=arn, ActionNames=[READ], ResourceArns=[SNAPSHOT, other]
    )
    [result] = answer["EvaluationResults"]
    assert result["EvalResourceName"] == "arn:${Partition}:ec2:${Region}:${Account}:*"
    assert result["EvalDecision"] == "implicitDeny"
    decided = {
        one["EvalResourceName"]: one["EvalResourceDecision"] for one in result["ResourceSpecificResults"]
    }
    assert decided == {SNAPSHOT: "allowed", other: "implicitDeny"}


def test_a_role_that_is_not_there_is_said_to_be_missing(aws: ResourceCloud) -> None:
    with pytest.raises(ClientError) as refused:
        simulated(aws, "arn:aws:iam::123456789012:role/nobody")
    assert refused.value.response["Error"]["Code"] == "NoSuchEntity"


def test_what_is_not_simulated_here_is_refused(aws: ResourceCloud) -> None:
    with pytest.raises(ClientError, match="does not simulate with PolicyInputList"):
        aws.iam.simulate_principal_policy(
            PolicySourceArn=role(aws), ActionNames=[READ], PolicyInputList=[policy(statement("Allow"))]
        )
