"""Signature Version 4 of a GET request without a body (AWS General Reference, "Signing AWS API requests").

Written here because the host has the standard library only; tests/host/aws compares it with botocore's signer.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from datetime import datetime
from typing import Dict, Sequence, Tuple
from urllib.parse import quote

_ALGORITHM = "AWS4-HMAC-SHA256"
_NOTHING = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True)
class Credentials:
    """Of a role's session. `expires_at` in seconds since 1970. Secrets are not shown."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str = field(repr=False)
    expires_at: float = 0.0


def query_text(query: Sequence[Tuple[str, str]]) -> str:
    """A query as it is signed and sent: sorted, everything but unreserved characters encoded."""
    return "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in sorted(query))


def signed_headers(
    credentials: Credentials,
    region: str,
    service: str,
    host: str,
    path: str,
    query: Sequence[Tuple[str, str]],
    now: datetime,
) -> Dict[str, str]:
    """The headers of the request, `host` among them. `path`: unreserved characters and slashes only; `now`: UTC."""
    stamp = now.strftime("%Y%m%dT%H%M%SZ")
    headers = {"host": host, "x-amz-date": stamp, "x-amz-security-token": credentials.session_token}
    names = ";".join(sorted(headers))
    lines = "".join(f"{name}:{headers[name].strip()}\n" for name in sorted(headers))
    request = "\n".join(["GET", path, query_text(query), lines, names, _NOTHING])
    scope = f"{stamp[:8]}/{region}/{service}/aws4_request"
    to_sign = "\n".join([_ALGORITHM, stamp, scope, hashlib.sha256(request.encode()).hexdigest()])
    key = ("AWS4" + credentials.secret_access_key).encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    signature = hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()
    headers["authorization"] = (
        f"{_ALGORITHM} Credential={credentials.access_key_id}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    return headers
