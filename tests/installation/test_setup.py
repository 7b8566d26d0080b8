"""`scripts/setup` as a person without root, apt-get or GNU tools in what git hands out; then the `npx cdk` lines of the
README: each selects all stacks, or one cluster's."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from environments import reference
from tests.installation.conftest import UNPACKED_CDK, Person, copy_checkout
from tests.installation.copies import REPOSITORY, give_byte_code

pytestmark = pytest.mark.timeout(900)
# With CI it tells on standard output what is no error.
OF_CDK = {"AWS_EC2_METADATA_DISABLED": "true", "CI": ""}
CLUSTER = "Peaker-prod/orders"
STACKS = ["Peaker-prod/State", "Peaker-prod/ControlPlane", "Peaker-prod/Observability", CLUSTER]
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


def documented(command: str, selects: str = "**") -> list[str]:
    """The arguments of the README's line for this command and these stacks; `bootstrap` selects none."""
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    lines = [shlex.split(one) for one in re.findall(rf"^npx cdk ({command} [^#\n]*)", readme, re.MULTILINE)]
    [line] = [one for one in lines if command == "bootstrap" or selects in one]
    return line


@pytest.fixture(scope="module")
def checkout(person: Person) -> Path:
    """A copy that is the person's own, with what the functions need if it was fetched before: it takes minutes."""
    copy = copy_checkout(person.folder / "checkout")
    for fetched in (REPOSITORY / "build" / "bundles").glob("dependencies-*"):
        shutil.copytree(fetched, copy / "build" / "bundles" / fetched.name)
    person.give(copy)
    return copy


def test_the_local_clouds_set_up_names_root_and_the_ways_without(person: Person, checkout: Path) -> None:
    run = person.run("scripts/setup", "dev", "local", cwd=checkout)
    assert run.returncode == 1
    assert run.stderr.startswith("setup: local needs root")
    assert "scripts/setup deploy, or dev" in run.stderr


def test_an_unknown_kind_is_refused_with_those_that_there_are(person: Person, checkout: Path) -> None:
    run = person.run("scripts/setup", "prod", cwd=checkout)
    assert (run.returncode, run.stderr.count("\n")) == (2, 1)
    assert "usage: scripts/setup [deploy] [dev] [local]" in run.stderr


@pytest.mark.parametrize(
    ("tool", "answer", "wanted"),
    [
        ("python3", "Python 3.9.6", "needs Python 3.11 or newer, found Python 3.9.6"),
        ("python3", None, "needs Python 3.11 or newer, found none"),
        ("node", "v18.19.0", "needs Node.js 20 or newer with npm on the PATH, for `npx cdk`; found v18.19.0"),
        ("node", None, "found none. Get it from https://nodejs.org"),
    ],
)
def test_what_is_missing_is_named_with_where_to_get_it(
    person: Person, checkout: Path, tool: str, answer: str | None, wanted: str
) -> None:
    tools = person.folder / f"{tool} {answer}"
    shutil.copytree(person.tools, tools, symlinks=True)
    (tools / tool).unlink()
    if answer:
        # Only an answer to --version; as an interpreter it is of no use.
        (tools / tool).write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo "{answer}"\n')
        (tools / tool).chmod(0o755)
    run = person.run("scripts/setup", "deploy", cwd=checkout, variables={"PATH": str(tools)})
    assert run.returncode == 1
    assert wanted in run.stderr
    assert not (checkout / ".venv").exists()


def test_a_package_that_is_not_the_locked_file_is_refused(person: Person, checkout: Path) -> None:
    """Put right, the same set-up goes on from there: `deployable`."""
    requirements = checkout / "requirements.txt"
    locked = requirements.read_text(encoding="utf-8")
    first = re.sub(r"(?:sha256:)[0-9a-f]{64}", "sha256:" + 64 * "0", locked[: locked.index("\nattrs==")])
    assert first != locked
    requirements.write_text(first + locked[len(first) :], encoding="utf-8")
    run = person.run("scripts/setup", "deploy", cwd=checkout)
    requirements.write_text(locked, encoding="utf-8")
    assert run.returncode == 1
    assert "DO NOT MATCH THE HASHES" in run.stderr
    assert run.stderr.splitlines()[-1].startswith("setup: pip could not install requirements.txt")


@pytest.fixture(scope="module")
def deployable(person: Person, checkout: Path) -> Path:
    """The checkout after `scripts/setup deploy`, from the package index; and what Python and jsii make at first use."""
    run = person.run("scripts/setup", "deploy", cwd=checkout)
    assert run.returncode == 0, run.stdout + run.stderr
    [packages] = (checkout / ".venv" / "lib").glob("python*/site-packages")
    person.give(*give_byte_code(packages, "aws-cdk-lib"))
    if (unpacked := Path.home() / UNPACKED_CDK).is_dir():
        shutil.copytree(unpacked, person.folder / UNPACKED_CDK, copy_function=shutil.copyfile)
        person.give(person.folder / UNPACKED_CDK.parts[0])
    return checkout


def test_editors_find_the_settings_schema_then(person: Person, deployable: Path) -> None:
    schema = json.loads((deployable / "environments" / "schema.json").read_text(encoding="utf-8"))
    assert schema == reference.json_schema()


def test_a_second_set_up_has_nothing_to_do(person: Person, deployable: Path) -> None:
    # No index and no wheels: whatever it would install, it could not.
    run = person.run(
        "scripts/setup", "deploy", cwd=deployable, variables={"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": ""}
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "\x1b[1msetup: ready\x1b[0m\n", "")


@dataclass(frozen=True)
class Templates:
    """What the pinned CDK command wrote from app.py, and how it ended."""

    person: Person
    checkout: Path
    ended: subprocess.CompletedProcess[str]

    def cdk(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the command over what was written, without credentials."""
        line = ("npx", "cdk", *arguments, "--app", "cdk.out/prod")
        return self.person.run(*line, cwd=self.checkout, variables=OF_CDK)


@pytest.fixture(scope="module")
def templates(person: Person, deployable: Path) -> Templates:
    line = "npx cdk synth -c env=prod -c bundle=sources -q --output cdk.out/prod"
    return Templates(person, deployable, person.run(*line.split(), cwd=deployable, variables=OF_CDK))


def test_then_the_templates_are_written_without_a_warning(
    templates: Templates,
) -> None:
    run = templates.ended
    assert (run.returncode, run.stderr.strip(), run.stdout.splitlines()) == (
        0,
        "",
        [
            f"Successfully synthesized to {templates.checkout}/cdk.out/prod",
            "Supply a stack id () to display its template.",
        ],
    )
    stacks = templates.cdk("ls", "**")
    assert [line.split()[0] for line in stacks.stdout.splitlines()] == STACKS, stacks.stderr


def test_the_line_after_the_set_up_finds_the_command_and_pythons_packages(
    person: Person, deployable: Path
) -> None:
    readme = (deployable / "README.md").read_text(encoding="utf-8")
    [export] = re.findall(r"^export PATH=.*$", readme, re.MULTILINE)
    line = f"{export}; peaker --version && python -c 'import pydantic'"
    version = person.run("sh", "-c", line, cwd=deployable)
    assert version.stdout.startswith("peaker "), version.stderr


def test_every_feature_flag_is_decided_and_a_departure_has_its_reason(templates: Templates) -> None:
    artifacts = json.loads(
        (templates.checkout / "cdk.out" / "prod" / "manifest.json").read_text(encoding="utf-8")
    )["artifacts"]
    [report] = [one for one in artifacts.values() if one["type"] == "cdk:feature-flag-report"]
    flags = report["properties"]["flags"]
    assert [name for name, flag in flags.items() if "userValue" not in flag] == []
    departures = {
        name: f["userValue"] for name, f in flags.items() if f["userValue"] != f["recommendedValue"]
    }
    assert departures == {name: value for name, (value, _) in DEPARTURES.items()}


@pytest.mark.parametrize(("selects", "stacks"), [("**", len(STACKS)), (CLUSTER, 1)])
def test_the_documented_line_comes_with_its_stacks_as_far_as_the_credentials(
    templates: Templates, selects: str, stacks: int
) -> None:
    removes = documented("destroy", selects)
    # A line of `deploy` selects with the same words.
    assert removes[1:] == documented("deploy", selects)[1:]
    run = templates.cdk(*removes, "--force")
    assert run.returncode == 1
    assert "No stack" not in run.stdout + run.stderr
    assert "Need to perform AWS calls for account 222222222222" in run.stderr
    assert f"destroying... [1/{stacks}]" in run.stdout


def test_bootstrap_takes_account_and_region_from_the_environments_file(templates: Templates) -> None:
    run = templates.cdk(*documented("bootstrap"))
    assert "Bootstrapping environment aws://222222222222/us-east-1..." in run.stdout


def test_the_set_up_for_developers_asks_for_no_root(person: Person, deployable: Path) -> None:
    # It comes as far as the package index, which is not there.
    run = person.run(
        "scripts/setup", "dev", cwd=deployable, variables={"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": ""}
    )
    assert run.returncode == 1
    assert run.stderr.splitlines()[-1].startswith("setup: pip could not install requirements-dev.txt")


def test_a_wrong_environment_is_one_line_of_synth(person: Person, deployable: Path) -> None:
    run = person.run("scripts/synth", "nowhere", cwd=deployable)
    assert (run.returncode, run.stdout, run.stderr.count("\n")) == (2, "", 1)
    assert "known environments: dev, local, prod" in run.stderr


def test_synth_before_the_set_up_says_what_to_run(person: Person) -> None:
    copy = person.folder / "fresh"
    shutil.copytree(REPOSITORY / "scripts", copy / "scripts")
    run = person.run("scripts/synth", "dev", cwd=copy)
    assert (run.returncode, run.stderr) == (1, "synth: .venv is missing; run scripts/setup deploy first.\n")
