"""Loop devices that are volumes, a host of its own under tmp_path, and programs that answer from a script."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import pytest
from peaker_host import cli
from peaker_host.blocks.log_replay import replay_log
from peaker_host.blocks.ranges import Range
from peaker_host.database.mysql_client import MysqlClient, admin_client
from peaker_host.health.server import HealthServer
from peaker_host.machine.devices import Mount, describe_device, is_claimed
from peaker_host.machine.errors import CommandFailed
from peaker_host.machine.manifest import Member
from peaker_host.machine.settings import Completed, Machine, Processes, Settings
from peaker_host.warm.journal import Journal

from cloud_rig.real_machine import IMAGES
from localcloud.hosts.images import ensure_image

PACKAGE = Path(cli.__file__).parent
BLOCK = 512 * 1024
MIB = 1024 * 1024
RUN_ID = "scale-out-orders-20261121T0140-9f3a"
# Of two servers: a source, and the replica itself.
A, B = "c292c1fa-e550-11f1-9eb5-c2cd5b392683", "3d664b29-e551-11f1-b745-6ef0865e2f1c"


def quiet(_text: str) -> None:
    """Progress that nobody reads."""


@dataclass(frozen=True)
class Volume:
    """A loop device over a sparse file, known by a volume id."""

    volume_id: str
    path: str
    image: Path


def backs(image: Path, path: str) -> bool:
    """Whether the image is what the loop device has now."""
    try:
        return Path(f"/sys/block/{Path(path).name}/loop/backing_file").read_text().rstrip("\n") == str(image)
    except OSError:
        return False


def detach(path: str, image: Path) -> None:
    """Detach the loop device if the image is still what it has. A test that detached it may have left it to others."""
    if backs(image, path):
        subprocess.run(["losetup", "-d", path], check=False)


def write_out(point: Path) -> None:
    """Freeze the filesystem and thaw it at once, in a session of its own: what kills the test thaws it all the same.

    One that stays frozen outlives its last mount, keeps its device and holds up every sync of the machine.
    """
    both = 'fsfreeze --freeze "$1" && fsfreeze --unfreeze "$1"'
    subprocess.run(["sh", "-c", both, "sh", str(point)], check=True, start_new_session=True)


def unmount(point: Path) -> None:
    """Unmount; a process that is just ending may hold the place for a moment."""
    deadline = time.monotonic() + 60
    while subprocess.run(["umount", str(point)], check=False).returncode and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not os.path.ismount(point)


def await_unclaimed(path: str) -> None:
    """Until no mount holds the device; a mount namespace that another test makes may hold a copy for seconds."""
    device, deadline = describe_device(path), time.monotonic() + 60
    while is_claimed(device) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not is_claimed(device), f"{path} is still claimed a minute after it was unmounted"


class Host:
    """A host's state directory, by-id links and volumes."""

    def __init__(
        self, root: Path, volumes: contextlib.ExitStack, printed: pytest.CaptureFixture[str]
    ) -> None:
        self.root = root
        self._printed = printed
        self._volumes = volumes
        self.volumes: list[Volume] = []
        self._stopped: set[Path] = set()
        self.settings = Settings(
            state_dir=str(root / "state"),
            by_id_dir=str(root / "by-id"),
            config_dir=str(root / "conf.d"),
            unit_dir=str(root / "units"),
            health_defaults_file=str(root / "health.cnf"),
            health_policy_file=str(root / "health.json"),
            agent_config=str(root / "amazon-ssm-agent.json"),
            datadir=str(root / "data"),
            error_log=str(root / "error.log"),
            admin_defaults_file=str(root / "admin.cnf"),
            replication_credentials_file=str(root / "replication.json"),
        )
        (root / "by-id").mkdir()
        self.settings_path = root / "host.json"
        self.configure()

    def configure(self, **changes: Any) -> None:
        """Change settings and write them where a separate process finds them."""
        self.settings = replace(self.settings, **changes)
        self.settings_path.write_text(json.dumps(self.settings.__dict__))

    def machine(self, programs: Processes | None = None) -> Machine:
        """This host with its own programs, or with these."""
        return Machine.of(self.settings, programs or Processes())

    def client(self, programs: Processes) -> MysqlClient:
        """Its server's administrator."""
        return admin_client(self.machine(programs))

    def used_ranges(self, volume: Volume, kind: str) -> list[Range]:
        """The bytes that the volume's filesystem uses, by the kernel."""
        member = Member("data", volume.volume_id, "", "/nowhere", kind, volume.path)
        return replay_log(self.machine(), RUN_ID, member)

    def give_block_list(self, volume_id: str, blocks: str) -> None:
        """What the volume's snapshot holds, as start_prewarm has fetched it."""
        listed = {"block_bytes": BLOCK, "volumes": {volume_id: blocks}}
        Path(self.settings.run_path(RUN_ID, "blocks.json")).write_text(json.dumps(listed))

    def volume(self, size_bytes: int, mkfs: str | None = None, *mkfs_arguments: str) -> Volume:
        """A new volume, formatted when asked, with its by-id link."""
        volume_id = f"vol-0e57{len(self.volumes) + 1:013x}"
        image = self.root / f"{volume_id}.img"
        with image.open("wb") as file:
            file.truncate(size_bytes)
        if mkfs:
            subprocess.run(
                [f"mkfs.{mkfs}", "-q", *mkfs_arguments, str(image)], check=True, capture_output=True
            )
        path = subprocess.run(
            ["losetup", "--direct-io=on", "-f", "--show", str(image)],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        self._volumes.callback(detach, path, image)
        self.link(volume_id, path)
        self.volumes.append(Volume(volume_id, path, image))
        return self.volumes[-1]

    def link(self, volume_id: str, path: str) -> None:
        """Point the by-id link of a volume at a device."""
        link = self.root / "by-id" / f"nvme-Amazon_Elastic_Block_Store_{volume_id.replace('-', '')}"
        link.unlink(missing_ok=True)
        link.symlink_to(path)

    @contextlib.contextmanager
    def mounted(self, volume: Volume) -> Iterator[Path]:
        """The volume's filesystem, unmounted in the end.

        It is frozen once before: a mount namespace that another test makes at this moment holds a copy of the mount,
        and then unmounting writes nothing out.
        """
        point = self.root / f"mnt-{volume.volume_id}"
        point.mkdir(exist_ok=True)
        subprocess.run(["mount", volume.path, str(point)], check=True)
        try:
            yield point
        finally:
            try:
                if point not in self._stopped:
                    write_out(point)
            finally:
                unmount(point)
            await_unclaimed(volume.path)
            subprocess.run(["blockdev", "--flushbufs", volume.path], check=True)

    def stop_writing(self, point: Path) -> None:
        """As at a power cut: from now on the filesystem writes nothing, and its log stays as it is.

        A snapshot is of one instant; a copy takes seconds, in which the kernel would go on writing.
        """
        subprocess.run(["xfs_io", "-x", "-c", "shutdown", str(point)], check=True)
        self._stopped.add(point)

    def request(self, *volumes: Volume, filesystem: str = "xfs") -> str:
        """The Volumes parameter for these volumes."""
        return json.dumps(
            [
                {
                    "name": f"volume{index}",
                    "volume_id": volume.volume_id,
                    "device": "/dev/sdf",
                    "mount_point": str(self.root / f"place{index}"),
                    "filesystem": filesystem,
                }
                for index, volume in enumerate(volumes)
            ]
        )

    def argv(self, command: str, *arguments: str, run_id: str = RUN_ID) -> list[str]:
        """The command line of a command of this run on this host."""
        return ["--settings", str(self.settings_path), command, "--run-id", run_id, *arguments]

    def printed(self) -> list[str]:
        """The lines of standard output since the last look."""
        return self._printed.readouterr().out.splitlines()

    def call(
        self, command: str, *arguments: str, run_id: str = RUN_ID, programs: Processes | None = None
    ) -> dict[str, Any]:
        """Run a command in this process; its result line."""
        code = cli.main(self.argv(command, *arguments, run_id=run_id), programs)
        result: dict[str, Any] = json.loads(self.printed()[-1])
        assert (code == 0) is result["ok"]
        return result

    def prove(self, *arguments: str) -> dict[str, Any]:
        """The proof, asked for again while the noise of this machine leaves it open; so does the workflow."""
        proofs = (self.call("verify_storage", *arguments) for _ in range(8))
        proof = next(proofs)
        while proof["verdict"] == "unknown" and (another := next(proofs, None)):
            proof = another
        return proof


@contextlib.contextmanager
def image_root(image_id: str, folder: Path) -> Iterator[Path]:
    """An image of the local cloud's to write into, with the host package in /opt/tried; it ends with the block."""
    root, upper, work = (folder / name for name in ("root", "upper", "work"))
    for place in (root, upper, work):
        place.mkdir()
    layers = f"lowerdir={ensure_image(image_id, IMAGES)},upperdir={upper},workdir={work}"
    subprocess.run(["mount", "-t", "overlay", "-o", layers, "none", str(root)], check=True)
    try:
        shutil.copytree(PACKAGE, root / "opt" / "tried" / "peaker_host")
        yield root
    finally:
        unmount(root)
        for place in (upper, work):
            shutil.rmtree(place)


def filled(host: Host, kind: str = "xfs", size: int = 400 * MIB, data: int = 60 * MIB) -> Volume:
    """A volume with a filesystem and a table of so many bytes."""
    volume = host.volume(size, kind)
    with host.mounted(volume) as point:
        (point / "t.ibd").write_bytes(os.urandom(data))
    return volume


def assemble(host: Host, *volumes: Volume, filesystem: str = "xfs") -> dict[str, Any]:
    asked = host.request(*volumes, filesystem=filesystem)
    return host.call("assemble_storage", "--wait-seconds", "1", "--volumes", asked)


def assembled(host: Host, volume: Volume, filesystem: str = "xfs") -> Volume:
    """The volume, which assemble_storage has taken for the run's."""
    answer = assemble(host, volume, filesystem=filesystem)
    assert answer["ok"], answer
    return volume


def journal_ranges(host: Host, volume: Volume) -> list[tuple[int, int]]:
    path = f"{host.settings.state_dir}/journals/{volume.volume_id}.journal"
    header = json.loads(Path(path).read_bytes().split(b"\n", 1)[0])
    return Journal(path, header["volume_id"], header["uuid"], header["blocks"]).done.ranges()


def sectors_read(volume: Volume) -> int:
    name = describe_device(volume.path).kernel_name
    return int(Path(f"/sys/block/{name}/stat").read_text().split()[2])


@contextlib.contextmanager
def answering(server: HealthServer) -> Iterator[int]:
    """The server's loop in a thread of its own; its port."""
    stop = threading.Event()

    def loop() -> None:
        while not stop.is_set():
            server.turn(0.05)
        server.close()

    thread = threading.Thread(target=loop, daemon=True)
    thread.start()
    try:
        yield server.port
    finally:
        stop.set()
        thread.join(5)


Answer = str | Exception | Callable[[str], str]


class ScriptedProcesses(Processes):
    """Answers programs by the first rule whose words all occur in the command line or its input."""

    def __init__(self) -> None:
        self.rules: list[tuple[tuple[str, ...], Answer]] = []
        self.calls: list[tuple[list[str], str]] = []
        self.environments: list[dict[str, str] | None] = []

    def on(self, *words: str, answer: Answer = "") -> ScriptedProcesses:
        """Add a rule; later rules win."""
        self.rules.insert(0, (words, answer))
        return self

    def run(
        self,
        argv: Sequence[str],
        *,
        input_text: str | None = None,
        timeout_seconds: float = 60.0,
        check: bool = True,
        environment: dict[str, str] | None = None,
    ) -> Completed:
        self.calls.append((list(argv), input_text or ""))
        self.environments.append(environment)
        text = " ".join([*argv, input_text or ""])
        for words, answer in self.rules:
            if all(word in text for word in words):
                if isinstance(answer, Exception):
                    raise answer
                return Completed(0, answer(text) if callable(answer) else answer, "")
        raise AssertionError(f"no rule for {text}")

    def said(self, *words: str) -> list[str]:
        """The inputs and command lines in which all the words occur."""
        lines = [" ".join([*argv, given]) for argv, given in self.calls]
        return [line for line in lines if all(word in line for word in words)]


class Watched(Processes):
    """Of a host on which a monitoring agent looks at a place until a program was refused for it."""

    def __init__(self, looks: IO[str]) -> None:
        self._looks = looks
        self.refused: list[str] = []

    def run(self, argv: Sequence[str], **given: Any) -> Completed:
        try:
            return super().run(argv, **given)
        except CommandFailed as error:
            self.refused.append(str(error))
            self._looks.close()
            raise


@contextlib.contextmanager
def watched(place: Path) -> Iterator[Watched]:
    """The programs of such a host; the agent ends with them at the latest."""
    with (place / "looked-at").open("w") as looks:
        yield Watched(looks)


def mounts_of(kinds: dict[str, str]) -> list[Mount]:
    """Mounts of these filesystems, by place."""
    return [Mount(point, "8:1", kind, False) for point, kind in kinds.items()]


def table(*rows: dict[str, Any]) -> str:
    """Rows as the client's batch mode prints them."""
    if not rows:
        return ""
    lines = ["\t".join(rows[0])]
    lines += ["\t".join("NULL" if value is None else str(value) for value in row.values()) for row in rows]
    return "\n".join(lines) + "\n"


def json_row(**values: Any) -> str:
    """The answer to SELECT JSON_OBJECT(...) AS result."""
    return table({"result": json.dumps(values).replace("\\", "\\\\")})


RUNNING = {
    "Source_Host": "10.77.1.10",
    "Source_User": "repl",
    "Source_Port": "3306",
    "Replica_IO_Running": "Yes",
    "Replica_SQL_Running": "Yes",
    "Seconds_Behind_Source": "0",
    "Last_IO_Errno": "0",
    "Last_IO_Error": "",
    "Last_SQL_Errno": "0",
    "Last_SQL_Error": "",
}


def status(**changes: Any) -> str:
    return table({**RUNNING, **changes})


def variables(**values: str) -> str:
    """The answer to SHOW GLOBAL VARIABLES."""
    return table(*({"Variable_name": name, "Value": value} for name, value in values.items()))


def pool_settings(datadir: Path, percent: int = 100, filename: str = "ib_buffer_pool") -> str:
    """What a server says of its page list."""
    names = {"innodb_buffer_pool_dump_pct": percent, "innodb_buffer_pool_filename": filename}
    return json_row(datadir=str(datadir), **names)


def looks(status_rows: str, **changes: Any) -> str:
    """What one look of a healthy replica brings: its progress, then its replication status."""
    facts: dict[str, Any] = {
        "read_only": 1,
        "instruments": 1,
        "received": f"{B}:1-90",
        "executed": f"{B}:1-90",
        "heartbeats": 812,
        "heartbeat_interval_seconds": 1.0,
        "contact_age_seconds": 0.4,
        "unapplied_seconds": None,
    }
    return json_row(**{**facts, **changes}) + status_rows
