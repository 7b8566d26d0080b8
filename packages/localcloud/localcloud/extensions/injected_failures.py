"""Failures on request, around every API action that moto answers."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from moto.core.exceptions import ServiceException

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud


class InjectedFailure(ServiceException):
    """An AWS error that was asked for. Defined here, so that moto serialises codes that no model names."""


def install(cloud: OpenCloud) -> None:
    """Look for a failure around every API action that moto answers (Lambda invocations have their own)."""
    from moto.core.responses import ActionResult, BaseResponse

    # An injected code need not be one that the service's model names.
    warnings.filterwarnings("ignore", message=r"Exception\(InjectedFailure\)")
    original = cast(Callable[[Any], Any], BaseResponse.call_action)

    def call_action(self: Any) -> Any:
        fault = cloud.faults.take(f"{self.boto3_service_name}:{self._get_action()}")
        if fault is None:
            return original(self)
        if fault.when == "after":
            original(self)
        status, headers, body = self.serialized(ActionResult(InjectedFailure(fault.error, fault.message)))
        headers["status"] = status
        status, headers, body = self._transform_response(self.response_headers, (body, headers))
        headers, body = self._enrich_response(headers, body)
        return status, headers, body

    cloud.patch(BaseResponse, "call_action", call_action)
