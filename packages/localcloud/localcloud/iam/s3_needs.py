"""What the calls of S3 need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from localcloud.iam.need import Lookup, Need, Needs, Params, listed


def _bucket(action: str) -> Needs:
    def needs(params: Params, look: Lookup) -> list[Need]:
        keys: dict[str, Sequence[str] | None] = {}
        if action == "ListBucket":
            keys["s3:prefix"] = (str(params["Prefix"]),) if params.get("Prefix") else None
        return [Need(f"s3:{action}", f"arn:aws:s3:::{params['Bucket']}", "bucket", keys)]

    return needs


def _read_object(params: Params, look: Lookup) -> Iterator[Need]:
    bucket, key = str(params["Bucket"]), str(params["Key"])
    action = "GetObjectVersion" if params.get("VersionId") else "GetObject"
    yield Need(f"s3:{action}", f"arn:aws:s3:::{bucket}/{key}", "object")
    customer_key = look.key_of_object(bucket, key)
    if customer_key:
        yield Need("kms:Decrypt", customer_key, "key", _via_s3(look))


def _write_object(params: Params, look: Lookup) -> Iterator[Need]:
    bucket = str(params["Bucket"])
    yield Need("s3:PutObject", f"arn:aws:s3:::{bucket}/{params['Key']}", "object")
    given = params.get("SSEKMSKeyId")
    customer_key = look.customer_key(given) if given else look.key_of_bucket(bucket)
    if customer_key:
        yield Need("kms:GenerateDataKey", customer_key, "key", _via_s3(look))


def _via_s3(look: Lookup) -> Mapping[str, Sequence[str] | None]:
    return {"kms:viaservice": (f"s3.{look.region}.amazonaws.com",), "kms:calleraccount": (look.account_id,)}


def _object(action: str) -> Needs:
    return lambda params, look: [
        Need(f"s3:{action}", f"arn:aws:s3:::{params['Bucket']}/{params['Key']}", "object")
    ]


def _delete_objects(params: Params, look: Lookup) -> list[Need]:
    return [
        Need("s3:DeleteObject", f"arn:aws:s3:::{params['Bucket']}/{one['Key']}", "object")
        for one in listed(params["Delete"]["Objects"])
    ]


def _list_objects(params: Params, look: Lookup) -> list[Need]:
    return list(_bucket("ListBucket")(params, look))


S3: dict[str, Needs] = {
    "s3:GetObject": _read_object,
    "s3:HeadObject": _read_object,
    "s3:PutObject": _write_object,
    "s3:DeleteObject": _object("DeleteObject"),
    "s3:DeleteObjects": _delete_objects,
    **{f"s3:{operation}": _list_objects for operation in ("ListObjects", "ListObjectsV2", "HeadBucket")},
    "s3:GetBucketLocation": _bucket("GetBucketLocation"),
    "s3:ListBuckets": lambda params, look: [Need("s3:ListAllMyBuckets")],
}
