"""The deployment as each test of the command finds it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.deployed_product import DeployedProduct


@pytest.fixture
def product(deployed: DeployedProduct) -> Iterator[DeployedProduct]:
    """The deployment without faults and with healthy hosts that are done at once."""
    yield deployed
    deployed.cloud.faults.clear()
    deployed.answers.healthy()
    deployed.answers.hosts = None
