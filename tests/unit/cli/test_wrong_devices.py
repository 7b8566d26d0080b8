"""`peaker knee` on what cannot be measured: each mistake has its own words."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from peaker_cli.app import app
from peaker_cli.storage import knee
from peaker_host.machine.errors import BenchmarkFailed, DeviceInUse
from typer.testing import CliRunner

run = CliRunner().invoke


def directory(place: Path) -> str:
    return str(place)


def file(place: Path) -> str:
    (place / "data.ibd").write_bytes(b"x")
    return str(place / "data.ibd")


def dangling_link(place: Path) -> str:
    (place / "nvme-link").symlink_to("/dev/nvme99n1")
    return str(place / "nvme-link")


def circle(place: Path) -> str:
    (place / "a").symlink_to("b")
    (place / "b").symlink_to("a")
    return str(place / "a")


def fifo(place: Path) -> str:
    os.mkfifo(place / "pipe")
    return str(place / "pipe")


WRONG_DEVICES: list[tuple[str | Callable[[Path], str], str]] = [
    ("", "an empty path is no device"),
    ("   ", "an empty path is no device"),
    ("/dev/nvme99n1", "no such device; there are"),
    ("nvme99n1", "no such device; there are"),
    ("/dev/null", "is not a block device; lsblk lists them"),
    ("/dev/null/x", "a part of the path is not a directory"),
    ("/dev/" + "x" * 300, "File name too long"),
    ("/dev/n\0ul", "embedded null"),
    ("zero", "did you mean /dev/zero?"),
    (directory, "is a directory, not a block device"),
    (file, "is a file, not a block device"),
    (dangling_link, "the link leads to /dev/nvme99n1, which does not exist"),
    (circle, "its links lead in a circle"),
    (fifo, "is not a block device"),
]


@pytest.mark.parametrize(("device", "said"), WRONG_DEVICES)
def test_a_wrong_device_is_told_apart(device: str | Callable[[Path], str], said: str, tmp_path: Path) -> None:
    path = device if isinstance(device, str) else device(tmp_path)
    found = run(app, ["knee", path])
    assert found.exit_code == 1
    assert said in found.stderr
    assert found.stderr.count("\n") == 1
    assert found.stdout == ""


OPEN_FAILS = [
    (errno.EACCES, "run the command with sudo"),
    (errno.EPERM, "run the command with sudo"),
    (errno.EBUSY, "in use by something that lets nobody else open it"),
    (errno.ENXIO, "was the volume detached?"),
    (errno.ENOMEDIUM, "has no medium"),
    (errno.EIO, "look at the kernel's log"),
]


@pytest.mark.parametrize(("number", "said"), OPEN_FAILS)
def test_a_device_that_cannot_be_opened_says_why(
    number: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str, flags: int) -> int:
        raise OSError(number, os.strerror(number), path)

    monkeypatch.setattr(knee.stat, "S_ISBLK", lambda mode: True)
    monkeypatch.setattr(knee.os, "open", refuse)
    told = knee.why_not_measurable("/dev/null")
    assert told is not None
    assert said in told


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (DeviceInUse("/dev/sdx serves 300 requests per s for others"), "take --even-if-busy"),
        (BenchmarkFailed("sdx: Input/output error"), "Input/output error"),
        (OSError(errno.ENODEV, "No such device"), "/dev/sdx: No such device"),
    ],
)
def test_what_fails_during_the_search_is_one_line(
    error: Exception, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(knee, "why_not_measurable", lambda path: None)
    monkeypatch.setattr(knee, "find_knee", fail)
    found = run(app, ["knee", "/dev/sdx"])
    assert (found.exit_code, found.stderr.count("\n")) == (1, 1)
    assert said in found.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "Missing argument"),
        (["/dev/sdx", "--plot", "knee.pdf"], "neither in .png nor in .svg"),
        (["/dev/sdx", "--plot", "/nowhere/knee.png"], "no file can be written"),
        (["/dev/sdx", "--volume", "lots"], "is not IOPS:MIB_PER_S"),
        (["/dev/sdx", "--instance", "1:-1"], "is not IOPS:MIB_PER_S"),
        (["/dev/sdx", "--max-concurrency", "1"], "greater than or equal to 2"),
        (["/dev/sdx", "--window", "0"], "greater than or equal to 0.7"),
        (["/dev/sdx", "--settle", "soon"], "number"),
        (["/dev/sdx", "--time-limit", "nan"], "time-limit"),
    ],
)
def test_a_wrong_option_is_a_wrong_call(
    options: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(knee, "why_not_measurable", lambda path: None)
    found = run(app, ["knee", *options])
    assert found.exit_code == 2, found.output
    assert said in " ".join(found.stderr.replace("│", " ").split())
