"""The EBS direct APIs and the instance metadata service as a host meets them, with what goes wrong on request."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

BLOCK = 512 * 1024
SNAPSHOT = "snap-0f111000000000001"
ROLE = "/latest/meta-data/iam/security-credentials/"


@dataclass
class DirectApiServer:
    """`snapshots`: blocks by snapshot and index. `refusals` are answered instead of the next blocks: (status, code,
    reason). `volumes`: the volume of a snapshot where it is not that of all others. `damages`: by block, what is wrong
    with its next answers: short, checksum or length. The answer for a block that it `holds` waits until it does not."""

    snapshots: dict[str, dict[int, bytes]]
    volumes: dict[str, str] = field(default_factory=dict)
    volume_gib: int = 1
    page_blocks: int = 10_000
    refusals: deque[tuple[int, str, str]] = field(default_factory=deque)
    damages: dict[int, list[str]] = field(default_factory=dict)
    asked: Counter[int] = field(default_factory=Counter)
    holds: Callable[[int], bool] = lambda _index: False
    lists: int = 0
    generation: int = 0
    has_role: bool = True
    url: str = ""

    def expire_tokens(self) -> None:
        """Tokens that were given until now are not valid any more."""
        self.generation += 1

    def token(self, snapshot: str, index: int) -> str:
        return base64.b64encode(f"{snapshot}/{index}/{self.generation}".encode()).decode()

    # -- answers: (status, headers, body) ----------------------------------------------------------------------

    def answer(self, path: str, query: dict[str, list[str]]) -> tuple[int, dict[str, str], bytes]:
        if path.startswith("/latest/"):
            return self._metadata(path)
        parts = path.strip("/").split("/")
        if parts[1] not in self.snapshots:
            return _refusal(404, "ResourceNotFoundException", "SNAPSHOT_NOT_FOUND")
        if len(parts) == 4:
            return self._block(parts[1], int(parts[3]), query["blockToken"][0])
        self.lists += 1
        return self._changed(parts[1], query) if parts[2] == "changedblocks" else self._list(parts[1], query)

    def _metadata(self, path: str) -> tuple[int, dict[str, str], bytes]:
        said: dict[str, Any] = {
            "/latest/api/token": "metadata-token",
            "/latest/meta-data/placement/region": "eu-west-1",
            "/latest/meta-data/services/domain": "amazonaws.com",
        }
        if self.has_role:
            said[ROLE] = "of-host"
            said[ROLE + "of-host"] = json.dumps(CREDENTIALS)
        return (200, {}, said[path].encode()) if path in said else (404, {}, b"")

    def _list(self, snapshot: str, query: dict[str, list[str]]) -> tuple[int, dict[str, str], bytes]:
        start = int(query.get("pageToken", ["0"])[0])
        indices = sorted(index for index in self.snapshots[snapshot] if index >= start)
        page, rest = indices[: self.page_blocks], indices[self.page_blocks :]
        document = {
            "Blocks": [{"BlockIndex": one, "BlockToken": self.token(snapshot, one)} for one in page],
            "VolumeSize": self.volume_gib,
            "BlockSize": BLOCK,
            "NextToken": str(rest[0]) if rest else None,
        }
        return 200, {}, json.dumps(document).encode()

    def _changed(self, second: str, query: dict[str, list[str]]) -> tuple[int, dict[str, str], bytes]:
        """Every other page is empty, as AWS's may be."""
        first = query["firstSnapshotId"][0]
        if self.volumes.get(first) != self.volumes.get(second):
            return _refusal(400, "ValidationException", "UNRELATED_SNAPSHOTS")
        before, after = self.snapshots[first], self.snapshots[second]
        start, _, empty = query.get("pageToken", ["0.empty"])[0].partition(".")
        differ = sorted(
            one
            for one in before.keys() | after.keys()
            if one >= int(start) and before.get(one) != after.get(one)
        )
        page, rest = ([], differ) if empty else (differ[: self.page_blocks], differ[self.page_blocks :])
        document = {
            "ChangedBlocks": [
                {
                    "BlockIndex": one,
                    **({"FirstBlockToken": self.token(first, one)} if one in before else {}),
                    **({"SecondBlockToken": self.token(second, one)} if one in after else {}),
                }
                for one in page
            ],
            "VolumeSize": self.volume_gib,
            "BlockSize": BLOCK,
            "NextToken": (str(rest[0]) + ("" if empty else ".empty")) if rest else None,
        }
        return 200, {}, json.dumps(document).encode()

    def _block(self, snapshot: str, index: int, token: str) -> tuple[int, dict[str, str], bytes]:
        self.asked[index] += 1
        while self.holds(index):
            time.sleep(0.01)
        if self.refusals:
            return _refusal(*self.refusals.popleft())
        if token != self.token(snapshot, index):
            return _refusal(400, "ValidationException", "INVALID_BLOCK_TOKEN")
        content = self.snapshots[snapshot][index].ljust(BLOCK, b"\0")
        headers = {
            "x-amz-Data-Length": str(BLOCK),
            "x-amz-Checksum": base64.b64encode(hashlib.sha256(content).digest()).decode(),
            "x-amz-Checksum-Algorithm": "SHA256",
        }
        damage = self.damages[index].pop(0) if self.damages.get(index) else ""
        if damage == "checksum":
            content = b"\1" + content[1:] if content[:1] != b"\1" else b"\2" + content[1:]
        elif damage == "length":
            headers["x-amz-Data-Length"] = str(BLOCK // 2)
        elif damage == "short":
            content = content[: BLOCK // 2]
        return 200, headers, content


CREDENTIALS = {
    "Code": "Success",
    "AccessKeyId": "ASIAEXAMPLE",
    "SecretAccessKey": "a secret",
    "Token": "a/session+token==",
    "Expiration": "2099-01-01T00:00:00Z",
}


def _refusal(status: int, code: str, reason: str) -> tuple[int, dict[str, str], bytes]:
    body = {"Message": f"{code} of the test", "Reason": reason}
    return status, {"x-amzn-ErrorType": f"{code}:http://internal.amazon.com/"}, json.dumps(body).encode()


@contextmanager
def served(server: DirectApiServer) -> Iterator[DirectApiServer]:
    """The server on loopback, keeping connections as AWS does; `url` says where."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            place = urlsplit(self.path)
            status, headers, body = server.answer(place.path, parse_qs(place.query))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_PUT = do_GET

        def log_message(self, *_: Any) -> None:
            """Nothing: the tests look at what was asked."""

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listener.daemon_threads = True
    thread = threading.Thread(target=listener.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    server.url = f"http://127.0.0.1:{listener.server_address[1]}"
    try:
        yield server
    finally:
        listener.shutdown()
        thread.join()
        listener.server_close()
