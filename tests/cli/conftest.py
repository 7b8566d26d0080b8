"""The deployment as each test of the command finds it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.deployed_product import FAST, DeployedProduct


@pytest.fixture
def product(deployed: DeployedProduct) -> Iterator[DeployedProduct]:
    """The deployment without faults and with healthy hosts that are done at once.

    Its clock is slow: at the usual sixty times, the schedules of a day work while commands look.
    """
    deployed.cloud.clock.set(scale=1)
    yield deployed
    deployed.cloud.clock.set(scale=FAST)
    deployed.cloud.faults.clear()
    deployed.answers.healthy()
    deployed.answers.hosts = None
