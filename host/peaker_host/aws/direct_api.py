"""The EBS direct APIs: which blocks a snapshot holds, and what is in them. One attempt a call; who calls tries again.

The form of requests and answers is botocore's model `ebs`; which errors may be tried again is of the EBS user guide,
"Error retries for EBS direct APIs".
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.client
import re
import threading
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Callable, Dict, List, Sequence, Tuple
from urllib.parse import urlsplit

from peaker_host.aws.instance_role import InstanceRole
from peaker_host.aws.signature import query_text, signed_headers
from peaker_host.blocks.ranges import BLOCK_BYTES
from peaker_host.machine.errors import (
    BlockDamaged,
    BlockTokenRefused,
    DirectApiBusy,
    DirectApiRefused,
    HostError,
)
from peaker_host.machine.understanding import MISFITS, parsed_json, understood, whole

GIB = 1024**3
LIST_PAGE = 10_000
_TIMEOUT_SECONDS = 60.0
_MOST_ERROR_BYTES = 64 * 1024
# A page of 10,000 blocks, each with two tokens of 256 characters at most.
_MOST_LIST_BYTES = 16 * 1024 * 1024
_SNAPSHOT_ID = re.compile(r"snap-[0-9a-f]{8,40}")
_TOKEN = re.compile(r"[A-Za-z0-9+/=]{1,256}")
_THROTTLED = ("ThrottlingException", "RequestThrottledException", "RequestThrottleException")
_OLD_CREDENTIALS = ("ExpiredTokenException", "ExpiredToken")

Query = Sequence[Tuple[str, str]]


@dataclass(frozen=True)
class BlockPage:
    """Blocks of a page in ascending order, each with its token; `next_token` is empty on the last one."""

    blocks: List[Tuple[int, str]]
    next_token: str
    volume_bytes: int


@dataclass(frozen=True)
class ChangedPage:
    """Numbers of blocks of a page in ascending order, which AWS may leave empty; `next_token` is empty on the last
    page. `volume_bytes` is of the second snapshot's volume."""

    blocks: List[int]
    next_token: str
    volume_bytes: int


def snapshot_id(text: str) -> str:
    """The id itself. Raises ValueError for what is none."""
    if not _SNAPSHOT_ID.fullmatch(text):
        raise ValueError(f"{text[:60]!r} is not a snapshot id")
    return text


class DirectApi:
    """One connection a thread, kept open. `endpoint_url` is the region's where it is empty."""

    def __init__(self, role: InstanceRole, endpoint_url: str = "") -> None:
        self._role = role
        self._region = role.region()
        place = urlsplit(endpoint_url or role.endpoint("ebs"))
        self._netloc = place.netloc
        self._secure = place.scheme != "http"
        self._of_thread = threading.local()

    def snapshot_blocks(self, snapshot: str, page: str = "") -> BlockPage:
        """ListSnapshotBlocks. Raises what `_ask` raises."""
        return parse_page(self._list(f"/snapshots/{snapshot}/blocks", [], page), "Blocks", "BlockToken")

    def changed_blocks(self, first: str, second: str, page: str = "") -> ChangedPage:
        """ListChangedBlocks: what differs between two snapshots of one volume. Raises what `_ask` raises,
        DirectApiRefused (UNRELATED_SNAPSHOTS) for those of two."""
        return parse_changed(
            self._list(f"/snapshots/{second}/changedblocks", [("firstSnapshotId", first)], page)
        )

    def block(self, snapshot: str, index: int, token: str, into: memoryview) -> None:
        """GetSnapshotBlock: fills `into`, a whole block, with what carries the checksum that was sent with it.

        Raises BlockTokenRefused, BlockDamaged, and what `_ask` raises.
        """

        def take(answer: http.client.HTTPResponse) -> None:
            got = 0
            while got < BLOCK_BYTES:
                more = answer.readinto(into[got:BLOCK_BYTES])
                if not more:
                    raise BlockDamaged(f"block {index} of {snapshot}: {got} of {BLOCK_BYTES} bytes came")
                got += more
            _check(answer, into, f"block {index} of {snapshot}")

        self._ask(f"/snapshots/{snapshot}/blocks/{index}", [("blockToken", token)], take)

    def _list(self, path: str, query: Query, page: str) -> bytes:
        said: List[bytes] = []

        def take(answer: http.client.HTTPResponse) -> None:
            said.append(answer.read(_MOST_LIST_BYTES))

        more = [("pageToken", page)] if page else []
        self._ask(path, [*query, ("maxResults", str(LIST_PAGE)), *more], take)
        return said[0]

    def _ask(self, path: str, query: Query, take: Callable[[http.client.HTTPResponse], None]) -> None:
        """One request. Raises DirectApiBusy (ask again), DirectApiRefused, BlockTokenRefused, NoInstanceRole."""
        headers = signed_headers(
            self._role.credentials(),
            self._region,
            "ebs",
            self._netloc,
            path,
            query,
            datetime.now(timezone.utc),
        )
        connection = self._connection()
        try:
            connection.request("GET", f"{path}?{query_text(query)}", headers=headers)
            answer = connection.getresponse()
            if answer.status == 200:
                take(answer)
                return
            kind = answer.getheader("x-amzn-ErrorType") or ""
            refusal = parse_refusal(answer.status, kind, answer.read(_MOST_ERROR_BYTES), path)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise DirectApiBusy(f"{self._netloc} does not answer: {type(error).__name__}: {error}") from error
        except HostError:
            # The rest of an answer that was not understood must not be taken for the next one.
            connection.close()
            raise
        raise refusal

    def _connection(self) -> http.client.HTTPConnection:
        known = getattr(self._of_thread, "connection", None)
        if known is None:
            kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
            known = self._of_thread.connection = kind(self._netloc, timeout=_TIMEOUT_SECONDS)
        found: http.client.HTTPConnection = known
        return found


def parse_page(text: bytes, blocks: str, token: str) -> BlockPage:
    """A page of a list; `blocks` and `token` are the names of its fields. Raises DirectApiRefused."""
    with understood(DirectApiRefused, "a list of blocks"):
        return _page(parsed_json(text), blocks, token)


def parse_changed(text: bytes) -> ChangedPage:
    """A page of a list of changed blocks; a token is absent where a snapshot has no such block, and none is needed.

    Raises DirectApiRefused.
    """
    with understood(DirectApiRefused, "a list of changed blocks"):
        said = parsed_json(text)
        following, volume_bytes = _about(said)
        return ChangedPage(
            [whole(one["BlockIndex"], "BlockIndex") for one in said["ChangedBlocks"]], following, volume_bytes
        )


def _about(said: Dict[str, Any]) -> Tuple[str, int]:
    """(token of the next page, size of the volume in bytes), of either list."""
    if whole(said["BlockSize"], "BlockSize") != BLOCK_BYTES:
        raise ValueError(f"blocks of {said['BlockSize']} bytes, not of {BLOCK_BYTES}")
    following = said.get("NextToken") or ""
    if not isinstance(following, str):
        raise ValueError("NextToken is no text")
    return following, whole(said["VolumeSize"], "VolumeSize", 1, 2**20) * GIB


def _page(said: Dict[str, Any], blocks: str, token: str) -> BlockPage:
    following, volume_bytes = _about(said)
    found = [(whole(one["BlockIndex"], "BlockIndex"), one[token]) for one in said[blocks] if one.get(token)]
    for _, one in found:
        if not isinstance(one, str) or not _TOKEN.fullmatch(one):
            raise ValueError(f"a block token is {str(one)[:60]!r}")
    return BlockPage(found, following, volume_bytes)


def _check(answer: http.client.HTTPResponse, content: memoryview, what: str) -> None:
    length, algorithm = answer.getheader("x-amz-Data-Length"), answer.getheader("x-amz-Checksum-Algorithm")
    if answer.read(1) or length != str(BLOCK_BYTES):
        raise BlockDamaged(f"{what}: {length} bytes are announced, not {BLOCK_BYTES}")
    if algorithm != "SHA256":
        raise BlockDamaged(f"{what}: the checksum is by {str(algorithm)[:40]}, not by SHA256")
    digest = base64.b64encode(hashlib.sha256(content[:BLOCK_BYTES]).digest()).decode()
    if answer.getheader("x-amz-Checksum") != digest:
        raise BlockDamaged(f"{what}: its bytes do not have the checksum that came with them")


def parse_refusal(status: int, kind: str, body: bytes, path: str) -> HostError:
    """What an error means. `kind` is the header with its code, as of all services that speak REST with JSON."""
    code, message, reason = kind.split(":")[0].rpartition("#")[2], "", ""
    with contextlib.suppress(*MISFITS):
        said = parsed_json(body)
        message = str(said.get("Message") or said.get("message") or "")
        reason = str(said.get("Reason") or "")
        code = code or str(said.get("__type") or said.get("code") or "").rpartition("#")[2]
    shown = " ".join(part[:300] for part in (code or str(status), reason, message) if part)
    if code in _THROTTLED or status in (429, 503):
        return DirectApiBusy(shown, {"throttled": True})
    if code in _OLD_CREDENTIALS or status >= 500:
        return DirectApiBusy(shown)
    if reason == "INVALID_BLOCK_TOKEN":
        return BlockTokenRefused(shown)
    return DirectApiRefused(f"{path}: {shown}")
