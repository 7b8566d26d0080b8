"""Devices that are not what was asked for, or that others use, are refused before the first read."""

from __future__ import annotations

import subprocess

import pytest
from host_bench import MIB, Host, Volume, assemble, assembled, filled, sectors_read

pytestmark = pytest.mark.real


class TestWrongDevices:
    """All of these are refused before the first read of the engine."""

    def refused(self, host: Host, volume: Volume, **request: str) -> str:
        before = sectors_read(volume)
        result = assemble(host, volume, **request)
        assert not result["ok"]
        assert (sectors_read(volume) - before) * 512 < MIB
        error: str = result["error"]
        return error

    def test_mounted_elsewhere(self, host: Host) -> None:
        volume = filled(host)
        with host.mounted(volume):
            assert self.refused(host, volume) == "DeviceInUse"

    def test_mounted_after_it_was_assembled(self, host: Host) -> None:
        volume = assembled(host, filled(host))
        with host.mounted(volume):
            for command in ("start_prewarm", "prewarm"):
                assert host.call(command)["error"] == "DeviceInUse"

    def test_mounted_in_another_mount_namespace(self, host: Host) -> None:
        volume = filled(host)
        point = host.root / "hidden"
        point.mkdir()
        script = f"mount {volume.path} {point} && echo mounted && read line"
        with subprocess.Popen(
            ["unshare", "-m", "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == "mounted\n"
            try:
                assert self.refused(host, volume) == "DeviceInUse"
            finally:
                other.communicate("\n")

    def test_another_volume_behind_the_link_than_before(self, host: Host) -> None:
        volume, other = filled(host), host.volume(400 * MIB, "xfs")
        assert assemble(host, volume)["ok"]
        host.link(volume.volume_id, other.path)
        assert host.call("prewarm")["error"] == "WrongDevice"

    def test_no_superblock(self, host: Host) -> None:
        assert self.refused(host, host.volume(300 * MIB)) == "NoFilesystem"

    def test_another_filesystem_than_expected(self, host: Host) -> None:
        assert self.refused(host, filled(host), filesystem="ext4") == "NoFilesystem"

    def test_no_block_device(self, host: Host) -> None:
        volume = filled(host)
        host.link(volume.volume_id, str(volume.image))
        assert self.refused(host, volume) == "WrongDevice"

    def test_a_volume_that_is_not_attached(self, host: Host) -> None:
        volume = filled(host)
        (
            host.root / "by-id" / f"nvme-Amazon_Elastic_Block_Store_{volume.volume_id.replace('-', '')}"
        ).unlink()
        assert self.refused(host, volume) == "DeviceNotFound"

    def test_another_run_s_manifest(self, host: Host) -> None:
        assembled(host, filled(host))
        result = host.call("start_prewarm", run_id="another-run")
        assert result["error"] == "StorageNotAssembled"
