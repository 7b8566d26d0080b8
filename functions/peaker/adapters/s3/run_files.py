"""Files that a run's hosts fetch, in a bucket that forgets them after days."""

from __future__ import annotations

from typing import TYPE_CHECKING

from peaker.adapters.aws_errors import translated

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

URL_LIFE_SECONDS = 3600


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
        with translated("s3:GetObject"):
            return self._s3.generate_presigned_url(
                "get_object", Params={"Bucket": self._bucket, "Key": key}, ExpiresIn=URL_LIFE_SECONDS
            )
