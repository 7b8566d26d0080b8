"""The document beside the bundle: each distribution in it with its version, and nothing of when and where."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from stacks import sbom
from stacks.constructs.local_bundling import Target, bundle_functions, distributions_in
from stacks.sbom import write_sbom
from tests.infrastructure.conftest import bundled


def test_the_document_beside_the_bundle_names_what_is_in_it_and_is_the_same_each_time(
    sources: Path, tmp_path: Path
) -> None:
    bundle = bundled(sources, tmp_path / "first", Target.this_machine())
    elsewhere = tmp_path / "second" / bundle.name
    elsewhere.parent.mkdir()
    elsewhere.write_bytes(bundle.read_bytes())
    path = write_sbom(bundle)
    assert path == bundle.with_suffix(".cdx.json")
    assert path.read_bytes() == write_sbom(elsewhere).read_bytes()
    document = json.loads(path.read_text())
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    [hashed] = document["metadata"]["component"]["hashes"]
    assert hashed == {"alg": "SHA-256", "content": hashlib.sha256(bundle.read_bytes()).hexdigest()}
    [one] = document["components"]
    assert (one["name"], one["version"], one["purl"]) == ("dependency", "1.0", "pkg:pypi/dependency@1.0")
    assert one["licenses"] == [{"license": {"acknowledgement": "declared", "id": "MIT"}}]


def test_every_distribution_of_the_real_bundle_is_named_and_stands_where_it_is_needed() -> None:
    bundle = bundle_functions(Target.this_machine())
    document = json.loads(write_sbom(bundle).read_text())
    named = {(one["name"], one["version"]) for one in document["components"]}
    assert named == {(one.name, one.version) for one in distributions_in(bundle)}
    assert {"boto3", "botocore", "numpy", "pydantic"} <= {name for name, _ in named}
    needs = {one["ref"]: one.get("dependsOn", []) for one in document["dependencies"]}
    [boto3] = [one for one in needs if one.startswith("pkg:pypi/boto3@")]
    assert [one.split("@")[0] for one in needs[boto3]] == [
        "pkg:pypi/botocore",
        "pkg:pypi/jmespath",
        "pkg:pypi/s3transfer",
    ]


def test_an_unknown_environment_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert sbom.main(["nowhere"]) == 2
    assert capsys.readouterr().err.startswith("environments/nowhere.yaml: does not exist")
