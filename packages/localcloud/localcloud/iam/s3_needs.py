"""What the calls of S3 need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from localcloud.iam.account import Account
from localcloud.iam.need import Need, Needs, Params


def _bucket(action: str) -> Needs:
    def needs(params: Params, look: Account) -> list[Need]:
        keys: dict[str, Sequence[str] | None] = {}
        if action == "ListBucket":
            keys["s3:prefix"] = (str(params["Prefix"]),) if params.get("Prefix") else None
        return [Need(f"s3:{action}", f"arn:aws:s3:::{params['Bucket']}", "bucket", keys)]

    return needs


def _read_object(params: Params, look: Account) -> Iterator[Need]:
    bucket, key = str(params["Bucket"]), str(params["Key"])
    action = "GetObjectVersion" if params.get("VersionId") else "GetObject"
    yield Need(f"s3:{action}", f"arn:aws:s3:::{bucket}/{key}", "object")
    customer_key = look.key_of_object(bucket, key)
    if customer_key:
        yield Need("kms:Decrypt", customer_key, "key", _via_s3(look))


def _write_object(params: Params, look: Account) -> Iterator[Need]:
    bucket = str(params["Bucket"])
    yield Need("s3:PutObject", f"arn:aws:s3:::{bucket}/{params['Key']}", "object")
    given = params.get("SSEKMSKeyId")
    customer_key = look.customer_key(given) if given else look.key_of_bucket(bucket)
    if customer_key:
        yield Need("kms:GenerateDataKey", customer_key, "key", _via_s3(look))


def _via_s3(look: Account) -> Mapping[str, Sequence[str] | None]:
    return {"kms:viaservice": (f"s3.{look.region}.amazonaws.com",), "kms:calleraccount": (look.account_id,)}


S3: dict[str, Needs] = {
    "s3:GetObject": _read_object,
    "s3:HeadObject": _read_object,
    "s3:PutObject": _write_object,
    "s3:DeleteObject": lambda params, look: [
        Need("s3:DeleteObject", f"arn:aws:s3:::{params['Bucket']}/{params['Key']}", "object")
    ],
    **dict.fromkeys(("s3:ListObjectsV2", "s3:HeadBucket"), _bucket("ListBucket")),
    "s3:PutBucketPolicy": _bucket("PutBucketPolicy"),
    "s3:DeleteBucket": _bucket("DeleteBucket"),
    "s3:ListBuckets": lambda params, look: [Need("s3:ListAllMyBuckets")],
}
