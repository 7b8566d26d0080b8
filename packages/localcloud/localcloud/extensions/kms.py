"""KMS: a dry run answers what would come of the call, as an error, and does nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moto.core.exceptions import JsonRESTError

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud

DISABLED_STATES = frozenset({"Disabled"})


def install(cloud: OpenCloud) -> None:
    """Answer GenerateDataKeyWithoutPlaintext, the call that EBS makes for a new volume, as KMS does."""
    from moto.kms.responses import KmsResponse

    original = KmsResponse.generate_data_key_without_plaintext

    def generate_data_key_without_plaintext(self: Any) -> str:
        key_id = self._get_param("KeyId")
        self._validate_key_id(key_id)
        key = self.kms_backend.describe_key(self.kms_backend.get_key_id(key_id))
        if key.key_state in DISABLED_STATES:
            raise JsonRESTError("DisabledException", f"{key.arn} is disabled.")
        if key.key_state != "Enabled":
            raise JsonRESTError("KMSInvalidStateException", f"{key.arn} is {key.key_state}.")
        if self._get_param("DryRun"):
            raise JsonRESTError(
                "DryRunOperationException",
                "The request would have succeeded, but the DryRun option is set.",
            )
        return str(original(self))

    cloud.patch(KmsResponse, "generate_data_key_without_plaintext", generate_data_key_without_plaintext)
