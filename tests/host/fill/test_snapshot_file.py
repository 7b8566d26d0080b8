"""A snapshot as a file: what programs read of it, what they are told when it cannot be had, what a kill leaves."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from peaker_host.fill.snapshot_file import SnapshotFile, detach
from peaker_host.machine.errors import DirectApiRefused

from tests.host.fill.direct_api_server import BLOCK

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(os.geteuid() != 0, reason="a mount needs root"),
]
SIZE = 3 * BLOCK + 4096


def block_of(index: int) -> bytes:
    return (b"block %d " % index).ljust(16, b".") * (BLOCK // 16)


def content(index: int, buffer: memoryview) -> None:
    buffer[:BLOCK] = block_of(index)


def test_a_program_reads_every_byte_and_the_size_is_the_volumes(tmp_path: Path) -> None:
    with SnapshotFile(str(tmp_path / "snapshot"), SIZE, content) as file:
        assert os.stat(file.path).st_size == SIZE
        read = subprocess.run(["cat", file.path], capture_output=True, check=True).stdout
    assert read == b"".join(block_of(index) for index in range(4))[:SIZE]
    assert not os.path.ismount(file.path)


def test_a_part_of_a_block_across_two_is_read_as_it_lies(tmp_path: Path) -> None:
    with SnapshotFile(str(tmp_path / "snapshot"), SIZE, content) as file, open(file.path, "rb") as read:
        read.seek(BLOCK - 5)
        assert read.read(10) == block_of(0)[-5:] + block_of(1)[:5]


def test_what_cannot_be_had_is_an_error_and_the_reason_is_kept(tmp_path: Path) -> None:
    def refuse(index: int, buffer: memoryview) -> None:
        raise DirectApiRefused("AccessDeniedException")

    with SnapshotFile(str(tmp_path / "snapshot"), SIZE, refuse) as file:
        descriptor = os.open(file.path, os.O_RDONLY)
        with pytest.raises(OSError) as failed:
            os.pread(descriptor, 4096, 0)
        os.close(descriptor)
    assert failed.value.errno == errno.EIO
    assert isinstance(file.failure, DirectApiRefused)


def test_nobody_writes_to_it(tmp_path: Path) -> None:
    with (
        SnapshotFile(str(tmp_path / "snapshot"), SIZE, content) as file,
        pytest.raises(OSError, match="Read-only"),
    ):
        os.open(file.path, os.O_RDWR)


def test_what_a_killed_engine_left_is_taken_away_by_the_next(tmp_path: Path) -> None:
    path = tmp_path / "snapshot"
    program = (
        "import sys, time\n"
        "from peaker_host.fill.snapshot_file import SnapshotFile\n"
        f"with SnapshotFile({str(path)!r}, 4096, lambda index, buffer: None):\n"
        "    print('open', flush=True)\n"
        "    time.sleep(600)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"open\n"
        process.send_signal(signal.SIGKILL)
        process.wait()
        with SnapshotFile(str(path), SIZE, content) as file, open(file.path, "rb") as read:
            assert read.read(9) == b"block 0 ."
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        detach(str(path))
