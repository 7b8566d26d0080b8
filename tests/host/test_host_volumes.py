"""The tests' own volumes: several run at once on a machine, and loop devices are the machine's."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from host_bench import MIB, Host, detach


@pytest.mark.real
def test_a_device_is_detached_by_who_has_it(host: Host) -> None:
    volume = host.volume(MIB)
    held = Path(f"/sys/block/{Path(volume.path).name}/loop/backing_file")
    detach(volume.path, volume.image.with_name("another.img"))
    assert backs(held, volume.image)
    detach(volume.path, volume.image)
    # A scan of the machine's devices may hold it open for a moment, and the next may have its number at once.
    deadline = time.monotonic() + 60
    while backs(held, volume.image) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not backs(held, volume.image)


def backs(held: Path, image: Path) -> bool:
    try:
        return held.read_text().strip() == str(image)
    except OSError:
        return False
