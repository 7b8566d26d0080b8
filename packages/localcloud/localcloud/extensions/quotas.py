"""Service Quotas of EC2 and EBS, which moto does not have.

As on AWS, GetServiceQuota knows a quota only once the account has a value of its own; the default is another call's.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from moto.servicequotas.exceptions import NoSuchResource
from moto.servicequotas.models import ServiceQuotasBackend
from moto.servicequotas.responses import ServiceQuotasResponse

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud


def install(cloud: OpenCloud) -> None:
    """Answer both calls for EC2 and EBS; the rest is moto's."""

    def get_service_quota(self: Any, service_code: str, quota_code: str) -> dict[str, Any]:
        found = cloud.quotas.applied(service_code, quota_code)
        return found or dict(original(self, service_code=service_code, quota_code=quota_code))

    def get_aws_default_service_quota(self: Any) -> str:
        asked = json.loads(self.body)
        found = cloud.quotas.default(asked["ServiceCode"], asked["QuotaCode"])
        if found is None:
            raise NoSuchResource
        return json.dumps({"Quota": found})

    original = cloud.patch(ServiceQuotasBackend, "get_service_quota", get_service_quota)
    cloud.add_action(ServiceQuotasResponse, "get_aws_default_service_quota", get_aws_default_service_quota)
