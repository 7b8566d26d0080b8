"""One synth of each environment for the whole folder; the JavaScript kernel takes seconds to start."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import yaml

from environments.schema import ENVIRONMENTS_DIRECTORY, Cluster, Environment, load_environment
from stacks import application
from stacks.application import build_app
from stacks.constructs.local_bundling import Target, bundle_functions
from tests.support.assembly import assembly

ENVIRONMENTS = ("prod", "local")
DATA_KEY = "arn:aws:kms:us-east-1:222222222222:key/1234abcd-12ab-34cd-56ef-1234567890ab"
Resource = dict[str, Any]


@dataclass(frozen=True)
class Assembly:
    """What one synth wrote: templates by stack (State, ControlPlane, Observability, and each cluster by its name)."""

    environment: str
    directory: Path

    @property
    def template_paths(self) -> dict[str, Path]:
        stage = self.directory / f"assembly-Peaker-{self.environment}"
        artifacts = json.loads((stage / "manifest.json").read_text())["artifacts"]
        return {
            artifact["properties"]["stackName"].removeprefix(f"Peaker-{self.environment}-"): stage
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
    return {name: Assembly(name, assembly(name, output / name)) for name in ENVIRONMENTS}


@pytest.fixture(params=ENVIRONMENTS, name="assembly")
def one_assembly(request: pytest.FixtureRequest, assemblies: dict[str, Assembly]) -> Assembly:
    return assemblies[request.param]


@pytest.fixture(scope="session")
def prod(assemblies: dict[str, Assembly]) -> Assembly:
    return assemblies["prod"]


@pytest.fixture(scope="session")
def local(assemblies: dict[str, Assembly]) -> Assembly:
    return assemblies["local"]


def of_all_kinds() -> Environment:
    """`prod` with a key, orders behind a DNS name, and items behind a load balancer with subnets of its own."""
    by_name, balanced = behind_a_name("prod"), load_environment("prod").clusters[0].model_dump(mode="json")
    balanced["read_endpoint"] |= {"subnets": balanced["subnets"]}
    larger = {zone: f"subnet-0b0d0000000000f{zone[-1]}0" for zone in balanced["subnets"]}
    items = Cluster.model_validate({**balanced, "name": "items", "subnets": larger})
    return by_name.model_copy(update={"data_key_arn": DATA_KEY, "clusters": (*by_name.clusters, items)})


@pytest.fixture(scope="session")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    """Whatever a template may have. A finding of cdk-nag would have ended the synth."""
    settings = of_all_kinds()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(application, "load_environment", lambda name, now: settings)
        return synthesize("prod", tmp_path_factory.mktemp("wide"))


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with a locally built wheel as its only dependency; no package index is asked."""
    wheel = tmp_path / "wheels" / "dependency-1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("dependency/__init__.py", "VALUE = 1\n")
        archive.writestr("dependency/__init__.pyi", "VALUE: int\n")
        archive.writestr("dependency/tests/test_dependency.py", "")
        archive.writestr(
            "dependency-1.0.dist-info/METADATA",
            "Metadata-Version: 2.4\nName: dependency\nVersion: 1.0\nLicense-Expression: MIT\n",
        )
        archive.writestr(
            "dependency-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(
            "dependency-1.0.dist-info/entry_points.txt", "[console_scripts]\ndep = dependency:main\n"
        )
        archive.writestr("dependency-1.0.dist-info/RECORD", "")
    functions = tmp_path / "functions"
    (functions / "peaker").mkdir(parents=True)
    (functions / "peaker" / "__init__.py").write_text("")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    (functions / "requirements.txt").write_text(f"dependency==1.0 --hash=sha256:{digest}\n")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    return functions


def bundled(sources: Path, builds: Path, target: Target | None = None) -> Path:
    return bundle_functions(
        target,
        packages=[sources / "peaker"],
        requirements=sources / "requirements.txt",
        builds=builds,
    )
