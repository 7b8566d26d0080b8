"""Parameter Store's limits of size, which moto does not know: 4 KB for a standard parameter, 8 KB for an advanced one.

Source: Systems Manager User Guide, "Managing parameter tiers".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moto.ssm.exceptions import ValidationException
from moto.ssm.models import SimpleSystemManagerBackend, ssm_backends

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud

STANDARD_BYTES = 4_096
ADVANCED_BYTES = 8_192
BOOTSTRAP_VERSION = "28"


def install(cloud: OpenCloud) -> None:
    """Refuse a value that is too large for its tier; Intelligent-Tiering takes what either tier takes."""

    def put_parameter(self: Any, name: str, description: str, value: str, *args: Any, **kwargs: Any) -> Any:
        size, tier = len(str(value).encode()), kwargs.get("tier") or "Standard"
        if tier == "Standard" and size > STANDARD_BYTES:
            raise ValidationException(
                f"Standard tier parameters support a maximum parameter value of {STANDARD_BYTES} characters. To create "
                "a larger parameter value, upgrade the parameter to use the advanced-parameter tier."
            )
        if size > ADVANCED_BYTES:
            raise ValidationException(
                f"Advanced tier parameters support a maximum parameter value of {ADVANCED_BYTES} characters."
            )
        return original(self, name, description, value, *args, **kwargs)

    original = cloud.patch(SimpleSystemManagerBackend, "put_parameter", put_parameter)
    cloud.when_ready(lambda: _bootstrap(cloud))


def _bootstrap(cloud: OpenCloud) -> None:
    """The account went through `cdk bootstrap`, which leaves its version in a parameter."""
    settings = cloud.settings
    ssm_backends[settings.account_id][settings.region].put_parameter(
        name=f"/cdk-bootstrap/{settings.bootstrap_qualifier}/version",
        description="",
        value=BOOTSTRAP_VERSION,
        parameter_type="String",
        allowed_pattern="",
        keyid="",
        overwrite=True,
        tags=[],
        data_type="text",
        tier="Standard",
        policies=None,
    )
