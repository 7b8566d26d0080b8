"""What the host says of its mounts before a replica is registered: none, read-only, covered, another volume (I5)."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from host_bench import MIB, Host, Volume
from peaker_host.machine.devices import Mount, read_mounts


@pytest.fixture
def assembled(host: Host) -> Volume:
    volume = host.volume(16 * MIB, "ext4")
    request = host.request(volume, filesystem="ext4")
    assembled = host.call("assemble_storage", "--volumes", request)
    assert assembled["ok"], assembled
    return volume


@contextlib.contextmanager
def mounted(host: Host, device: str, *options: str) -> Iterator[Path]:
    place = host.root / "place0"
    place.mkdir(exist_ok=True)
    subprocess.run(["mount", *options, device, str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def problem(host: Host) -> str:
    [said] = host.call("check_mounts")["mounts"]
    assert said["name"] == "volume0"
    return str(said["problem"])


def test_a_volume_at_its_place_is_as_it_was_proven(host: Host, assembled: Volume) -> None:
    with mounted(host, assembled.path):
        assert problem(host) == ""
    assert problem(host) == f"nothing is mounted at {host.root}/place0"


def test_a_filesystem_that_became_read_only_takes_no_writes(host: Host, assembled: Volume) -> None:
    with mounted(host, assembled.path) as place:
        subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
        assert problem(host) == f"{place} takes no writes"


def test_another_volume_over_the_proven_one_is_seen(host: Host, assembled: Volume) -> None:
    other = host.volume(16 * MIB, "ext4")
    with mounted(host, assembled.path) as place, mounted(host, other.path):
        under = Path(other.path).name
        assert problem(host) == f"{place} is on {under}, not on {assembled.volume_id}"


def test_a_volume_that_was_detached_under_its_mount_is_seen(host: Host, assembled: Volume) -> None:
    with mounted(host, assembled.path):
        next((host.root / "by-id").iterdir()).unlink()
        assert "No such file or directory" in problem(host)


def test_mounts_are_read_as_the_kernel_writes_them(tmp_path: Path) -> None:
    path = tmp_path / "mountinfo"
    path.write_text(
        "36 35 259:1 / /var/lib/mysql rw,noatime shared:1 - xfs /dev/nvme1n1 rw,attr2\n"
        "37 35 259:2 / /my\\040place rw,noatime - ext4 /dev/nvme2n1 ro,data=ordered\n"
        "38 36 7:1 / /var/lib/mysql ro,noatime - ext4 /dev/loop1 rw\n"
        "no mount\n"
    )
    assert read_mounts(str(path)) == [
        Mount("/var/lib/mysql", "259:1", "xfs", read_only=False),
        Mount("/my place", "259:2", "ext4", read_only=True),
        Mount("/var/lib/mysql", "7:1", "ext4", read_only=True),
    ]
