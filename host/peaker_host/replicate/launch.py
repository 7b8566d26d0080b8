"""This module starts a read-only server with its own identity on restored volumes."""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any, Callable, Dict, FrozenSet, Optional

from peaker_host.blocks.live_blocks import kept_live_blocks
from peaker_host.database.mysql_client import LOGIN_REFUSED, MysqlClient, admin_client, is_from_server
from peaker_host.database.page_load import begin_buffer_pool_load
from peaker_host.database.replica_status import DIALECTS
from peaker_host.health.policy import store_policy
from peaker_host.health.responder import await_responder
from peaker_host.health.unit import UNIT, ensure_health_account, install_health_service, shorten_retention
from peaker_host.layouts.mounts import let_resync, mount_at_place, open_mounts, take_down, unmount
from peaker_host.machine.devices import (
    Mount,
    by_id_path,
    describe_device,
    first_line,
    kernel_name,
    listed,
    read_mounts,
    refuse_if_not_volume,
)
from peaker_host.machine.errors import (
    CommandFailed,
    DatabaseStartFailed,
    DatabaseUnreachable,
    HostError,
    IdentityNotTaken,
    TornSnapshot,
)
from peaker_host.machine.files import read_json, write_atomically, write_json
from peaker_host.machine.manifest import Manifest, Member, is_proven, load_manifest, present_manifest
from peaker_host.machine.settings import Machine, Settings
from peaker_host.replicate.identity import (
    kept_server_id,
    read_identity,
    refuse_wrong_identity,
    stop_server,
    take_identity,
    uuid_of_copy,
)
from peaker_host.replicate.source_login import source_binlog_expire_seconds

_LAST_WORDS = "last_words.json"
_TORN_CODE = "MY-011971"
_TORN_TEXT = "is in the future"
_LOG_TAIL_BYTES = 64 * 1024
# How long the responder may take to listen, on a host whose volumes are being read. Without one the target group would
# wait for hours.
_RESPONDER_SECONDS = 60.0
# Between two looks at its unit while a server does not answer.
_LOOK_SECONDS = 1.0
# The server gets so long to answer, whatever the mounts have taken of the time.
_LEAST_SECONDS = 5.0


def start_database(
    machine: Machine,
    run_id: str,
    server_id: int,
    health: Dict[str, Any],
    timeout_seconds: float,
    say: Callable[[str], None],
) -> Dict[str, Any]:
    """Mount the volumes, give the copy its own identity, start the service, look for a torn snapshot.

    Raises DatabaseStartFailed when the server does not answer within `timeout_seconds`, at once when its unit has
    ended; IdentityNotTaken, TornSnapshot, DeviceInUse, ResponderUnreachable.
    """
    started = time.monotonic()
    server_id = kept_server_id(machine, server_id)
    marker_path = machine.run_path(run_id, "database.json")
    client = admin_client(machine)
    marker = read_json(marker_path) or {}
    # A parked replica returns in another run than the one that assembled its storage.
    manifest = present_manifest(machine)
    if not marker.get("taken") or not all(os.path.ismount(point) for point in manifest.mount_points):
        stop_server(machine, client)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(machine.run_path(manifest.run_id, _LAST_WORDS))
    for mount in open_mounts(machine, manifest):
        say(mount_at_place(machine.processes, mount))
    _start_only_on_volumes(machine, manifest)
    if not marker.get("taken"):
        marker = _take_identity_once(machine, marker_path, marker, server_id, say)
    log_offset = _size(machine.error_log)
    with contextlib.suppress(CommandFailed):
        # What comes next says why it did not come up.
        machine.systemctl("start", machine.mysql_service, timeout_seconds)
    _await_answer(
        machine, client, max(started + timeout_seconds, time.monotonic() + _LEAST_SECONDS), log_offset
    )
    facts = read_identity(client, machine)
    try:
        refuse_wrong_identity(client, machine, facts, server_id, marker.get("donor_uuid"))
    except IdentityNotTaken:
        machine.systemctl("stop", machine.mysql_service, timeout_seconds=120)
        raise
    _refuse_torn(machine, client, log_offset)
    say("the database answers")
    # The hot pages come while replication starts and the replica catches up: their blocks are read by now.
    begin_buffer_pool_load(client)
    ensure_health_account(machine, client)
    store_policy(machine, health)
    install_health_service(machine)
    # A command a minute leaves a folder each on the root volume; the agent of a replica that returns starts anew.
    with contextlib.suppress(HostError, OSError):
        shorten_retention(machine)
    await_responder(machine, _RESPONDER_SECONDS)
    seconds = marker.get("started_seconds", round(time.monotonic() - started, 3))
    write_json(marker_path, dict(marker, started_seconds=seconds))
    if is_proven(machine, manifest.run_id) or not kept_live_blocks(machine, manifest.run_id):
        # Before the proof it would be measured; the proof lets it then.
        let_resync(machine, manifest)
    return dict(facts, started_seconds=seconds, mounted=manifest.mount_points)


def _await_answer(machine: Machine, client: MysqlClient, deadline: float, log_offset: int) -> None:
    """Waits until the server answers; `deadline` in monotonic seconds. A unit that has ended is not waited
    for, one that is still starting, or that systemd starts once more, is `activating`.
    """
    unit = machine.mysql_service
    while problem := client.why_down(_LOOK_SECONDS):
        state = machine.processes.run(["systemctl", "is-active", unit], check=False).stdout.strip()
        is_final = state in ("failed", "inactive") or is_from_server(problem, *LOGIN_REFUSED)
        if is_final or time.monotonic() >= deadline:
            shown = f"{unit} does not answer, its unit is {state or 'in an unknown state'}: {problem[-300:]}"
            raise DatabaseStartFailed(f"{shown}: {_server_said(machine, log_offset).strip()[-1500:]}")


def stop_database(machine: Machine, timeout_seconds: float, say: Callable[[str], None]) -> Dict[str, Any]:
    """Shut the server down cleanly and unmount its volumes, for a host that will be stopped; twice is once.

    Says where replication stands and for how long its source keeps binary logs, as the first call heard it; both are
    None when the server was down before that, the second also when the source did not answer.
    """
    started = time.monotonic()
    manifest = present_manifest(machine)
    facts = _last_words(machine, machine.run_path(manifest.run_id, _LAST_WORDS))
    machine.systemctl("stop", UNIT)
    machine.processes.run(["systemctl", "stop", machine.mysql_service], timeout_seconds=timeout_seconds)
    say("the server is down")
    for point in reversed(manifest.mount_points):
        if os.path.ismount(point):
            unmount(machine.processes, point)
            say(f"{manifest.members_at(point)[0].name}: unmounted")
    take_down(machine, manifest)
    return dict(facts, stopped_seconds=round(time.monotonic() - started, 3))


def _last_words(machine: Machine, path: str) -> Dict[str, Any]:
    """Returns what the server says before it is stopped; of one that is down, what it said then (in `path`)."""
    client = admin_client(machine)
    try:
        gtid_set = str(client.json({"gtid_set": DIALECTS[machine.engine].executed_set})["gtid_set"])
    except DatabaseUnreachable:
        return read_json(path) or {"gtid_set": None, "binlog_expire_seconds": None}
    said = {
        "gtid_set": gtid_set.replace("\n", ""),
        "binlog_expire_seconds": source_binlog_expire_seconds(machine, client),
    }
    write_json(path, said)
    return said


def _take_identity_once(
    settings: Settings, marker_path: str, marker: Dict[str, Any], server_id: int, say: Callable[[str], None]
) -> Dict[str, Any]:
    """Notes the donor's uuid, then removes it: the call may be killed in between."""
    donor_uuid = marker.get("donor_uuid") or uuid_of_copy(settings)
    write_json(marker_path, {"server_id": server_id, "donor_uuid": donor_uuid})
    unpersisted = take_identity(settings, server_id)
    if unpersisted:
        say(f"not kept of the donor's persisted settings: {', '.join(unpersisted)}")
    taken = {"server_id": server_id, "donor_uuid": donor_uuid, "unpersisted": unpersisted, "taken": True}
    write_json(marker_path, taken)
    return taken


def _start_only_on_volumes(machine: Machine, manifest: Manifest) -> None:
    """Lets systemd start the server only where its volumes are mounted.

    systemd would end a recovery that outlasts the unit's TimeoutStartSec, again and again, and kill a shutdown that
    outlasts its TimeoutStopSec; start_database and stop_database bound them.
    """
    unit = machine.mysql_service.rsplit(".service", 1)[0]
    path = os.path.join(machine.unit_dir, f"{unit}.service.d", "peaker-volumes.conf")
    lines = [f"ConditionPathIsMountPoint={point}" for point in manifest.mount_points]
    limits = [f"Timeout{verb}Sec=infinity" for verb in ("Start", "Stop")]
    write_atomically(path, "\n".join(["# Written by Peaker.", "[Unit]", *lines, "[Service]", *limits, ""]))
    # Also where the file said so: a command that was killed behind it has not told systemd.
    machine.processes.run(["systemctl", "daemon-reload"])


def _refuse_torn(machine: Machine, client: MysqlClient, offset: int) -> None:
    """Refuses volumes of different instants, which InnoDB names in its error log alone."""
    torn = TornSnapshot(f"the error log holds {_TORN_CODE}: the volumes are not of one instant")
    if _TORN_TEXT in _server_said(machine, offset):
        raise torn
    if machine.engine != "mysql":
        return
    seen = client.json(
        {
            "torn": "(SELECT COUNT(*) FROM performance_schema.error_log"
            f" WHERE ERROR_CODE = '{_TORN_CODE}' AND LOGGED >= NOW() - INTERVAL 60 + (SELECT VARIABLE_VALUE"
            " FROM performance_schema.global_status WHERE VARIABLE_NAME = 'Uptime') SECOND)"
        }
    )
    if int(seen["torn"]):
        raise torn


def _server_said(machine: Machine, offset: int) -> str:
    """The error log from `offset` on; where there is none, as of Debian's MariaDB, the journal since the start."""
    argv = ["systemctl", "status", "--no-pager", "--full", "--lines=1000", machine.mysql_service]
    return _tail(machine.error_log, offset) or machine.processes.run(argv, check=False).stdout


def _size(path: str) -> int:
    return os.path.getsize(path) if path and os.path.exists(path) else 0


def _tail(path: str, offset: int) -> str:
    if not path or not os.path.exists(path):
        return ""
    with open(path, "rb") as file:
        file.seek(max(offset, os.path.getsize(path) - _LOG_TAIL_BYTES))
        return file.read().decode("utf-8", "replace")


def check_mounts(settings: Settings, run_id: str) -> Dict[str, Any]:
    """One entry per volume of the run's manifest; `problem` is empty where all is as it was proven."""
    mounts = {mount.point: mount for mount in read_mounts()}
    return {
        "mounts": [
            {
                "name": member.name,
                "volume_id": member.volume_id,
                "mount_point": member.mount_point,
                "problem": _problem(settings, member, mounts.get(member.mount_point)),
            }
            for member in load_manifest(settings, run_id).members
        ]
    }


def _problem(settings: Settings, member: Member, mount: Optional[Mount]) -> str:
    if mount is None:
        return f"nothing is mounted at {member.mount_point}"
    if mount.read_only:
        return f"{member.mount_point} takes no writes"
    try:
        device = describe_device(by_id_path(settings.by_id_dir, member.volume_id))
        refuse_if_not_volume(device, member.volume_id, settings.by_id_dir)
        under = _lowest(mount.device)
        os.listdir(member.mount_point)
    except (HostError, OSError) as error:
        return str(error)
    if device.number not in under:
        return f"{member.mount_point} is on {', '.join(map(_name, sorted(under)))}, not on {member.volume_id}"
    return ""


def _lowest(device: str) -> FrozenSet[str]:
    """The devices that this one stands on in the end; itself where it is no array and no logical volume."""
    below = f"/sys/dev/block/{device}/slaves"
    numbers = [first_line(os.path.join(below, name, "dev")) for name in listed(below)]
    return frozenset().union(*map(_lowest, numbers)) if numbers else frozenset({device})


def _name(device: str) -> str:
    try:
        major, minor = device.split(":")
        return kernel_name(int(major), int(minor))
    except (HostError, ValueError):
        return device
