"""S3: the host package, and files that a run's hosts fetch, in a bucket that forgets them after days."""

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
        return signed_url(self._s3, self._bucket, self._key)


class S3RunFiles:
    """Port RunFiles."""

    def __init__(self, s3: S3Client, bucket: str) -> None:
        self._s3 = s3
        self._bucket = bucket

    def publish(self, run_id: str, name: str, text: str) -> str:
        key = f"runs/{run_id}/{name}"
        with translated("s3:PutObject"):
            self._s3.put_object(
                Bucket=self._bucket, Key=key, Body=text.encode(), ContentType="application/json"
            )
        return signed_url(self._s3, self._bucket, key)


def signed_url(s3: S3Client, bucket: str, key: str) -> str:
    """A URL by which anybody may fetch the object for an hour."""
    with translated("s3:GetObject"):
        return s3.generate_presigned_url(
            "get_object", Params={"Bucket": bucket, "Key": key}, ExpiresIn=URL_LIFE_SECONDS
        )
