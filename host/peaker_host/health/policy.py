"""The health policy is the responder's rules, which start_database and report_health store on the host."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Any, Dict, Tuple

from peaker_host.machine.errors import InvalidArgument, UnreadableFile
from peaker_host.machine.files import read_json, write_json
from peaker_host.machine.settings import Settings
from peaker_host.machine.understanding import parsed_json, understood

_WHOLE_FROM_0 = ("floor_replicas",)
_HIGHEST = 10**9
_PEER_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z.:-]{0,252}")


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
    try:
        content = parsed_json(text)
    except ValueError as error:
        raise InvalidArgument(f"health: not JSON: {error}") from error
    known = {field.name for field in fields(HealthPolicy)}
    if not isinstance(content, dict):
        raise InvalidArgument("health: must be a JSON object")
    for name, value in content.items():
        if name not in known:
            raise InvalidArgument(
                f"health: unknown field {_shown(name)}; known are {', '.join(sorted(known))}"
            )
        _check_field(name, value)
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
        try:
            for name, value in stored.items():
                _check_field(name, value)
        except InvalidArgument as error:
            raise UnreadableFile(f"{path}: {str(error)[:300]}; {_STORED_ANEW}") from error
        return HealthPolicy(**{**stored, "peers": _peers(stored.get("peers", []))})


def _check_field(name: str, value: Any) -> None:
    if name == "peers":
        _peers(value)
        return
    if name == "source_serves_reads":
        if not isinstance(value, bool):
            raise InvalidArgument(f"health: {name} must be true or false, not {_shown(value)}")
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= _HIGHEST:
        raise InvalidArgument(
            f"health: {name} must be a number from 0 to {_HIGHEST}, not {str(value)[:60]!r}"
        )
    if name in _WHOLE_FROM_0 and not isinstance(value, int):
        raise InvalidArgument(f"health: {name} must be a whole number, not {_shown(value)}")


def _peers(content: Any) -> Tuple[Peer, ...]:
    if not isinstance(content, list):
        raise InvalidArgument("peers: must be a JSON list")
    found = []
    for entry in content:
        if not isinstance(entry, dict) or set(entry) != {"instance_id", "address"}:
            raise InvalidArgument(f"peers: needs instance_id and address, got {_shown(entry)}")
        if not all(isinstance(value, str) and _PEER_NAME.fullmatch(value) for value in entry.values()):
            raise InvalidArgument(f"peers: {_shown(entry)} holds what is no name or address")
        found.append(Peer(entry["instance_id"], entry["address"]))
    return tuple(found)


def _shown(value: Any) -> str:
    """A value of others, short enough for a message."""
    return ascii(value) if isinstance(value, float) else ascii(str(value)[:200])
