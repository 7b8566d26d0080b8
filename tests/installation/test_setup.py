"""`scripts/setup` as a person without root, apt-get or GNU tools in what git hands out; then synth and `cdk`."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from environments import reference
from tests.installation.conftest import UNPACKED_CDK, Person, copy_checkout
from tests.installation.wheelhouse import REPOSITORY, give_byte_code

pytestmark = pytest.mark.timeout(900)


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


def test_then_the_templates_are_written_and_the_commands_are_there(person: Person, deployable: Path) -> None:
    synth = person.run("scripts/synth", "dev", cwd=deployable)
    assert (synth.returncode, synth.stdout) == (0, f"{deployable}/cdk.out/dev\n"), synth.stderr
    assert len(list((deployable / "cdk.out" / "dev").glob("assembly-Peaker-dev/*.template.json"))) == 4
    # What was written, not app.py again: test_cdk_command.py has that.
    stacks = person.run("npx", "cdk", "ls", "--app", "cdk.out/dev", "**", cwd=deployable)
    assert [line.split()[0] for line in stacks.stdout.splitlines()] == [
        "Peaker-dev/State",
        "Peaker-dev/ControlPlane",
        "Peaker-dev/Observability",
        "Peaker-dev/orders",
    ], stacks.stderr
    version = person.run(".venv/bin/peaker", "--version", cwd=deployable)
    assert version.stdout.startswith("peaker "), version.stderr


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
