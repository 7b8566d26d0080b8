"""The instance metadata service, version 2: tokens first, then the credentials of the instance's role."""

from __future__ import annotations

import json
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from werkzeug.test import Client

from cloud_rig.resources import ResourceCloud
from localcloud.extensions.ec2.instance_metadata import InstanceMetadata, serve_metadata

ROLES = "/latest/meta-data/iam/security-credentials/"
TTL = "X-aws-ec2-metadata-token-ttl-seconds"
TOKEN = "X-aws-ec2-metadata-token"


def allow_own_role(
    aws: ResourceCloud, instance_id: str, *actions: str, trusts: str = "ec2.amazonaws.com"
) -> None:
    """Give the instance a profile with a role that may do these."""
    trust = {"Effect": "Allow", "Principal": {"Service": trusts}, "Action": "sts:AssumeRole"}
    aws.iam.create_role(RoleName="of-host", AssumeRolePolicyDocument=policy(trust))
    may = {"Effect": "Allow", "Action": list(actions), "Resource": "*"}
    aws.iam.put_role_policy(RoleName="of-host", PolicyName="may", PolicyDocument=policy(may))
    aws.iam.create_instance_profile(InstanceProfileName="of-host")
    aws.iam.add_role_to_instance_profile(InstanceProfileName="of-host", RoleName="of-host")
    aws.ec2.associate_iam_instance_profile(InstanceId=instance_id, IamInstanceProfile={"Name": "of-host"})


def policy(statement: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def test_without_a_token_nothing_is_said_and_a_token_ends(aws: ResourceCloud) -> None:
    now = [100.0]
    service = Client(InstanceMetadata(aws.cloud, aws.launched(), now=lambda: now[0]))
    region = "/latest/meta-data/placement/region"
    assert service.get(region).status_code == 401
    assert service.put("/latest/api/token").status_code == 400
    assert service.put("/latest/api/token", headers={TTL: "21601"}).status_code == 400
    token = service.put("/latest/api/token", headers={TTL: "60"}).text
    assert service.get(region, headers={TOKEN: token}).text == "us-east-1"
    now[0] += 61
    assert service.get(region, headers={TOKEN: token}).status_code == 401


def test_an_instance_without_a_role_has_no_credentials(aws: ResourceCloud) -> None:
    service = Client(InstanceMetadata(aws.cloud, aws.launched()))
    token = service.put("/latest/api/token", headers={TTL: "60"}).text
    assert service.get(ROLES, headers={TOKEN: token}).status_code == 404


def test_the_credentials_are_of_the_role_and_may_what_it_may(aws: ResourceCloud) -> None:
    instance_id = aws.launched()
    allow_own_role(aws, instance_id, "ec2:DescribeRegions")
    assert serve_metadata(aws.cloud, instance_id).startswith("http://127.0.0.1:")
    service = Client(InstanceMetadata(aws.cloud, instance_id))
    token = service.put("/latest/api/token", headers={TTL: "60"}).text
    assert service.get(ROLES, headers={TOKEN: token}).text == "of-host"
    keys = json.loads(service.get(ROLES + "of-host", headers={TOKEN: token}).text)
    assert keys["Code"] == "Success"
    client = boto3.client(
        "ec2",
        endpoint_url=aws.cloud.endpoint_url,
        region_name="us-east-1",
        aws_access_key_id=keys["AccessKeyId"],
        aws_secret_access_key=keys["SecretAccessKey"],
        aws_session_token=keys["Token"],
    )
    assert client.describe_regions()["Regions"]
    with pytest.raises(ClientError) as refused:
        client.describe_volumes()
    assert f"assumed-role/of-host/{instance_id}" in str(refused.value)


def test_a_role_that_does_not_trust_ec2_gives_no_credentials(aws: ResourceCloud) -> None:
    instance_id = aws.launched()
    allow_own_role(aws, instance_id, "ec2:DescribeRegions", trusts="lambda.amazonaws.com")
    service = Client(InstanceMetadata(aws.cloud, instance_id))
    token = service.put("/latest/api/token", headers={TTL: "60"}).text
    said = json.loads(service.get(ROLES + "of-host", headers={TOKEN: token}).text)
    assert said == {"Code": "AssumeRoleUnauthorizedAccess"}
