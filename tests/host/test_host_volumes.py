"""The tests' own volumes: several run at once on a machine, and loop devices are the machine's."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_bench import MIB, Host, detach


@pytest.mark.real
def test_a_device_is_detached_by_who_has_it(host: Host) -> None:
    volume = host.volume(MIB)
    held = Path(f"/sys/block/{Path(volume.path).name}/loop/backing_file")
    detach(volume.path, volume.image.with_name("another.img"))
    assert held.read_text().strip() == str(volume.image)
    detach(volume.path, volume.image)
    assert not held.exists() or held.read_text().strip() != str(volume.image)
