"""The host package in S3."""

from __future__ import annotations

from typing import TYPE_CHECKING

from peaker.adapters.aws_errors import translated

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

URL_LIFE_SECONDS = 3600


class S3HostPackage:
    """Port HostPackage; the hash is fixed at deployment."""

    def __init__(self, s3: S3Client, bucket: str, key: str, sha256: str) -> None:
        self._s3 = s3
        self._bucket = bucket
        self._key = key
        self._sha256 = sha256

    def sha256(self) -> str:
        return self._sha256

    def download_url(self) -> str:
        with translated("s3:GetObject"):
            return self._s3.generate_presigned_url(
                "get_object", Params={"Bucket": self._bucket, "Key": self._key}, ExpiresIn=URL_LIFE_SECONDS
            )
