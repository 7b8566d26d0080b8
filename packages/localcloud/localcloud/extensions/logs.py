"""CloudWatch Logs: a log group takes a customer-managed key only if its policy lets the service use it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moto.logs.exceptions import InvalidParameterException

from localcloud.iam.access import Refused
from localcloud.iam.need import Need

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud

ACTIONS = ("Encrypt", "Decrypt", "GenerateDataKey")


def install(cloud: OpenCloud) -> None:
    """Try the key as the service when a group is made with one, as CreateLogGroup does."""
    from moto.logs.models import LogsBackend

    original = LogsBackend.create_log_group

    def create_log_group(self: Any, log_group_name: str, tags: Any, **named: Any) -> Any:
        if key := named.get("kmsKeyId"):
            _try(cloud, str(key), log_group_name)
        return original(self, log_group_name, tags, **named)

    cloud.patch(LogsBackend, "create_log_group", create_log_group)


def _try(cloud: OpenCloud, key: str, name: str) -> None:
    place = f"{cloud.settings.region}:{cloud.settings.account_id}"
    group = f"arn:aws:logs:{place}:log-group:{name}"
    context = {"kms:encryptioncontext:aws:logs:arn": (group,)}
    own = cloud.access.account.customer_key(key)
    try:
        for action in ACTIONS if own else ():
            need = Need(f"kms:{action}", str(own), "key", context)
            cloud.access.check_service(f"logs.{cloud.settings.region}.amazonaws.com", group, need)
    except Refused as error:
        raise InvalidParameterException(
            msg="The specified KMS key does not exist or is not allowed to be used with LogGroup "
            f"'{group}': {error.message}"
        ) from error
