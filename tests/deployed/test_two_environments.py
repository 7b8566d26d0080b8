"""Two environments of one account, each with a cluster `orders`: the one does not see the other's replicas."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from cloud_rig.resources import ResourceCloud, open_cloud
from environments.schema import Environment, load_environment
from localcloud.deploy import deploy
from stacks import application
from stacks.application import build_app
from tests.support.deployed_product import lead_bundles_here

ENVIRONMENTS = ("local", "twin")


def named(name: str, now: datetime | None = None) -> Environment:
    """The local environment under that name; its listener has a port of its own."""
    given = load_environment("local", now=now)
    [cluster] = given.clusters
    port = cluster.read_endpoint.listener_port + ENVIRONMENTS.index(name)  # type: ignore[union-attr]
    endpoint = cluster.read_endpoint.model_copy(update={"listener_port": port})
    clusters = (cluster.model_copy(update={"read_endpoint": endpoint}),)
    return given.model_copy(update={"environment": name, "clusters": clusters})


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ResourceCloud]:
    folder = Path(tmp_path_factory.mktemp("two"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(application, "load_environment", named)
        build_app(
            environment="twin", output=folder / "twin", context={"bundle": "sources"}, checked=False
        ).synth()
        lead_bundles_here(folder / "twin")
    with open_cloud(folder / "cloud") as opened:
        deploy(folder / "twin", opened.cloud.endpoint_url)
        yield opened


def base_replica(aws: ResourceCloud, environment: str) -> str:
    tags = {"environment": environment, "cluster": "orders", "role": "replica", "load": "base"}
    given = [{"Key": f"peaker:{key}", "Value": value} for key, value in tags.items()]
    return aws.launched(TagSpecifications=[{"ResourceType": "instance", "Tags": given}])


def invoked(aws: ResourceCloud, environment: str, function: str, given: dict[str, Any]) -> dict[str, Any]:
    answer = getattr(aws, "lambda").invoke(
        FunctionName=f"peaker-{environment}-{function}", Payload=json.dumps(given).encode()
    )
    document: dict[str, Any] = json.loads(answer["Payload"].read())
    assert "FunctionError" not in answer, document
    return document


def test_an_environment_sees_its_own_replicas_and_publishes_its_own_metrics(aws: ResourceCloud) -> None:
    bases = {name: base_replica(aws, name) for name in ENVIRONMENTS}
    asked = {"run_id": "scale-in-orders-1", "cluster": "orders", "operation": "scale_in", "step": "PlanOnly"}
    assert list(invoked(aws, "twin", "select_idle_replicas", asked)["candidates"]) == [bases["twin"]]
    invoked(aws, "twin", "forecast_load", {"cluster": "orders"})
    published = {
        name: len(aws.cloudwatch.list_metrics(Namespace=f"Peaker/{name}")["Metrics"]) for name in ENVIRONMENTS
    }
    assert published["twin"] > 0
    assert published["local"] == 0
