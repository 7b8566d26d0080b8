"""A deployment of its own for what the pages tell people to type: their commands change it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.deployed_product import deployed_product
from tests.support.situations import Person


@pytest.fixture(scope="session")
def person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    """Somebody at a shell, with the `peaker` and `aws` commands, where a peak replica serves already."""
    with deployed_product(tmp_path_factory.mktemp("product")) as product:
        yield Person.of(product, tmp_path_factory.mktemp("desk"))


@pytest.fixture
def calm(person: Person) -> Iterator[Person]:
    """Nothing is at work when the page is done, so that the next one finds what it expects."""
    yield person
    person.product.cloud.faults.clear()
    person.product.answers.healthy()
    person.product.answers.hosts = None
    person.waits_for_calm()
