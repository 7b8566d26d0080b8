"""A kind of read endpoint that nobody has provided for is refused loudly, and never taken for a load balancer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, cast

import pytest
from peaker.adapters.read_endpoint.by_kind import ReadEndpointByKind
from peaker.ports.endpoint import TrafficRouter
from peaker_cli.doctor.endpoint import EndpointFacts, look_at_endpoint

from environments.clusters_by_endpoint import by_endpoint
from peaker_contract.cluster import ClusterSettings
from peaker_contract.field_types import Settings
from tests.support.builders import orders


class AnycastEndpoint(Settings):
    """Made up."""

    kind: Literal["anycast"] = "anycast"
    port: int = 3306
    health_port: int = 9200


def of_a_third_kind() -> ClusterSettings:
    return orders().model_copy(update={"read_endpoint": AnycastEndpoint()})


class Untouched:
    """An adapter that nobody may call."""

    def __getattr__(self, name: str) -> Any:
        pytest.fail(f"{name} was called for a kind that it does not know")


def functions(settings: ClusterSettings) -> None:
    router = cast("TrafficRouter", Untouched())
    ReadEndpointByKind(router, router).register(settings, "i-0123456789abcdef0")


def doctor(settings: ClusterSettings) -> None:
    look_at_endpoint(settings, EndpointFacts(health={}), [])


def stacks(settings: ClusterSettings) -> None:
    by_endpoint([settings])


@pytest.mark.parametrize("part", [functions, doctor, stacks])
def test_a_third_kind_is_refused(part: Callable[[ClusterSettings], None]) -> None:
    with pytest.raises(AssertionError, match="AnycastEndpoint"):
        part(of_a_third_kind())
