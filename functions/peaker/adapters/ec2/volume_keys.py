"""KMS keys of volumes: whether EBS can use them, asked before anything is made."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import ClientError

from peaker.adapters.aws_errors import error_code, translated
from peaker_contract.cluster import ClusterSettings

# KMS's answer to a dry run that would have gone through.
_WOULD_SUCCEED = "DryRunOperationException"
_REFUSED = frozenset(
    {
        "AccessDeniedException",
        "DisabledException",
        "InvalidArnException",
        "KMSInvalidStateException",
        "NotFoundException",
    }
)


class KmsVolumeKeys:
    """Port VolumeKeys."""

    def __init__(self, kms: Any) -> None:
        self._kms = kms

    def why_not_usable(self, key_arn: str, settings: ClusterSettings) -> str | None:
        with translated("kms:DescribeKey"):
            try:
                key = self._kms.describe_key(KeyId=key_arn)["KeyMetadata"]
            except ClientError as error:
                # IAM refuses every key of another account that the settings do not name.
                if error_code(error) == "AccessDeniedException" and key_arn not in settings.kms_key_arns:
                    return _not_named(settings)
                return _refusal("kms:DescribeKey", error)
        if key.get("KeyManager") == "AWS":
            return None
        if key.get("KeyState") != "Enabled":
            return f"its state is {key.get('KeyState')}; enable it, or use another key"
        if key["Arn"] not in settings.kms_key_arns:
            return _not_named(settings)
        return self._dry_run(key_arn)

    def _dry_run(self, key_arn: str) -> str | None:
        with translated("kms:GenerateDataKeyWithoutPlaintext"):
            try:
                self._kms.generate_data_key_without_plaintext(KeyId=key_arn, KeySpec="AES_256", DryRun=True)
            except ClientError as error:
                if error_code(error) == _WOULD_SUCCEED:
                    return None
                return _refusal("kms:GenerateDataKeyWithoutPlaintext", error)
        return None


def _not_named(settings: ClusterSettings) -> str:
    return (
        f"it is not in kms_key_arns of {settings.name}, so Peaker's functions may not use it; "
        "add its ARN there and deploy"
    )


def _refusal(action: str, error: ClientError) -> str:
    """KMS's own words for a key that cannot be used, and the remedy. Raises what is not about the key."""
    code = error_code(error)
    if code not in _REFUSED:
        raise error
    said = f"{action}: {code}: {error.response['Error'].get('Message', '')}"
    if code != "AccessDeniedException":
        return said
    return f"{said}; the key's policy must let this account's IAM policies in (docs/permissions.md, Keys)"
