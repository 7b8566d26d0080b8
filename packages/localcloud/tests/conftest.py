"""A local cloud on a simulated data plane, opened for one test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cloud_rig.resources import ResourceCloud, open_cloud


@pytest.fixture
def aws(tmp_path: Path) -> Iterator[ResourceCloud]:
    with open_cloud(tmp_path) as opened:
        yield opened


@pytest.fixture
def slow_aws(tmp_path: Path) -> Iterator[ResourceCloud]:
    """As `aws`, with delays long enough to look at what is in between."""
    with open_cloud(tmp_path, describe_delay_seconds=1.2, snapshot_seconds=2.5) as opened:
        yield opened
