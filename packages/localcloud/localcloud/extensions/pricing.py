"""The Price List API over HTTP, which moto does not have.

As on AWS it is served in us-east-1, ap-south-1 and eu-central-1 alone (a client of another region finds no such host),
answers products as JSON documents in strings, a page at a time, and knows prices of all regions there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from werkzeug.wrappers import Request, Response

from localcloud.extensions.price_list import ENDPOINT_REGIONS, PriceListError
from localcloud.iam.gateway import WsgiApplication

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud
TARGET = "AWSPriceListService."
_SCOPE = re.compile(r"Credential=[^/,\s]+/\d+/([^/]+)/pricing/aws4_request")


def is_for_pricing(environ: Mapping[str, Any]) -> bool:
    return str(environ.get("HTTP_X_AMZ_TARGET", "")).startswith(TARGET)


def pricing_application(cloud: OpenCloud) -> WsgiApplication:
    """The API over HTTP, to stand behind access control."""

    def answer(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        return _response(cloud, Request(environ))(environ, start_response)

    return answer


def _response(cloud: OpenCloud, request: Request) -> Response:
    action = request.headers.get("X-Amz-Target", "").removeprefix(TARGET)
    scope = _SCOPE.search(request.headers.get("Authorization", ""))
    if scope is not None and scope.group(1) not in ENDPOINT_REGIONS:
        # On AWS the name does not resolve; nearer than this a server that did get the request cannot come.
        return Response(f"there is no host api.pricing.{scope.group(1)}.amazonaws.com", status=404)
    fault = cloud.faults.take(f"pricing:{action}")
    try:
        if fault is not None:
            raise PriceListError(fault.error, fault.message)
        if action != "GetProducts":
            raise PriceListError("InvalidAction", f"the local cloud has no pricing:{action}")
        return _json(200, cloud.price_list.get_products(json.loads(request.get_data() or b"{}")))
    except PriceListError as error:
        status = 500 if error.code.startswith("Internal") else 400
        return _json(status, {"__type": error.code, "message": str(error)})


def _json(status: int, document: Mapping[str, Any]) -> Response:
    return Response(json.dumps(document), status=status, content_type="application/x-amz-json-1.1")
