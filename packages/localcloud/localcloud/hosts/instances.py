"""Hosts of the local cloud: an image under an overlay, in namespaces of its own.

The overlay is mounted in the host's own mount namespace, so nothing of a host outlives its process 1 but the
network namespace and the files under <state>/instances/<instance id>.
"""

from __future__ import annotations

import ipaddress
import os
import select
import shutil
import signal
import stat
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from localcloud.dataplane import BlockDevice, DataPlaneError, HostSpec, RunningCommand
from localcloud.hosts.commands import HostCommand
from localcloud.hosts.images import image_root
from localcloud.hosts.network import (
    NetworkPlan,
    connect,
    disconnect,
    ensure_bridge,
    namespace_name,
    namespaces,
    remove_link,
)
from localcloud.hosts.state_lock import StateLock, process_mark

BOOT_LIMIT_SECONDS = 15.0
# Unmounting flushes what is dirty, through the limits of the volumes.
KILL_LIMIT_SECONDS = 60.0
# A database's own limit for its end is two minutes.
ORDERLY_STOP_LIMIT_SECONDS = 150.0
_BOOT_SCRIPT = Path(__file__).with_name("host_boot.sh")
HOST_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "USER": "root",
    "LOGNAME": "root",
    "SHELL": "/bin/bash",
    "LANG": "C.UTF-8",
}


@dataclass
class _Plug:
    """A volume shown in a host."""

    device_name: str
    volume_id: str
    device: BlockDevice
    node: str


@dataclass
class _Host:
    spec: HostSpec
    directory: Path
    namespace: str
    plugs: dict[str, _Plug] = field(default_factory=dict)
    commands: list[HostCommand] = field(default_factory=list)
    starter: subprocess.Popen[str] | None = None
    init_pid: int = 0
    terminated: bool = False
    # Slow work on one host must not keep the others waiting.
    lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def up(self) -> bool:
        return self.starter is not None and self.starter.poll() is None


class NamespaceHosts:
    """Instances as namespaces on this machine (localcloud.dataplane.Hosts). Needs root."""

    def __init__(
        self, state_directory: Path, images_directory: Path | None = None, network: NetworkPlan | None = None
    ) -> None:
        self._state = state_directory.resolve()
        self._images = (images_directory or state_directory / "images").resolve()
        self._plan = network or NetworkPlan()
        self._lock = threading.RLock()
        self._hosts: dict[str, _Host] = {}
        self._state_lock = StateLock(self._state)
        self._has_bridge = False

    @property
    def gateway(self) -> str:
        """This machine's address as the hosts see it."""
        return self._plan.gateway

    def prepare_network(self) -> None:
        """Make the bridge now, e.g. to listen on its address before the first host starts."""
        with self._lock:
            self._state_lock.acquire()
            if os.geteuid() != 0:
                raise DataPlaneError("hosts are namespaces: the local cloud has to run as root")
            ensure_bridge(self._plan, self._state)
            self._has_bridge = True

    def launch(self, spec: HostSpec) -> None:
        """Start a host (under a second). DataPlaneError: no such image, or a bad or taken address."""
        with self._lock:
            host = self._hosts.get(spec.instance_id)
            is_new = host is None
            if host is None:
                host = self._new_host(spec)
                # Held before others can see the host half made.
                host.lock.acquire()
                self._hosts[spec.instance_id] = host
        if not is_new:
            self.start(spec.instance_id)
            return
        try:
            _make_writable_layer(host)
            connect(self._plan, self._state, host.namespace, spec.private_ip)
            self._boot(host)
        except DataPlaneError:
            self._discard(host)
            raise
        finally:
            host.lock.release()

    def stop(self, instance_id: str, force: bool = False) -> None:
        host = self._known(instance_id)
        with host.lock:
            if host.up and not force:
                self.start_command(instance_id, ["systemctl", "poweroff"]).wait(ORDERLY_STOP_LIMIT_SECONDS)
            _kill(host)

    def start(self, instance_id: str) -> None:
        host = self._known(instance_id)
        with host.lock:
            if host.terminated:
                raise DataPlaneError(f"{instance_id} was terminated")
            if not host.up:
                self._boot(host)
                self.start_command(instance_id, ["systemctl", "default"])

    def terminate(self, instance_id: str) -> None:
        host = self._hosts.get(instance_id)
        if host is not None:
            with host.lock:
                self._discard(host)

    def is_up(self, instance_id: str) -> bool:
        host = self._hosts.get(instance_id)
        return host is not None and host.up

    def plug(self, instance_id: str, device_name: str, volume_id: str, device: BlockDevice) -> None:
        """Show a volume in the host. Again: does nothing. A taken name raises DataPlaneError."""
        name = f"/dev/{device_name.removeprefix('/dev/')}"
        host = self._known(instance_id)
        with host.lock:
            if volume_id in host.plugs:
                return
            if any(plug.device_name == name for plug in host.plugs.values()):
                raise DataPlaneError(f"{instance_id} already has a volume at {name}")
            taken = {plug.node for plug in host.plugs.values()}
            # nvme0 is the root volume on Nitro.
            node = next(f"nvme{n}n1" for n in range(1, 1000) if f"nvme{n}n1" not in taken)
            plug = _Plug(name, volume_id, device, node)
            if host.up:
                _show(host, plug)
            host.plugs[volume_id] = plug

    def unplug(self, instance_id: str, volume_id: str) -> None:
        """Take the nodes away; what is mounted stays mounted. An unknown volume is not an error."""
        host = self._known(instance_id)
        with host.lock:
            plug = host.plugs.pop(volume_id, None)
            if plug is not None and host.up:
                for path in _paths(host, plug):
                    path.unlink(missing_ok=True)

    def start_command(
        self, instance_id: str, argv: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> RunningCommand:
        """Run argv as root in the host, with a login-like environment and what is given added to it."""
        host = self._known(instance_id)
        with host.lock:
            if not host.up:
                raise DataPlaneError(f"{instance_id} is not up: no command can run there")
            merged = {**HOST_ENVIRONMENT, **process_mark(self._state), **(environment or {})}
            command = HostCommand(host.init_pid, argv, merged)
            host.commands = [*(known for known in host.commands if not known.has_ended()), command]
            return command

    def root(self, instance_id: str) -> Path:
        """The files of a running host as this machine sees them, what is mounted there included."""
        return _root(self._known(instance_id))

    def close(self) -> None:
        failures: list[DataPlaneError] = []
        for instance_id in list(self._hosts):
            try:
                self.terminate(instance_id)
            except DataPlaneError as error:
                failures.append(error)
        with self._lock:
            if self._has_bridge:
                remove_link(self._plan.bridge)
                self._has_bridge = False
            self._state_lock.release()
        if failures:
            raise failures[0]

    def _known(self, instance_id: str) -> _Host:
        host = self._hosts.get(instance_id)
        if host is None:
            raise DataPlaneError(f"there is no host {instance_id}")
        return host

    def _new_host(self, spec: HostSpec) -> _Host:
        self._check(spec)
        image_root(self._images, spec.image_id)
        self.prepare_network()
        host = _Host(spec, self._state / "instances" / spec.instance_id, namespace_name(spec.instance_id))
        if host.namespace in namespaces():
            raise DataPlaneError(
                f"network namespace {host.namespace} already exists: `python -m localcloud clean` if it is"
                f" this checkout's, or else `ip netns delete {host.namespace}`"
            )
        if host.directory.exists():
            raise DataPlaneError(
                f"{host.directory} is left from an earlier run: clean up with `python -m localcloud clean`"
            )
        return host

    def _check(self, spec: HostSpec) -> None:
        try:
            address = ipaddress.IPv4Address(spec.private_ip)
        except ValueError as error:
            raise DataPlaneError(f"{spec.instance_id}: {spec.private_ip!r} is not an IPv4 address") from error
        network = self._plan.network
        if address not in network or spec.private_ip in (self._plan.gateway, str(network.broadcast_address)):
            raise DataPlaneError(f"{spec.instance_id}: address {address} is not one for hosts in {network}")
        for other in self._hosts.values():
            if other.spec.private_ip == spec.private_ip:
                raise DataPlaneError(f"{spec.instance_id}: {other.spec.instance_id} has address {address}")
            if other.namespace == namespace_name(spec.instance_id):
                raise DataPlaneError(
                    f"{spec.instance_id} and {other.spec.instance_id} end alike: both are {other.namespace}"
                )

    def _boot(self, host: _Host) -> None:
        image = image_root(self._images, host.spec.image_id)
        with (host.directory / "boot.log").open("wb") as boot_log:
            host.starter = subprocess.Popen(
                [
                    *("/usr/bin/nsenter", f"--net=/run/netns/{host.namespace}"),
                    *("/usr/bin/unshare", "--mount", "--uts", "--ipc", "--pid", "--fork"),
                    *("/bin/sh", str(_BOOT_SCRIPT)),
                    *(str(image), str(host.directory), host.spec.hostname),
                ],
                env={**HOST_ENVIRONMENT, **process_mark(self._state)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=boot_log,
                start_new_session=True,
                text=True,
            )
        host.init_pid = _await_ready(host.starter)
        if not host.init_pid:
            said = (host.directory / "boot.log").read_text().strip()
            _kill(host)
            raise DataPlaneError(f"host {host.spec.instance_id} did not boot: {said or 'no answer'}")
        for plug in host.plugs.values():
            _show(host, plug)

    def _discard(self, host: _Host) -> None:
        _kill(host)
        host.terminated = True
        if host.namespace in namespaces():
            disconnect(host.namespace)
        if host.directory.exists():
            shutil.rmtree(host.directory)
        with self._lock:
            self._hosts.pop(host.spec.instance_id, None)


def _make_writable_layer(host: _Host) -> None:
    etc = host.directory / "upper" / "etc"
    etc.mkdir(parents=True)
    (host.directory / "work").mkdir()
    (host.directory / "root").mkdir()
    spec = host.spec
    (etc / "hostname").write_text(f"{spec.hostname}\n")
    named = {"localhost": "127.0.0.1", spec.hostname: spec.private_ip}
    (etc / "hosts").write_text("".join(f"{address} {name}\n" for name, address in named.items()))
    # No name server is reachable; without this file a lookup would ask the machine's and wait.
    (etc / "resolv.conf").write_text("# none\n")
    # As cloud-init leaves it: tools on the host can tell who they are.
    (etc / "peaker").mkdir()
    (etc / "peaker" / "instance-id").write_text(f"{spec.instance_id}\n")


def _await_ready(starter: subprocess.Popen[str]) -> int:
    """The init's process number on this machine, or 0."""
    assert starter.stdout is not None
    deadline = time.monotonic() + BOOT_LIMIT_SECONDS
    with starter.stdout as output:
        if select.select([output], [], [], max(0.0, deadline - time.monotonic()))[0]:
            words = output.readline().split()
            if len(words) == 2 and words[0] == "ready":
                return int(words[1])
    return 0


def _kill(host: _Host) -> None:
    """Kill process 1, and with it all others of the host; wait until the kernel has let its mounts go."""
    starter = host.starter
    if starter is None:
        return
    if starter.poll() is None:
        if host.init_pid:
            os.kill(host.init_pid, signal.SIGKILL)
        else:
            os.killpg(starter.pid, signal.SIGKILL)
    try:
        starter.wait(KILL_LIMIT_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise DataPlaneError(
            f"host {host.spec.instance_id} does not die (process {host.init_pid}): is a volume stuck?"
        ) from error
    # nsenter is outside the host's processes but inside its mounts until it has ended.
    for command in host.commands:
        command.await_end(KILL_LIMIT_SECONDS)
    host.starter, host.init_pid, host.commands = None, 0, []


def _root(host: _Host) -> Path:
    return Path(f"/proc/{host.init_pid}/root")


def _paths(host: _Host, plug: _Plug) -> tuple[Path, Path, Path]:
    """Node, link at the device name, link by id, as seen from this machine."""
    devices = _root(host) / "dev"
    serial = plug.volume_id.replace("-", "")
    return (
        devices / plug.node,
        devices / plug.device_name.removeprefix("/dev/"),
        devices / "disk" / "by-id" / f"nvme-Amazon_Elastic_Block_Store_{serial}",
    )


def _show(host: _Host, plug: _Plug) -> None:
    node, by_name, by_id = _paths(host, plug)
    os.mknod(node, stat.S_IFBLK | 0o660, os.makedev(plug.device.major, plug.device.minor))
    by_name.symlink_to(plug.node)
    by_id.symlink_to(f"../../{plug.node}")
