"""The instance metadata service of one instance, version 2 (EC2 user guide), at an address of its own on loopback.

Whoever asks gets the credentials of the instance's role, and with them it is authorized like everybody else. A host in
namespaces has it at its link-local address; a program that stands for an instance, on loopback.
"""

from __future__ import annotations

import json
import secrets
import socket
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from werkzeug.serving import make_server
from werkzeug.wrappers import Request, Response

from localcloud.extensions.ec2.state import ec2_state
from localcloud.iam.identities import CannotAssume
from localcloud.open_cloud import LOOPBACK

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud

_TOKEN_SECONDS_AT_MOST = 21600
_CREDENTIALS_SECONDS = 6 * 3600
_ROLES = "/latest/meta-data/iam/security-credentials/"
_TTL = "X-aws-ec2-metadata-token-ttl-seconds"
_TOKEN = "X-aws-ec2-metadata-token"


class InstanceMetadata:
    """A WSGI application for one instance; version 1, which asks for no token, is refused."""

    def __init__(self, cloud: OpenCloud, instance_id: str, now: Callable[[], float] = time.monotonic) -> None:
        self._cloud = cloud
        self._instance_id = instance_id
        self._now = now
        self._tokens: dict[str, float] = {}

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        return self._answer(Request(environ))(environ, start_response)

    def _answer(self, request: Request) -> Response:
        if request.path == "/latest/api/token":
            return self._new_token(request)
        if self._tokens.get(request.headers.get(_TOKEN, ""), 0.0) <= self._now():
            return Response("Unauthorized", status=401)
        said = self._texts().get(request.path)
        return Response("Not Found", status=404) if said is None else Response(said())

    def _new_token(self, request: Request) -> Response:
        ttl = request.headers.get(_TTL, "")
        if request.method != "PUT":
            return Response("Method Not Allowed", status=405)
        if not ttl.isdigit() or not 1 <= int(ttl) <= _TOKEN_SECONDS_AT_MOST:
            return Response("Bad Request", status=400)
        token = secrets.token_urlsafe(40)
        self._tokens[token] = self._now() + int(ttl)
        return Response(token, headers={_TTL: ttl})

    def _texts(self) -> Mapping[str, Callable[[], str]]:
        texts: dict[str, Callable[[], str]] = {
            "/latest/meta-data/instance-id": lambda: self._instance_id,
            "/latest/meta-data/placement/region": lambda: self._cloud.settings.region,
            "/latest/meta-data/services/domain": lambda: "amazonaws.com",
        }
        role = self._role()
        if role is not None:
            texts[_ROLES] = lambda: str(role.name)
            texts[_ROLES + role.name] = lambda: self._credentials(role)
        return texts

    def _role(self) -> Any | None:
        backend = ec2_state(self._cloud).backend
        found = backend.iam_instance_profile_associations.get(self._instance_id)
        return None if found is None else next(iter(found.iam_instance_profile.roles), None)

    def _credentials(self, role: Any) -> str:
        try:
            known = self._cloud.access.identities.credentials(
                role.arn, self._instance_id, "ec2.amazonaws.com", self._cloud.clock.now()
            )
        except CannotAssume:
            return json.dumps({"Code": "AssumeRoleUnauthorizedAccess"})
        # By the machine's clock: that is the one that hosts sign with.
        expires = datetime.now(UTC) + timedelta(seconds=_CREDENTIALS_SECONDS)
        return json.dumps(
            {
                "Code": "Success",
                "Type": "AWS-HMAC",
                "AccessKeyId": known.access_key_id,
                "SecretAccessKey": known.secret_access_key,
                "Token": known.session_token,
                "Expiration": expires.strftime("%Y-%m-%dT%H:%M:%SZ"),
            }
        )


def serve_metadata(cloud: OpenCloud, instance_id: str) -> str:
    """Serve an instance's metadata until the cloud closes; returns the address, e.g. http://127.0.0.1:40123."""
    with socket.create_server((LOOPBACK, 0)) as listener:
        _serve(cloud, instance_id, listener)
        return f"http://{LOOPBACK}:{listener.getsockname()[1]}"


def serve_host_metadata(cloud: OpenCloud, instance_id: str) -> Callable[[], None]:
    """Serve a host's metadata in its own network; returns what ends that, at the latest as the cloud closes."""
    assert cloud.dataplane is not None
    listener = cloud.dataplane.hosts.metadata_socket(instance_id)
    if listener is None:
        return lambda: None
    with listener:
        return _serve(cloud, instance_id, listener)


def _serve(cloud: OpenCloud, instance_id: str, listener: socket.socket) -> Callable[[], None]:
    """The server works on a duplicate of the socket."""
    address, port = listener.getsockname()
    app = InstanceMetadata(cloud, instance_id)
    server = make_server(address, port, app, threaded=True, fd=listener.fileno())
    server.daemon_threads = True  # type: ignore[attr-defined]

    def end() -> None:
        server.shutdown()
        server.server_close()

    cloud.on_close(end)
    cloud.background(f"metadata-{instance_id}", lambda: server.serve_forever(0.05))
    return end
