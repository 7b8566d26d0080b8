"""Somebody who types what the pages say; their commands change the deployment."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.deployed_product import DeployedProduct
from tests.support.situations import Person


@pytest.fixture(scope="session")
def person(deployed: DeployedProduct, tmp_path_factory: pytest.TempPathFactory) -> Person:
    """Somebody at a shell, with the `peaker` and `aws` commands, where a peak replica serves already."""
    return Person.of(deployed, tmp_path_factory.mktemp("desk"))


@pytest.fixture
def calm(person: Person) -> Iterator[Person]:
    """Nothing is at work when the page is done, so that the next one finds what it expects."""
    person.product.starts_nothing_by_itself()
    person.builds_no_more()
    person.waits_for_calm()
    yield person
    person.product.cloud.faults.clear()
    person.product.answers.hosts = None
    person.waits_for_calm()
