"""What all tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from tests.support.deployed_product import DeployedProduct

# As in the functions and in the `peaker` command, and before anything here imports numpy.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# A case that is slow says how busy the machine is; speed is measured by the benches.
settings.register_profile("peaker", deadline=None)
settings.load_profile("peaker")


@pytest.fixture(scope="session")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeployedProduct]:
    """One deployment of the product's stacks, with one cluster, for everybody who types commands in this process."""
    from tests.support.deployed_product import deployed_product

    with deployed_product(tmp_path_factory.mktemp("product")) as product:
        yield product
