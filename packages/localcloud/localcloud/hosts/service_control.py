#!/usr/bin/python3
"""systemctl for hosts without systemd: starts and stops services from their unit files.

Installed in machine images as /usr/bin/systemctl, so that what is written for systemd runs unchanged.
Understands Type=simple, exec and notify; ExecStart, User, RuntimeDirectory, LimitNOFILE and the start and stop time
limits; ConditionPathIsMountPoint; CapabilityBoundingSet as a list of names; the limit of starts. Not there:
dependencies, other commands of a unit, restart after a crash. Output goes to /var/log/<unit>.log.
`default` starts what is enabled, as booting does; `poweroff` ends the host in order, all but process 1.
Exit statuses are systemctl's: 0 done or active, 3 not active, 4 no such unit, 5 cannot be started.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import pwd
import re
import resource
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

_SERVICE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_UNKNOWN_UNIT = 4
_NOT_ACTIVE = 3
_LAST_PROCESSES_SECONDS = 5.0
_TIME_UNITS = {
    "": 1.0,
    "s": 1.0,
    "sec": 1.0,
    "ms": 0.001,
    "us": 0.000001,
    "min": 60.0,
    "m": 60.0,
    "h": 3600.0,
}
_START_LIMIT_SECONDS, _START_LIMIT_BURST = 10.0, 5
# In the order of their numbers (capabilities(7)); kernels have as many of them as /proc/sys/kernel/cap_last_cap says.
_CAPABILITIES = (
    "CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE "
    "NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN "
    "SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE "
    "MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE"
)
_PR_CAPBSET_DROP = 24


class ServiceError(Exception):
    """A unit that cannot be read or did what it should not; the message is for the console."""

    def __init__(self, message: str, exit_status: int = 1) -> None:
        super().__init__(message)
        self.exit_status = exit_status


@dataclass(frozen=True)
class Layout:
    """Where units, states and logs are."""

    unit_directories: tuple[Path, ...] = (
        Path("/etc/systemd/system"),
        Path("/run/systemd/system"),
        Path("/usr/local/lib/systemd/system"),
        Path("/usr/lib/systemd/system"),
    )
    state_directory: Path = Path("/run/services")
    log_directory: Path = Path("/var/log")
    runtime_directory: Path = Path("/run")


@dataclass(frozen=True)
class Unit:
    """A service's unit file: every setting with its values in order."""

    name: str
    path: Path
    settings: dict[str, list[str]] = field(default_factory=dict)

    def last(self, key: str, default: str = "") -> str:
        return self.settings.get(key, [default])[-1]

    def all(self, key: str) -> list[str]:
        return self.settings.get(key, [])

    def seconds(self, key: str, default: float) -> float:
        return parse_seconds(self.last(key) or self.last("TimeoutSec"), default)


@dataclass(frozen=True)
class State:
    """What was started: the main process and when, as the kernel counts (guards against pid reuse)."""

    pid: int
    start_ticks: int


def parse_seconds(text: str, default: float) -> float:
    """`90`, `5min 20s`, `infinity` as seconds."""
    if not text:
        return default
    if text == "infinity":
        return float("inf")
    return sum(float(number) * _TIME_UNITS[unit] for number, unit in re.findall(r"([\d.]+)\s*([a-z]*)", text))


def parse_unit(name: str, path: Path) -> Unit:
    """Read a unit file. An empty assignment clears what came before, as in systemd."""
    settings: dict[str, list[str]] = {}
    joined = re.sub(r"\\\n\s*", " ", path.read_text())
    for line in joined.splitlines():
        line = line.strip()
        if not line or line[0] in "#;[" or "=" not in line:
            continue
        key, value = (part.strip() for part in line.split("=", 1))
        if value:
            settings.setdefault(key, []).append(value)
        else:
            settings.pop(key, None)
    return Unit(name, path, settings)


def find_unit(layout: Layout, name: str) -> Unit:
    """The unit of that name (with or without .service), with its drop-ins."""
    full = name if name.endswith(".service") else f"{name}.service"
    for directory in layout.unit_directories:
        path = directory / full
        if path.exists():
            unit = parse_unit(path.resolve().name, path)
            places = [parent / f"{one}.d" for parent in layout.unit_directories for one in {full, unit.name}]
            for drop_in in [file for place in places for file in sorted(place.glob("*.conf"))]:
                unit.settings.update(parse_unit(full, drop_in).settings)
            return unit
    raise ServiceError(f"Unit {full} could not be found.", _UNKNOWN_UNIT)


class Services:
    """The services of one host."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def start(self, name: str) -> None:
        unit = find_unit(self._layout, name)
        if self.active_state(unit) == "active":
            return
        if not all(os.path.ismount(path) for path in unit.all("ConditionPathIsMountPoint")):
            return  # as in systemd: a start whose condition does not hold is skipped, and no error
        self._count_start(unit)
        self._make_runtime_directories(unit)
        kind = unit.last("Type", "simple")
        if kind not in ("simple", "exec", "notify"):
            raise ServiceError(f"{unit.name}: Type={kind} is not supported on this host", 5)
        self._launch(unit, waits_for_ready=kind == "notify")

    def stop(self, name: str) -> None:
        unit = find_unit(self._layout, name)
        state = self._load(unit)
        if state and _is_alive(state):
            self._terminate(unit, state)
        self._state_path(unit).unlink(missing_ok=True)

    def restart(self, name: str) -> None:
        self.stop(name)
        self.start(name)

    def active_state(self, unit: Unit) -> str:
        """active, failed (it ended by itself) or inactive."""
        state = self._load(unit)
        if state is None:
            return "inactive"
        return "active" if _is_alive(state) else "failed"

    def boot(self) -> list[str]:
        """Start every enabled service; returns why those that did not start failed."""
        failures = []
        for link in sorted(self._layout.unit_directories[0].glob("*.wants/*.service")):
            try:
                self.start(link.name)
            except ServiceError as error:
                failures.append(str(error))
        return failures

    def stop_all(self) -> list[str]:
        """Stop every service, the last one started first; returns what went wrong."""
        failures = []
        states = [(self._load_path(path), path.stem) for path in self._layout.state_directory.glob("*.json")]
        running = [(state.start_ticks, name) for state, name in states if state is not None]
        for _ticks, name in sorted(running, reverse=True):
            try:
                self.stop(name)
            except ServiceError as error:
                failures.append(str(error))
        return failures

    def is_active(self, name: str) -> str:
        try:
            return self.active_state(find_unit(self._layout, name))
        except ServiceError:
            return "inactive"

    def reset_failed(self, name: str) -> None:
        unit = find_unit(self._layout, name)
        self._starts_path(unit).unlink(missing_ok=True)
        if self.active_state(unit) == "failed":
            self._state_path(unit).unlink(missing_ok=True)

    def properties(self, name: str) -> dict[str, str]:
        """The few properties of `systemctl show` that scripts ask for."""
        try:
            unit = find_unit(self._layout, name)
        except ServiceError:
            return {
                "Id": name if name.endswith(".service") else f"{name}.service",
                "LoadState": "not-found",
                "ActiveState": "inactive",
                "SubState": "dead",
                "MainPID": "0",
            }
        state, active = self._load(unit), self.active_state(unit)
        running = state is not None and active == "active"
        return {
            "Id": unit.name,
            "LoadState": "masked" if unit.path.resolve() == Path(os.devnull) else "loaded",
            "ActiveState": active,
            "SubState": {"active": "running", "failed": "failed"}.get(active, "dead"),
            "MainPID": str(state.pid) if running and state else "0",
            "FragmentPath": str(unit.path),
            "ExecStart": _as_shown(unit.last("ExecStart")),
        }

    def log_path(self, unit_name: str) -> Path:
        return self._layout.log_directory / f"{unit_name}.log"

    def set_enabled(self, name: str, enabled: bool) -> None:
        unit = find_unit(self._layout, name)
        for target in unit.all("WantedBy"):
            link = self._layout.unit_directories[0] / f"{target}.wants" / unit.name
            link.unlink(missing_ok=True)
            if enabled:
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(unit.path)

    def is_enabled(self, name: str) -> bool:
        unit = find_unit(self._layout, name)
        return any(self._layout.unit_directories[0].glob(f"*.wants/{unit.name}"))

    def _count_start(self, unit: Unit) -> None:
        """Refuse one too many of the last seconds, whoever asked for them; the refused one counts no more."""
        named = unit.last("StartLimitIntervalSec") or unit.last("StartLimitInterval")
        since = time.monotonic() - parse_seconds(named, _START_LIMIT_SECONDS)
        path = self._starts_path(unit)
        earlier = json.loads(path.read_text()) if path.exists() else []
        recent = [started for started in earlier if started > since]
        if len(recent) >= int(unit.last("StartLimitBurst", str(_START_LIMIT_BURST))):
            self._save(unit, State(0, 0))
            raise ServiceError(f"{unit.name}: Start request repeated too quickly (start-limit-hit).")
        self._layout.state_directory.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps([*recent, time.monotonic()]))

    def _starts_path(self, unit: Unit) -> Path:
        return self._layout.state_directory / f"{unit.name}.starts"

    def _launch(self, unit: Unit, waits_for_ready: bool) -> None:
        commands = unit.all("ExecStart")
        if len(commands) != 1:
            raise ServiceError(f"{unit.name}: exactly one ExecStart is needed, {len(commands)} given", 5)
        environment = _environment(unit)
        listener = None
        if waits_for_ready:
            listener = self._notify_socket(unit)
            environment["NOTIFY_SOCKET"] = listener.getsockname()
        process = self._spawn(unit, commands[0], environment)
        self._save(unit, State(process.pid, _start_ticks(process.pid)))
        try:
            if listener is not None:
                self._wait_until_ready(unit, process, listener)
            elif _ended_within(process, 0.1):
                raise ServiceError(self._failure(unit, f"ended at once with status {process.returncode}"))
        finally:
            if listener is not None:
                Path(listener.getsockname()).unlink(missing_ok=True)
                listener.close()

    def _notify_socket(self, unit: Unit) -> socket.socket:
        self._layout.state_directory.mkdir(parents=True, exist_ok=True)
        path = self._layout.state_directory / f"{unit.name}.notify"
        path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        listener.bind(str(path))
        path.chmod(0o777)
        listener.settimeout(0.2)
        return listener

    def _wait_until_ready(
        self, unit: Unit, process: subprocess.Popen[bytes], listener: socket.socket
    ) -> None:
        deadline = time.monotonic() + unit.seconds("TimeoutStartSec", 90)
        while time.monotonic() < deadline:
            try:
                if b"READY=1" in listener.recv(4096).split(b"\n"):
                    return
            except TimeoutError:
                if process.poll() is not None:
                    ended = f"ended with status {process.returncode}"
                    raise ServiceError(self._failure(unit, ended)) from None
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise ServiceError(self._failure(unit, "was not ready within TimeoutStartSec"))

    def _failure(self, unit: Unit, what: str) -> str:
        return f"Job for {unit.name} failed: it {what}. See {self.log_path(unit.name)}."

    def _spawn(self, unit: Unit, command: str, environment: dict[str, str]) -> subprocess.Popen[bytes]:
        user = unit.last("User")
        limit = unit.last("LimitNOFILE")
        kept = _bounding_set(unit)

        def prepare() -> None:
            if limit.isdigit():
                resource.setrlimit(resource.RLIMIT_NOFILE, (int(limit), int(limit)))
            if kept is not None:
                _drop_capabilities(kept)

        with self.log_path(unit.name).open("ab") as log:
            try:
                return subprocess.Popen(
                    shlex.split(command),
                    env=environment,
                    user=user or None,
                    group=pwd.getpwnam(user).pw_gid if user else None,
                    extra_groups=[] if user else None,
                    cwd="/",
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=prepare,
                )
            except (OSError, KeyError) as error:
                raise ServiceError(f"Job for {unit.name} failed: {command}: {error}") from error

    def _terminate(self, unit: Unit, state: State) -> None:
        deadline = time.monotonic() + unit.seconds("TimeoutStopSec", 90)
        _signal_group(state.pid, signal.SIGTERM)
        while _is_alive(state) and time.monotonic() < deadline:
            time.sleep(0.05)
        _signal_group(state.pid, signal.SIGKILL)
        while _is_alive(state):
            time.sleep(0.01)

    def _make_runtime_directories(self, unit: Unit) -> None:
        user = unit.last("User")
        for name in unit.last("RuntimeDirectory").split():
            path = self._layout.runtime_directory / name
            path.mkdir(parents=True, exist_ok=True)
            if user:
                account = pwd.getpwnam(user)
                os.chown(path, account.pw_uid, account.pw_gid)

    def _state_path(self, unit: Unit) -> Path:
        return self._layout.state_directory / f"{unit.name}.json"

    def _save(self, unit: Unit, state: State) -> None:
        self._layout.state_directory.mkdir(parents=True, exist_ok=True)
        path = self._state_path(unit)
        temporary = path.with_suffix(".new")
        temporary.write_text(json.dumps(vars(state)))
        temporary.replace(path)

    def _load(self, unit: Unit) -> State | None:
        return self._load_path(self._state_path(unit))

    @staticmethod
    def _load_path(path: Path) -> State | None:
        try:
            return State(**json.loads(path.read_text()))
        except (FileNotFoundError, ValueError):
            return None


def _bounding_set(unit: Unit) -> set[int] | None:
    """The numbers of the capabilities that its processes may ever have; None for all."""
    names = " ".join(unit.all("CapabilityBoundingSet")).split()
    if not names:
        return None
    try:
        kept = {_CAPABILITIES.split().index(name.removeprefix("CAP_")) for name in names}
    except ValueError as error:
        raise ServiceError(f"{unit.name}: CapabilityBoundingSet: {error}", 5) from error
    if unit.last("User"):
        # Who is not root can give none away, and systemd does so before it changes the user.
        raise ServiceError(f"{unit.name}: CapabilityBoundingSet with User is not supported on this host", 5)
    return kept


def _drop_capabilities(kept: set[int]) -> None:
    """Take all others from this process and what it becomes, for good."""
    last = int(Path("/proc/sys/kernel/cap_last_cap").read_text())
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    for number in range(last + 1):
        if number not in kept and prctl(_PR_CAPBSET_DROP, number, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_CAPBSET_DROP)")


def _as_shown(command: str) -> str:
    """An Exec line as `systemctl show` prints it."""
    argv = shlex.split(command)
    return f"{{ path={argv[0]} ; argv[]={' '.join(argv)} ; ignore_errors=no ; pid=0 }}" if argv else ""


def _environment(unit: Unit) -> dict[str, str]:
    environment = {"PATH": _SERVICE_PATH, "LANG": "C.UTF-8"}
    user = unit.last("User")
    if user:
        account = pwd.getpwnam(user)
        environment.update(USER=user, LOGNAME=user, HOME=account.pw_dir, SHELL=account.pw_shell)
    return environment


def end_other_processes(limit_seconds: float) -> None:
    """SIGTERM to all that still runs here but process 1 and us, and SIGKILL to what is left at the limit."""
    deadline = time.monotonic() + limit_seconds
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.kill(-1, number)
        except ProcessLookupError:
            return
        while _other_processes() and time.monotonic() < deadline:
            time.sleep(0.02)


def _other_processes() -> list[int]:
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    return [pid for pid in pids if pid not in (1, os.getpid()) and _start_ticks(pid)]


def unmount_volumes() -> list[str]:
    """Unmount what is mounted from block devices, the last mounted first; returns what could not be."""
    lines = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    failures = []
    for _device, place in reversed([line[:2] for line in lines if line[0].startswith("/dev/")]):
        result = subprocess.run(["umount", place], capture_output=True, text=True)
        if result.returncode != 0:
            failures.append(result.stderr.strip())
    return failures


def power_off(services: Services) -> list[str]:
    """All of a host's end but the last: process 1 is killed from outside. Returns what went wrong."""
    failures = services.stop_all()
    end_other_processes(_LAST_PROCESSES_SECONDS)
    return failures + unmount_volumes()


def _start_ticks(pid: int) -> int:
    """Field 22 of /proc/<pid>/stat, or 0 when the process is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return 0 if fields[0] in "ZX" else int(fields[19])


def _is_alive(state: State) -> bool:
    return state.pid > 0 and state.start_ticks > 0 and _start_ticks(state.pid) == state.start_ticks


def _ended_within(process: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return process.returncode != 0


def _signal_group(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, number)


def main(arguments: list[str], layout: Layout | None = None) -> int:
    """The command line."""
    services = Services(layout or Layout())
    words = [one for one in arguments if not one.startswith("-")]
    options = dict(one.partition("=")[::2] for one in arguments if one.startswith("-"))
    if not words:
        print("usage: start|stop|restart|is-active|status|show|enable|disable|daemon-reload [unit ...]")
        return 1
    try:
        return _dispatch(services, words[0], words[1:], options)
    except ServiceError as error:
        print(error, file=sys.stderr)
        return error.exit_status


def _dispatch(services: Services, verb: str, units: list[str], options: dict[str, str]) -> int:
    if verb == "daemon-reload":
        return 0
    if verb in ("default", "poweroff"):
        failures = services.boot() if verb == "default" else power_off(services)
        print("\n".join(failures), file=sys.stderr)
        return 1 if failures else 0
    if verb == "is-active":
        states = [services.is_active(unit) for unit in units]
        print("\n".join(states))
        return 0 if "active" in states else _NOT_ACTIVE
    if verb == "is-enabled":
        enabled = [services.is_enabled(unit) for unit in units]
        print("\n".join("enabled" if value else "disabled" for value in enabled))
        return 0 if any(enabled) else 1
    if verb in ("status", "show"):
        return _print_properties(services, verb, units, options)
    actions: dict[str, Callable[[str], None]] = {
        "start": services.start,
        "stop": services.stop,
        "restart": services.restart,
        "reset-failed": services.reset_failed,
        "enable": lambda unit: services.set_enabled(unit, True),
        "disable": lambda unit: services.set_enabled(unit, False),
    }
    if verb not in actions:
        raise ServiceError(f"Unknown command verb {verb} on this host.")
    for unit in units:
        actions[verb](unit)
    return 0


def _print_properties(services: Services, verb: str, units: list[str], options: dict[str, str]) -> int:
    status = 0
    for unit in units:
        properties = services.properties(unit)
        if verb == "show":
            for name in options["--property"].split(",") if "--property" in options else properties:
                print(f"{name}={properties.get(name, '')}")
            continue
        if properties["LoadState"] == "not-found":
            raise ServiceError(f"Unit {unit} could not be found.", _UNKNOWN_UNIT)
        _print_status(services, properties, int(options.get("--lines", 10)))
        status = status if properties["ActiveState"] == "active" else _NOT_ACTIVE
    return status


def _print_status(services: Services, properties: dict[str, str], line_count: int) -> None:
    log = services.log_path(properties["Id"])
    print(f"{properties['Id']}: {properties['ActiveState']} ({properties['SubState']})")
    print(f"  Main PID: {properties['MainPID']}; log: {log}")
    if log.exists() and line_count:
        print("\n".join(log.read_text(errors="replace").splitlines()[-line_count:]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
