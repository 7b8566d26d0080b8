"""The tests' own volumes: several run at once on a machine, and loop devices are the machine's."""

from __future__ import annotations

import time

import pytest
from host_bench import MIB, Host, backs, detach


@pytest.mark.real
def test_a_device_is_detached_by_who_has_it(host: Host) -> None:
    volume = host.volume(MIB)
    detach(volume.path, volume.image.with_name("another.img"))
    assert backs(volume.image, volume.path)
    detach(volume.path, volume.image)
    # A scan of the machine's devices may hold it open for a moment, and the next may have its number at once.
    deadline = time.monotonic() + 60
    while backs(volume.image, volume.path) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not backs(volume.image, volume.path)
