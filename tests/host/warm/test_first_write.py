"""Empty volumes warmed by writing: only with consent, only over zeros."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from host_bench import BLOCK, MIB, RUN_ID, Host, Volume
from peaker_host.machine.devices import describe_device

pytestmark = pytest.mark.real
Capture = pytest.CaptureFixture[str]


def sectors_written(volume: Volume) -> int:
    name = describe_device(volume.path).kernel_name
    return int(Path(f"/sys/block/{name}/stat").read_text().split()[6])


def warm(host: Host, capsys: Capture, volume: Volume) -> dict[str, object]:
    return host.call(capsys, "warm_by_writing", "--run-id", RUN_ID, "--volume-id", volume.volume_id)


def test_every_block_of_an_empty_volume_is_written_once(host: Host, capsys: Capture) -> None:
    host.configure(warm_empty_by_writing=True)
    volume = host.volume(64 * MIB + 4096)
    before = sectors_written(volume)
    result = warm(host, capsys, volume)
    assert (result["blocks_written"], result["blocks_total"]) == (129, 129)
    assert (sectors_written(volume) - before) * 512 == 64 * MIB + 4096
    assert volume.image.read_bytes().strip(b"\0") == b""
    assert warm(host, capsys, volume)["blocks_written"] == 0, "what is written is not written again"


def test_without_consent_nothing_is_written(host: Host, capsys: Capture) -> None:
    volume = host.volume(16 * MIB)
    before = sectors_written(volume)
    assert warm(host, capsys, volume)["error"] == "WritingNotAllowed"
    assert sectors_written(volume) == before


@pytest.mark.parametrize("kind", ["xfs", "ext4"])
def test_a_filesystem_is_not_written_to(host: Host, capsys: Capture, kind: str) -> None:
    host.configure(warm_empty_by_writing=True)
    volume = host.volume(400 * MIB, kind)
    before = sectors_written(volume)
    assert warm(host, capsys, volume)["error"] == "DeviceNotEmpty"
    assert sectors_written(volume) == before


def test_a_single_byte_in_the_middle_is_found_and_kept(host: Host, capsys: Capture) -> None:
    host.configure(warm_empty_by_writing=True)
    volume = host.volume(64 * MIB)
    place = 40 * BLOCK + 77
    with open(volume.path, "r+b", buffering=0) as device:
        os.pwrite(device.fileno(), bytes([1]) + bytes(511), place // 512 * 512)
        os.fsync(device.fileno())
    assert warm(host, capsys, volume)["error"] == "DeviceNotEmpty"
    assert os.pread(os.open(volume.image, os.O_RDONLY), 1, place // 512 * 512) == b"\1"


def test_a_mounted_volume_is_refused(host: Host, capsys: Capture) -> None:
    host.configure(warm_empty_by_writing=True)
    volume = host.volume(400 * MIB, "xfs")
    with host.mounted(volume):
        assert warm(host, capsys, volume)["error"] == "DeviceInUse"


def test_another_volume_behind_the_link_is_refused(host: Host, capsys: Capture) -> None:
    host.configure(warm_empty_by_writing=True)
    volume = host.volume(16 * MIB)
    host.link(volume.volume_id, str(volume.image))
    assert warm(host, capsys, volume)["error"] == "WrongDevice"
