"""KMS keys of volumes on the local cloud: what a plan is told before anything is made."""

from __future__ import annotations

import json
from typing import Any

import pytest
from moto.ec2.models import ec2_backends
from peaker.adapters.ec2.volume_keys import KmsVolumeKeys
from peaker.domain.reading import Unknown

from peaker_contract import errors
from tests.contract.conftest import Adapters
from tests.support.builders import orders
from tests.support.deployed_roles import trust


@pytest.fixture(scope="module")
def kms(aws: Adapters) -> Any:
    return aws.cloud.client("kms")


def key(kms: Any) -> str:
    return str(kms.create_key()["KeyMetadata"]["Arn"])


def test_a_key_that_the_settings_do_not_name_is_named(kms: Any) -> None:
    why = KmsVolumeKeys(kms).why_not_usable(key(kms), orders())
    assert why is not None
    assert "is not in kms_key_arns of orders" in why


def test_a_key_that_is_gone_is_not_usable(kms: Any) -> None:
    unknown = key(kms)[:-12] + "0" * 12
    why = str(KmsVolumeKeys(kms).why_not_usable(unknown, orders(kms_key_arns=[unknown])))
    assert "NotFoundException" in why


def test_an_image_tells_the_keys_of_its_snapshots(aws: Adapters, kms: Any) -> None:
    ec2, image, arn = aws.cloud.client("ec2"), aws.spec().image_id, key(kms)
    assert aws.compute.image_keys(image) == []
    assert all(name.startswith("/dev/") for name in aws.compute.image_devices(image))
    copy = {"SourceImageId": image, "SourceRegion": "us-east-1", "Name": "encrypted", "KmsKeyId": arn}
    assert aws.compute.image_keys(ec2.copy_image(**copy, Encrypted=True)["ImageId"]) == [arn]
    with pytest.raises(errors.ResourceNotFound, match="ami-0123456789abcdef0"):
        aws.compute.image_keys("ami-0123456789abcdef0")


def test_the_keys_of_an_image_whose_snapshots_are_anothers_are_unknown(aws: Adapters, kms: Any) -> None:
    """An image that another account shares shows that it is encrypted; its snapshots are not listed."""
    ec2, image = aws.cloud.client("ec2"), aws.spec().image_id
    copy = {"SourceImageId": image, "SourceRegion": "us-east-1", "Name": "shared", "KmsKeyId": key(kms)}
    shared = ec2.copy_image(**copy, Encrypted=True)["ImageId"]
    described = ec2.describe_images(ImageIds=[shared])["Images"][0]["BlockDeviceMappings"][0]["Ebs"]
    assert described["Encrypted"] is True
    ec2_backends["123456789012"]["us-east-1"].snapshots.pop(described["SnapshotId"])
    assert isinstance(aws.compute.image_keys(shared), Unknown)


def test_who_the_keys_policies_do_not_let_in_is_told_so(aws: Adapters, kms: Any) -> None:
    """A role that may look at the key, and has no permission to use it."""
    arn = key(kms)
    client = acting(aws, "looks-at-keys", "kms:DescribeKey")
    why = str(KmsVolumeKeys(client).why_not_usable(arn, orders(kms_key_arns=[arn])))
    assert "kms:GenerateDataKeyWithoutPlaintext: AccessDeniedException" in why


def test_a_key_that_may_not_be_looked_at_as_the_settings_do_not_name_it_is_told_so(
    aws: Adapters, kms: Any
) -> None:
    """A key of another account: the remedy is the setting, not the key's policy."""
    client = acting(aws, "knows-no-key", "ec2:DescribeImages")
    why = str(KmsVolumeKeys(client).why_not_usable(key(kms), orders()))
    assert "is not in kms_key_arns of orders" in why


def acting(aws: Adapters, name: str, action: str) -> Any:
    """A client of a role that has one permission."""
    policy = {"Statement": [{"Effect": "Allow", "Action": action, "Resource": "*"}], "Version": "2012-10-17"}
    iam, service = aws.cloud.client("iam"), "lambda.amazonaws.com"
    role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust(service))["Role"]["Arn"]
    iam.put_role_policy(RoleName=name, PolicyName="one", PolicyDocument=json.dumps(policy))
    return aws.cloud.client_as(role, "plan", service, "kms")
