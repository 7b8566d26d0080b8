"""The credentials of this instance's role, from the instance metadata service, version 2 (EC2 user guide).

A session token is asked for first, by PUT; it is good for as many seconds as were asked for. A proxy is never used:
the address is link-local.
"""

from __future__ import annotations

import http.client
import threading
import time
from calendar import timegm
from typing import Callable, Optional
from urllib.parse import urlsplit

from peaker_host.aws.signature import Credentials
from peaker_host.machine.errors import NoInstanceRole
from peaker_host.machine.understanding import parsed_json, understood

METADATA_URL = "http://169.254.169.254"
_TOKEN_SECONDS = 21600
_TIMEOUT_SECONDS = 5.0
_MOST_BYTES = 64 * 1024
# EC2 puts new credentials there at least five minutes before the old ones expire.
_RENEW_BEFORE_SECONDS = 300.0
# A renewal that failed, or that brought the old ones again, is tried again after so long.
_RENEW_AGAIN_SECONDS = 10.0
_ROLE = "/latest/meta-data/iam/security-credentials/"


class InstanceRole:
    """Who this host is towards AWS. Safe to use from several threads."""

    def __init__(self, metadata_url: str = METADATA_URL, now: Callable[[], float] = time.time) -> None:
        place = urlsplit(metadata_url)
        self._host, self._port = place.hostname or "", place.port or 80
        self._now = now
        self._lock = threading.Lock()
        self._token, self._token_until = "", 0.0
        self._credentials: Optional[Credentials] = None
        self._renew_from = 0.0

    def credentials(self) -> Credentials:
        """Good for five minutes at least, where the service has such; it may throttle and fail (EC2 user guide), and
        then the ones that are known serve to their end. Raises NoInstanceRole without any."""
        with self._lock:
            known = self._credentials
            if known is None or self._now() >= min(self._renew_from, known.expires_at):
                known = self._credentials = self._renewed(known)
            return known

    def endpoint(self, service: str) -> str:
        """The service's address in this instance's region, e.g. https://ebs.eu-west-1.amazonaws.com."""
        with self._lock:
            domain = self._text("/latest/meta-data/services/domain")
        return f"https://{service}.{self.region()}.{domain}"

    def region(self) -> str:
        """Where this instance runs. Raises NoInstanceRole."""
        with self._lock:
            return self._text("/latest/meta-data/placement/region")

    def _renewed(self, known: Optional[Credentials]) -> Credentials:
        self._renew_from = self._now() + _RENEW_AGAIN_SECONDS
        try:
            fresh = self._fresh()
        except NoInstanceRole:
            if known is None or self._now() >= known.expires_at:
                raise
            return known
        self._renew_from = max(self._renew_from, fresh.expires_at - _RENEW_BEFORE_SECONDS)
        return fresh

    def _fresh(self) -> Credentials:
        role = self._text(_ROLE).splitlines()[0]
        return parse_credentials(self._text(_ROLE + role))

    def _text(self, path: str) -> str:
        if self._now() >= self._token_until:
            headers = {"X-aws-ec2-metadata-token-ttl-seconds": str(_TOKEN_SECONDS), "Content-Length": "0"}
            self._token = self._ask("PUT", "/latest/api/token", headers)
            self._token_until = self._now() + _TOKEN_SECONDS / 2
        found = self._ask("GET", path, {"X-aws-ec2-metadata-token": self._token})
        if not found.strip():
            raise NoInstanceRole(f"the instance metadata service says nothing at {path}")
        return found.strip()

    def _ask(self, method: str, path: str, headers: "dict[str, str]") -> str:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=_TIMEOUT_SECONDS)
        try:
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            said = answer.read(_MOST_BYTES)
        except (OSError, http.client.HTTPException) as error:
            raise NoInstanceRole(f"the instance metadata service does not answer: {error}") from error
        finally:
            connection.close()
        if answer.status == 404 and path.startswith(_ROLE):
            raise NoInstanceRole("this instance has no role: give it an instance profile")
        if answer.status != 200:
            raise NoInstanceRole(
                f"the instance metadata service answers {method} {path} with {answer.status}"
            )
        return said.decode("utf-8", "replace")


def parse_credentials(text: str) -> Credentials:
    """What the service says of a role. Raises NoInstanceRole; the text itself, a secret, is not shown."""
    with understood(NoInstanceRole, "the credentials of the instance metadata service"):
        answer = parsed_json(text)
        if answer["Code"] != "Success":
            raise NoInstanceRole(f"the role gives this instance no credentials: {str(answer['Code'])[:60]}")
        keys = [answer[name] for name in ("AccessKeyId", "SecretAccessKey", "Token")]
        if not all(isinstance(key, str) and key.isascii() and key.isprintable() for key in keys):
            raise NoInstanceRole(
                "the instance metadata service gives credentials that cannot stand in a header"
            )
        until = timegm(time.strptime(answer["Expiration"], "%Y-%m-%dT%H:%M:%SZ"))
        return Credentials(keys[0], keys[1], keys[2], float(until))
