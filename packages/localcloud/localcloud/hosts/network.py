"""The hosts' network: a bridge on this machine, one network namespace and veth pair per host.

Every link carries the state directory in its alias, so that what is ours can be told from what is not even
when only the kernel remembers it.
"""

from __future__ import annotations

import ipaddress
import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localcloud.dataplane import DataPlaneError
from localcloud.hosts.state_lock import live_server

NAMESPACE_PREFIX = "pkr-"
_MARK = "peaker "
NETNS_DIRECTORY = Path("/run/netns")


@dataclass(frozen=True)
class NetworkPlan:
    """The bridge and the network that hosts live in; this machine is its first address."""

    bridge: str = "pkr0"
    cidr: str = "10.77.0.0/16"

    @property
    def network(self) -> ipaddress.IPv4Network:
        return ipaddress.IPv4Network(self.cidr)

    @property
    def gateway(self) -> str:
        return str(self.network.network_address + 1)


def link_alias(state_directory: Path) -> str:
    """The mark on our links. The kernel keeps 255 characters."""
    return f"{_MARK}{state_directory}"[:255]


def namespace_name(instance_id: str) -> str:
    """i-0123456789abcdef0 -> pkr-9abcdef0: short enough for a link name."""
    return NAMESPACE_PREFIX + instance_id.replace("-", "")[-8:]


def ensure_bridge(plan: NetworkPlan, state_directory: Path) -> None:
    """Make the bridge, or take the one that is ours. Raises DataPlaneError when name or network is taken.

    What was left by a local cloud that was killed is taken down: its network would be in the way of every
    other checkout's until somebody cleans up in its own. Its processes and files stay for its own cleanup.
    """
    alias = link_alias(state_directory)
    owner = _bridge_alias(plan)
    if owner not in (None, alias) and _was_killed(owner):
        _take_down(Path(owner.removeprefix(_MARK)))
        owner = _bridge_alias(plan)
    if owner == alias:
        return
    if owner is not None:
        raise DataPlaneError(
            f"network link {plan.bridge} already exists and belongs to {owner or 'something else'}:"
            f" stop that local cloud, or remove the link (ip link delete {plan.bridge})"
        )
    _refuse_overlap(plan)
    batch(
        [
            f"link add name {plan.bridge} type bridge",
            f"link set dev {plan.bridge} alias '{alias}'",
            f"address add {plan.gateway}/{plan.network.prefixlen} dev {plan.bridge}",
            f"link set dev {plan.bridge} up",
        ]
    )


def _bridge_alias(plan: NetworkPlan) -> str | None:
    """The mark on the bridge; empty for a bridge without one, None without a bridge."""
    bridge = links().get(plan.bridge)
    return None if bridge is None else str(bridge.get("ifalias") or "")


def _was_killed(alias: str) -> bool:
    """Whether the mark is a local cloud's that no longer lives."""
    return alias.startswith(_MARK) and live_server(Path(alias.removeprefix(_MARK))) is None


def _take_down(state_directory: Path) -> None:
    for namespace in owned_namespaces(state_directory):
        disconnect(namespace)
    for link in owned_links(state_directory):
        remove_link(link)


def connect(plan: NetworkPlan, state_directory: Path, namespace: str, address: str) -> None:
    """A network namespace with one interface, eth0, at that address."""
    alias = link_alias(state_directory)
    batch(
        [
            f"netns add {namespace}",
            f"link add name {namespace} type veth peer name eth0 netns {namespace}",
            f"link set dev {namespace} alias '{alias}' master {plan.bridge} up",
        ]
    )
    batch(
        [
            "link set dev lo up",
            f"link set dev eth0 alias '{alias}'",
            f"address add {address}/{plan.network.prefixlen} dev eth0",
            "link set dev eth0 up",
            f"route add default via {plan.gateway}",
        ],
        namespace,
    )


def disconnect(namespace: str) -> None:
    """Remove the link and the namespace; what is not there is no error."""
    remove_link(namespace)
    if namespace in namespaces():
        _ip(["netns", "delete", namespace])


def remove_link(name: str) -> None:
    """Remove a link; one that is not there is no error."""
    if name in links():
        _ip(["link", "delete", name])


def links(namespace: str | None = None) -> Mapping[str, Mapping[str, Any]]:
    """Links by name, as `ip -json` shows them; empty for a namespace that is gone."""
    inside = ["-netns", namespace] if namespace else []
    command = ["ip", *inside, "-json", "link", "show"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        return {}
    return {link["ifname"]: link for link in json.loads(result.stdout or "[]") if "ifname" in link}


def namespaces() -> set[str]:
    """Names of all named network namespaces of this machine."""
    return {path.name for path in NETNS_DIRECTORY.iterdir()} if NETNS_DIRECTORY.is_dir() else set()


def owned_namespaces(state_directory: Path) -> set[str]:
    """Named namespaces whose interface carries our mark."""
    alias = link_alias(state_directory)
    ours = (name for name in namespaces() if name.startswith(NAMESPACE_PREFIX))
    return {name for name in ours if links(name).get("eth0", {}).get("ifalias") == alias}


def owned_links(state_directory: Path) -> set[str]:
    """Links of this machine that carry our mark."""
    alias = link_alias(state_directory)
    return {name for name, link in links().items() if link.get("ifalias") == alias}


def batch(commands: Sequence[str], namespace: str | None = None) -> None:
    """Run several `ip` commands at once. Raises DataPlaneError with what `ip` said."""
    inside = ["-netns", namespace] if namespace else []
    _ip([*inside, "-batch", "-"], "\n".join(commands) + "\n")


def _ip(arguments: Sequence[str], text: str = "") -> None:
    result = subprocess.run(["ip", *arguments], input=text, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        asked = text.strip().replace("\n", "; ") or " ".join(arguments)
        raise DataPlaneError(f"the machine refused `ip {asked}`: {result.stderr.strip()}")


def _refuse_overlap(plan: NetworkPlan) -> None:
    command = ["ip", "-json", "-4", "route", "show"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for route in json.loads(output or "[]"):
        if route["dst"] == "default":
            continue
        if ipaddress.IPv4Network(route["dst"], strict=False).overlaps(plan.network):
            raise DataPlaneError(
                f"network {plan.cidr} of the local cloud is in use: {route['dst']} goes to"
                f" {route.get('dev')}; take that route or interface away"
            )
