"""One deployment of the product's stacks for all tests of the command."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.deployed_product import DeployedProduct, deployed_product


@pytest.fixture(scope="session")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeployedProduct]:
    with deployed_product(tmp_path_factory.mktemp("product")) as product:
        yield product


@pytest.fixture
def product(deployed: DeployedProduct) -> Iterator[DeployedProduct]:
    """The deployment without faults and with healthy hosts that are done at once."""
    yield deployed
    deployed.cloud.faults.clear()
    deployed.answers.healthy()
    deployed.answers.hosts = None
