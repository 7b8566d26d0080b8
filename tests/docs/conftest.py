"""The deployed product that the pages' commands are typed at."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.docs.situations import Person
from tests.support.deployed_product import deployed_product


@pytest.fixture(scope="session")
def person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    """Somebody at a shell, with the `peaker` and `aws` commands, where a peak replica serves already."""
    with deployed_product(tmp_path_factory.mktemp("product"), clock_scale=600) as product:
        yield Person.of(product, tmp_path_factory.mktemp("desk"))
