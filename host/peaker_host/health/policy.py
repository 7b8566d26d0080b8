"""The health policy is the responder's rules, which start_database and report_health store on the host.

Its serving floor limits the replicas that lag may take out at once: the least lagging go on while too few are good.
Each replica decides for itself, from what its peers' responders answer, also while the control plane is away.
"""

from __future__ import annotations

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields
from typing import Any, Dict, List, Sequence, Tuple

from peaker_host.machine.errors import InvalidArgument, UnreadableFile, decoded, parsed_json, understood
from peaker_host.machine.files import read_json, write_json
from peaker_host.machine.settings import Settings

_HIGHEST = 10**9
_STORED_ANEW = "report_health stores it anew within health.check_minutes"


@dataclass(frozen=True)
class Peer:
    """Another replica of the cluster, whose responder can be asked."""

    instance_id: str
    address: str


@dataclass(frozen=True)
class HealthPolicy:
    """The policy is the most lag that is good, and the peers that are asked before lag ejects this replica.

    Fewer than `floor_replicas` good replicas, counted over this one and its peers, let the least lagging ones go on; 0
    until the peers are known, for a replica that knows only itself would always be the last.
    """

    lag_seconds: float = 5.0
    floor_replicas: int = 0
    source_serves_reads: bool = False
    peers: Tuple[Peer, ...] = ()


def parse_policy(text: str) -> Dict[str, Any]:
    """The policy's fields out of JSON. Raises InvalidArgument that names the wrong one."""
    with understood(InvalidArgument, "health"):
        content = parsed_json(text)
        if not isinstance(content, dict):
            raise ValueError("it is no JSON object")
        _policy_of(content)
    return content


def store_policy(settings: Settings, policy: Dict[str, Any]) -> bool:
    """Lay these fields over what is stored; says whether that changed anything. An empty one keeps what is there.

    What is stored and cannot be read is replaced.
    """
    try:
        stored = read_json(settings.health_policy_file) or {}
    except UnreadableFile:
        stored = {}
    wanted = {**stored, **policy}
    if wanted == stored:
        return False
    write_json(settings.health_policy_file, wanted)
    return True


def load_policy(settings: Settings) -> HealthPolicy:
    """The stored policy; defaults where nothing was stored. Raises UnreadableFile."""
    path = settings.health_policy_file
    stored = read_json(path) or {}
    with understood(UnreadableFile, path, _STORED_ANEW):
        return _policy_of(stored)


def _policy_of(content: Dict[str, Any]) -> HealthPolicy:
    """Raises ValueError or TypeError that names the wrong field."""
    known = {field.name for field in fields(HealthPolicy)}
    if unknown := sorted(set(content) - known):
        raise ValueError(f"unknown field {unknown[0][:60]!r}; known are {', '.join(sorted(known))}")
    policy: HealthPolicy = decoded(HealthPolicy, {**asdict(HealthPolicy()), **content})
    if not 0 <= policy.lag_seconds <= _HIGHEST:
        raise ValueError(f"lag_seconds is {policy.lag_seconds}, not from 0 to {_HIGHEST}")
    return policy


# Two answers about the same instant may be apart by a sample's age, the time between two looks and a lag in whole
# seconds. Below that nobody is better: of two replicas at least one must go on, never neither.
TIE_SECONDS = 5.0
_ASK_TIMEOUT_SECONDS = 0.8
_ASKED_AT_ONCE = 16
_REQUEST = b"GET /health HTTP/1.0\r\nConnection: close\r\n\r\n"
# A lag that somebody measured is below the age of MySQL.
_NEVER_SECONDS = 1e10
_MOST_BYTES = 64 * 1024


@dataclass(frozen=True)
class Standing:
    """A peer's standing is good, lagging (nothing else is wrong with it), out, or unreachable."""

    instance_id: str
    state: str
    staleness_seconds: float = 0.0


@dataclass(frozen=True)
class FloorDecision:
    """The decision says whether a replica that only lags goes on serving, why, and from which numbers."""

    keep: bool
    reason: str
    numbers: Dict[str, Any]


def may_keep_serving(
    staleness_seconds: float, peers: Sequence[Standing], floor_replicas: int
) -> FloorDecision:
    """May a replica whose only fault is its lag go on? It may while fewer than `floor_replicas` others are good, and
    fewer lagging peers than there are places left are better than it by more than TIE_SECONDS.

    A peer that cannot be reached, or that has another fault than lag, serves nobody and takes no place.
    """
    good = sum(peer.state == "good" for peer in peers)
    better = sorted(
        peer.instance_id
        for peer in peers
        if peer.state == "lagging" and peer.staleness_seconds + TIE_SECONDS < staleness_seconds
    )
    places = max(0, floor_replicas - good)
    numbers = {
        "floor_replicas": floor_replicas,
        "peers": len(peers),
        "peers_good": good,
        "peers_unreachable": sum(peer.state == "unreachable" for peer in peers),
        "less_lagging_peers": better,
    }
    if places == 0:
        return FloorDecision(False, f"{good} of its peers are good, the floor is {floor_replicas}", numbers)
    if len(better) >= places:
        return FloorDecision(False, f"{len(better)} peers lag less and fill the {places} places", numbers)
    return FloorDecision(
        True, f"{good} of {len(peers)} peers are good, the floor is {floor_replicas}", numbers
    )


def ask_peers(
    peers: Sequence[Peer], port: int, timeout_seconds: float = _ASK_TIMEOUT_SECONDS
) -> List[Standing]:
    """Every peer's own word, asked at once; takes at most about the time-out for up to 16 peers."""
    if not peers:
        return []
    with ThreadPoolExecutor(min(len(peers), _ASKED_AT_ONCE)) as pool:
        return list(pool.map(lambda peer: _ask(peer, port, timeout_seconds), peers))


def standing_from(instance_id: str, body: Dict[str, Any]) -> Standing:
    """Reads a peer's standing; a good one whose newest sample shows lag is about to turn, so it counts as lagging."""
    staleness = body.get("staleness_seconds")
    if (
        body.get("only_lag") is True
        and isinstance(staleness, (int, float))
        and not isinstance(staleness, bool)
        and 0 <= staleness < _NEVER_SECONDS
    ):
        return Standing(instance_id, "lagging", float(staleness))
    return Standing(instance_id, "good" if body.get("state") == "good" else "out")


def read_health(address: str, port: int, timeout_seconds: float) -> "tuple[int, Dict[str, Any]]":
    """A responder's HTTP status and body. Raises OSError or ValueError when there is none.

    The time is for all of it, however slowly the other side speaks: urllib's begins anew with every byte. There is no
    proxy, whatever the host's environment names.
    """
    deadline = time.monotonic() + timeout_seconds
    with socket.create_connection((address, port), timeout_seconds) as connection:
        connection.sendall(_REQUEST)
        content = b""
        while len(content) <= _MOST_BYTES:
            connection.settimeout(max(0.001, deadline - time.monotonic()))
            piece = connection.recv(16 * 1024)
            if not piece:
                break
            content += piece
            if time.monotonic() > deadline:
                raise socket.timeout("the answer takes too long")
    return _answer(content)


def _ask(peer: Peer, port: int, timeout_seconds: float) -> Standing:
    try:
        _, body = read_health(peer.address, port, timeout_seconds)
    except (OSError, ValueError):
        return Standing(peer.instance_id, "unreachable")
    return standing_from(peer.instance_id, body)


def _answer(content: bytes) -> "tuple[int, Dict[str, Any]]":
    head, _, body = content.partition(b"\r\n\r\n")
    version, _, rest = head.partition(b" ")
    status = rest[:3]
    if not version.startswith(b"HTTP/1.") or not status.isdigit():
        raise ValueError("what answers is no health responder")
    return int(status), _body(body)


def _body(content: bytes) -> Dict[str, Any]:
    body = parsed_json(content)
    if not isinstance(body, dict):
        raise ValueError("the body is not a JSON object")
    return body
