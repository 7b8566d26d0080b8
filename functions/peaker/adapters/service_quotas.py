"""Service Quotas gives the account's limits.

GetServiceQuota knows a quota only where the account has a value of its own; AWS's default is another call's.
"""

from __future__ import annotations

from typing import Any

from botocore.exceptions import ClientError

from peaker.adapters.aws_errors import error_code, translated
from peaker.domain.limits.account_limits import Quota

_MISSING = "NoSuchResourceException"


class AwsServiceQuotas:
    """Port AccountQuotas."""

    def __init__(self, quotas: Any) -> None:
        self._quotas = quotas

    def value(self, quota: Quota) -> float | None:
        with translated("servicequotas:GetServiceQuota"):
            own = _value(self._quotas.get_service_quota, quota)
        if own is not None:
            return own
        with translated("servicequotas:GetAWSDefaultServiceQuota"):
            return _value(self._quotas.get_aws_default_service_quota, quota)


def _value(read: Any, quota: Quota) -> float | None:
    try:
        found = read(ServiceCode=quota.service, QuotaCode=quota.code)["Quota"].get("Value")
    except ClientError as error:
        if error_code(error) == _MISSING:
            return None
        raise
    return None if found is None else float(found)
