"""ebs:GetSnapshotBlock over HTTP, beside moto, whose way of writing an answer takes longer than reading the block.

A host that fills a volume asks for hundreds of blocks a second. Each answer carries the block's SHA-256; requests above
the limits of a snapshot and of the account are refused as on AWS (real seconds, because hosts live in them).
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from werkzeug.wrappers import Response

from localcloud.extensions.ec2.direct_apis import DirectActions, DirectError
from localcloud.extensions.ec2.state import ec2_state

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud

WsgiApplication = Callable[[dict[str, Any], Any], Iterable[bytes]]

_PLACE = re.compile(r"/snapshots/([^/]{1,64})/blocks/(\d{1,10})")
_STATUS = {"ResourceNotFoundException": 404, "AccessDeniedException": 403, "InternalServerException": 500}


class RequestRate:
    """How many requests a second are served; a second's worth may come at once (a token bucket)."""

    def __init__(self, per_second: float, now: Callable[[], float]) -> None:
        self._per_second = per_second
        self._now = now
        self._left, self._since = per_second, now()
        self._lock = threading.Lock()

    def take(self) -> bool:
        """Whether one more is served now."""
        with self._lock:
            now = self._now()
            self._left = min(self._per_second, self._left + (now - self._since) * self._per_second)
            self._since = now
            if self._left < 1:
                return False
            self._left -= 1
            return True


def is_for_block(environ: Mapping[str, Any]) -> bool:
    """A GET of one block; lists of blocks end without a number."""
    return environ.get("REQUEST_METHOD") == "GET" and bool(_PLACE.fullmatch(environ.get("PATH_INFO", "")))


def block_application(cloud: OpenCloud, now: Callable[[], float] = time.monotonic) -> WsgiApplication:
    """The operation, to stand behind access control; for a cloud with a data plane."""
    limits = cloud.settings
    of_account = RequestRate(limits.block_requests_per_second_of_account, now)
    of_snapshot: dict[str, RequestRate] = defaultdict(
        lambda: RequestRate(limits.block_requests_per_second_of_snapshot, now)
    )

    def answer(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        place = _PLACE.fullmatch(environ["PATH_INFO"])
        assert place is not None
        snapshot_id, index = place[1], int(place[2])
        [token] = parse_qs(environ.get("QUERY_STRING", "")).get("blockToken", [""])[:1]
        fault = cloud.faults.take("ebs:GetSnapshotBlock")
        try:
            if fault is not None:
                raise DirectError(fault.error, "", fault.message)
            if not of_account.take():
                raise _throttled("ThrottlingException", "ACCOUNT_THROTTLED", "the account")
            if not of_snapshot[snapshot_id].take():
                raise _throttled("RequestThrottledException", "RESOURCE_LEVEL_THROTTLE", snapshot_id)
            content = DirectActions(ec2_state(cloud)).block(snapshot_id, index, token)
        except DirectError as error:
            return _error(error)(environ, start_response)
        return _block(content)(environ, start_response)

    return answer


def _block(content: bytes) -> Response:
    checksum = base64.b64encode(hashlib.sha256(content).digest()).decode()
    headers = {
        "x-amz-Data-Length": str(len(content)),
        "x-amz-Checksum": checksum,
        "x-amz-Checksum-Algorithm": "SHA256",
    }
    return Response(content, headers=headers, content_type="application/octet-stream")


def _throttled(code: str, reason: str, whose: str) -> DirectError:
    return DirectError(code, reason, f"The maximum rate of requests of {whose} has been exceeded.")


def _error(error: DirectError) -> Response:
    body = {"Message": error.message, **({"Reason": error.Reason} if error.Reason else {})}
    return Response(
        json.dumps(body),
        status=_STATUS.get(error.code, 400),
        headers={"x-amzn-ErrorType": error.code},
        content_type="application/json",
    )
