"""S3: a bucket's policy is judged with its conditions, by what judges every other policy (localcloud.iam)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud


def install(cloud: OpenCloud) -> None:
    """Keep moto from judging the policy again: it knows no conditions, so that "deny without TLS" would deny all."""
    from moto.iam.access_control import PermissionResult
    from moto.s3.models import FakeBucket

    def get_permission(_self: Any, _action: str, _resource: str) -> PermissionResult:
        return PermissionResult.NEUTRAL

    cloud.patch(FakeBucket, "get_permission", get_permission)
