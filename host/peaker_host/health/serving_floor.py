"""The serving floor limits the replicas that lag may take out at once: the least lagging go on while too few
are good.

Each replica decides for itself, from what its peers' responders answer. Nobody has to be asked for permission, so it
also holds while the control plane is away.
"""

from __future__ import annotations

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Dict, List, Sequence

from peaker_host.health.policy import Peer
from peaker_host.machine.understanding import parsed_json

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
    """Reads a peer's standing from its responder's body. A good one whose newest sample shows lag is about to
    turn: it counts as lagging.
    """
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
