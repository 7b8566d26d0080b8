"""One synth of each environment for the whole folder; the JavaScript kernel takes seconds to start."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import yaml

from environments.schema import ENVIRONMENTS_DIRECTORY, Environment
from stacks.application import build_app

ENVIRONMENTS = ("dev", "prod", "local")
Resource = dict[str, Any]


@dataclass(frozen=True)
class Assembly:
    """What one synth wrote: templates by stack (State, ControlPlane, Observability)."""

    environment: str
    directory: Path

    @property
    def template_paths(self) -> dict[str, Path]:
        stage = self.directory / f"assembly-Peaker-{self.environment}"
        artifacts = json.loads((stage / "manifest.json").read_text())["artifacts"]
        return {
            artifact["properties"]["stackName"].rsplit("-", 1)[1]: stage
            / artifact["properties"]["templateFile"]
            for artifact in artifacts.values()
            if artifact["type"] == "aws:cloudformation:stack"
        }

    @cached_property
    def templates(self) -> dict[str, Any]:
        return {stack: json.loads(path.read_text()) for stack, path in self.template_paths.items()}

    def resources(self, kind: str) -> Iterator[tuple[str, Resource]]:
        """All resources of a CloudFormation type, with their logical ids."""
        for template in self.templates.values():
            for logical_id, resource in template["Resources"].items():
                if resource["Type"] == kind:
                    yield logical_id, resource

    def properties(self, kind: str) -> list[Resource]:
        return [resource["Properties"] for _, resource in self.resources(kind)]


def behind_a_name(environment: str) -> Environment:
    """A given environment whose one cluster is read by a DNS name instead of a load balancer."""
    path = ENVIRONMENTS_DIRECTORY / f"{environment}.yaml"
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    document["clusters"][0]["read_endpoint"] = {
        "kind": "route53",
        "port": 3306,
        "health_port": 9200,
        "hosted_zone_id": "Z0123456789ABCDEFGHIJ",
        "record_name": "reads.orders.internal",
        "ttl_seconds": 30,
    }
    return Environment.parse(document, path.name)


def synthesize(environment: str, output: Path) -> Assembly:
    build_app(environment=environment, output=output, context={"bundle": "sources"}).synth()
    return Assembly(environment, output)


@pytest.fixture(scope="session")
def assemblies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Assembly]:
    output = tmp_path_factory.mktemp("cdk.out")
    return {name: synthesize(name, output / name) for name in ENVIRONMENTS}


@pytest.fixture(params=ENVIRONMENTS)
def assembly(request: pytest.FixtureRequest, assemblies: dict[str, Assembly]) -> Assembly:
    return assemblies[request.param]


@pytest.fixture(scope="session")
def prod(assemblies: dict[str, Assembly]) -> Assembly:
    return assemblies["prod"]


@pytest.fixture(scope="session")
def local(assemblies: dict[str, Assembly]) -> Assembly:
    return assemblies["local"]
