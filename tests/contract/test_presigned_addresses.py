"""Addresses that hosts fetch from: signed so that S3 takes them, for the bucket's own region."""

from __future__ import annotations

import pytest
from peaker.adapters.aws_clients import lazy_client


@pytest.mark.parametrize(
    "region", ["us-east-1", "us-west-2", "eu-west-1", "sa-east-1", "ap-northeast-1", "eu-central-1"]
)
def test_a_presigned_address_is_of_version_4_and_names_its_region(
    region: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """botocore's default is Version 2 in the older regions, which S3 refuses for every bucket made since 2020."""
    for name, value in {
        "AWS_DEFAULT_REGION": region,
        "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "secret",
    }.items():
        monkeypatch.setenv(name, value)
    address = lazy_client("s3").generate_presigned_url("get_object", Params={"Bucket": "files", "Key": "k"})
    assert "X-Amz-Algorithm=AWS4-HMAC-SHA256" in address
    host = "files.s3.amazonaws.com" if region == "us-east-1" else f"files.s3.{region}.amazonaws.com"
    assert address.startswith(f"https://{host}/k?")
