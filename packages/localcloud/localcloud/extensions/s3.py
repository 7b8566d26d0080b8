"""S3: a bucket's policy is judged with its conditions, by what judges every other policy (localcloud.iam).

Reading an object fails on request, also for who has its presigned address alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from localcloud.faults import Fault
    from localcloud.open_cloud import OpenCloud

# S3's errors by which it asks to be asked again; whatever else is injected is the caller's own mistake.
_STATUS_OF = {"InternalError": 500, "ServiceUnavailable": 503, "SlowDown": 503}


def install(cloud: OpenCloud) -> None:
    """Keep moto from judging the policy again: it knows no conditions, so that "deny without TLS" would deny all."""
    from moto.iam.access_control import PermissionResult
    from moto.s3.models import FakeBucket

    def get_permission(self: Any, action: str, resource: str) -> PermissionResult:
        return PermissionResult.NEUTRAL

    cloud.patch(FakeBucket, "get_permission", get_permission)
    _fail_reads_on_request(cloud)


def _fail_reads_on_request(cloud: OpenCloud) -> None:
    """moto answers for keys past `BaseResponse.call_action`, where all other failures are injected."""
    from moto.s3.responses import S3Response

    original = cast(Callable[[Any, Any, str], Any], S3Response._key_response)

    def key_response(self: Any, request: Any, full_url: str) -> Any:
        fault = cloud.faults.take("s3:GetObject") if request.method == "GET" else None
        if fault is not None:
            return _STATUS_OF.get(fault.error, 400), {}, _error_document(fault)
        return original(self, request, full_url)

    cloud.patch(S3Response, "_key_response", key_response)


def _error_document(fault: Fault) -> str:
    code, message = escape(fault.error), escape(fault.message)
    return f'<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code><Message>{message}</Message></Error>'
