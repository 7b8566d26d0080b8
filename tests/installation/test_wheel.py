"""The wheel: a person without root installs it in an empty environment and uses `peaker` far from any checkout."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcloud.server import LocalCloud
from tests.installation.conftest import Person, copy_checkout
from tests.installation.copies import REPOSITORY, copy_installed

TRACE = REPOSITORY / "data" / "traces" / "nab_elb_requests.csv"
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, so that nothing of an earlier build gets in."""
    source = copy_checkout(tmp_path_factory.mktemp("source"))
    output = tmp_path_factory.mktemp("wheel")
    options = [
        "-q",
        "--no-deps",
        "--no-index",
        "--no-build-isolation",
        "--disable-pip-version-check",
        "--wheel-dir",
    ]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, str(output), str(source)], check=True)
    [built] = output.glob("peaker-*.whl")
    return built


@pytest.fixture(scope="module")
def peaker(person: Person, wheel: Path) -> str:
    """The installed command, beside what the wheel requires."""
    shared = person.folder / wheel.name
    shared.write_bytes(wheel.read_bytes())
    made = person.run("python3", "-m", "venv", "environment")
    assert made.returncode == 0, made.stderr
    [packages] = (person.folder / "environment" / "lib").glob("python*/site-packages")
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    copy_installed(packages, *project["dependencies"])
    person.give(packages)
    pip = str(person.folder / "environment" / "bin" / "pip")
    installed = person.run(pip, "install", "-q", "--no-index", "--no-compile", str(shared))
    assert installed.returncode == 0, installed.stderr
    return str(person.folder / "environment" / "bin" / "peaker")


def test_every_package_and_page_is_in_it_and_nothing_of_the_checkout_alone(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    packages = (
        ("functions", "peaker"),
        (".", "peaker_contract"),
        ("cli", "peaker_backtest"),
        ("host", "peaker_host"),
        ("cli", "peaker_cli"),
        ("cli", "peaker_pages"),
    )
    for root, package in packages:
        sources = (REPOSITORY / root / package).rglob("*")
        wanted = {path.relative_to(REPOSITORY / root).as_posix() for path in sources if path.is_file()}
        assert {name for name in wanted if "__pycache__" not in name} <= names
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {package for _, package in packages}


def test_version_and_help(person: Person, peaker: str) -> None:
    version = person.run(peaker, "--version")
    assert (version.returncode, version.stdout.split()[0]) == (0, "peaker")
    shown = person.run(peaker, "--help")
    assert shown.returncode == 0, shown.stderr
    for command in ("backtest", "plan", "receipt", "knee", "register-base"):
        assert command in shown.stdout


def test_a_backtest_of_a_trace_ends_in_a_page(person: Person, peaker: str) -> None:
    trace = person.folder / TRACE.name
    trace.write_bytes(TRACE.read_bytes())
    run = person.run(
        peaker, "backtest", str(trace), "--days", "2", "--html", "page.html", "--json", "report.json"
    )
    assert run.returncode == 0, run.stderr
    assert "<html" in (person.folder / "page.html").read_text(encoding="utf-8")
    assert json.loads((person.folder / "report.json").read_text(encoding="utf-8"))["policies"]


def test_a_picture_without_matplotlib_is_one_line_that_names_the_extra(person: Person, peaker: str) -> None:
    run = person.run(peaker, "knee", "/dev/null", "--plot", "knee.png")
    assert (run.returncode, run.stdout) == (1, "")
    assert (
        run.stderr == "peaker: --plot needs matplotlib, which is not installed: pip install 'peaker[plot]'\n"
    )


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    with LocalCloud(None, tmp_path_factory.mktemp("cloud")) as running:
        yield running


def test_a_plan_asks_the_local_cloud_and_says_what_is_not_there(
    person: Person, peaker: str, cloud: LocalCloud
) -> None:
    run = person.run(peaker, "plan", "orders", "--endpoint", cloud.endpoint_url)
    assert (run.returncode, run.stdout) == (1, "")
    said, error = run.stderr.splitlines()
    assert said == "peaker: environment local (a local cloud's), region us-east-1 (a local cloud's)"
    assert error.startswith(
        "peaker: no state machine peaker-local-scale_out (there are: none) of environment local"
    )
    assert "npx cdk deploy -c env=local '**'" in error


def test_nothing_is_assumed_where_nothing_is_named(person: Person, peaker: str) -> None:
    run = person.run(peaker, "runs", "orders")
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == "peaker: which environment? Give --env, e.g. --env prod, or set PEAKER_ENV\n"


def test_bash_completes_commands_and_options(person: Person, peaker: str) -> None:
    script = person.run("bash", "-c", f"{peaker} --show-completion bash", variables=_WITHOUT_DETECTION)
    assert "complete" in script.stdout, script.stderr
    completed = f"""
        PATH={Path(peaker).parent}:$PATH
        eval "$1"
        for words in 'peaker back' 'peaker plan --prof'; do
            read -r -a COMP_WORDS <<< "$words"
            COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
            COMPREPLY=()
            _peaker_completion peaker
            echo "${{COMPREPLY[@]}}"
        done
    """
    run = person.run("bash", "-c", completed, "bash", script.stdout)
    assert run.stdout.split() == ["backtest", "--profile"], run.stderr


def test_completion_installs_itself_for_the_shell_of_the_person(person: Person, peaker: str) -> None:
    run = person.run("bash", "-c", f"{peaker} --install-completion bash", variables=_WITHOUT_DETECTION)
    assert run.returncode == 0, run.stderr
    assert "peaker" in (person.folder / ".bashrc").read_text(encoding="utf-8")


# Typer asks the process table for the parent's name, which no container promises; with this it is given by name.
_WITHOUT_DETECTION = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
