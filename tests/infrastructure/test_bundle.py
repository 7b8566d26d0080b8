"""The functions' bundle: the same bytes from the same inputs, only what runs, for the right machine."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import boto3
import pytest

from stacks.constructs.local_bundling import (
    AWS_SERVICES,
    KEPT_BUNDLES,
    Bundle,
    BundlingError,
    Target,
    bundle_functions,
)

REPOSITORY = Path(__file__).resolve().parents[2]
LAMBDA_UNZIPPED_LIMIT_MIB = 250


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A package with a locally built wheel as its only dependency, so that no package index is asked."""
    wheel = tmp_path / "wheels" / "dependency-1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("dependency/__init__.py", "VALUE = 1\n")
        archive.writestr("dependency/__init__.pyi", "VALUE: int\n")
        archive.writestr("dependency/tests/test_dependency.py", "")
        archive.writestr(
            "dependency-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: dependency\nVersion: 1.0\n"
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
    (functions / "requirements.txt").write_text(f"{wheel}\n")
    (functions / "constraints.txt").write_text("dependency==1.0\n")
    return functions


def bundled(sources: Path, builds: Path, target: Target | None = None) -> Bundle:
    return bundle_functions(
        target,
        packages=[sources / "peaker"],
        requirements=sources / "requirements.txt",
        constraints=sources / "constraints.txt",
        builds=builds,
    )


def names(bundle: Path) -> list[str]:
    with zipfile.ZipFile(bundle) as archive:
        return archive.namelist()


def test_bundle_has_code_and_dependencies_but_nothing_that_never_runs(sources: Path, tmp_path: Path) -> None:
    bundle = bundled(sources, tmp_path / "builds", Target.this_machine())
    assert names(bundle.path) == [
        "peaker/__init__.py",
        "dependency/__init__.py",
        "dependency-1.0.dist-info/METADATA",
        "dependency-1.0.dist-info/WHEEL",
        "dependency-1.0.dist-info/entry_points.txt",
    ]


def test_two_builds_are_the_same_bytes(sources: Path, tmp_path: Path) -> None:
    first = bundled(sources, tmp_path / "first", Target.this_machine())
    (sources / "peaker" / "__pycache__").mkdir()
    (sources / "peaker" / "__pycache__" / "x.pyc").write_bytes(b"differs")
    second = bundled(sources, tmp_path / "second", Target.this_machine())
    assert first.digest == second.digest
    assert first.path.read_bytes() == second.path.read_bytes()


def test_bundle_is_built_once(sources: Path, tmp_path: Path) -> None:
    first = bundled(sources, tmp_path)
    built_at = first.path.stat().st_mtime_ns
    assert bundled(sources, tmp_path).path.stat().st_mtime_ns == built_at


def test_changed_code_is_another_bundle(sources: Path, tmp_path: Path) -> None:
    before = bundled(sources, tmp_path)
    (sources / "peaker" / "__init__.py").write_text("CHANGED = True\n")
    assert bundled(sources, tmp_path).digest != before.digest


def test_another_target_is_another_bundle() -> None:
    assert Target.aws_lambda().identity != Target.this_machine().identity


def test_missing_wheel_says_which_and_for_what(sources: Path, tmp_path: Path) -> None:
    (sources / "requirements.txt").write_text("--no-index\nno-such-package==1.0\n")
    with pytest.raises(BundlingError, match=r"for Python 3.13 manylinux.*no-such-package==1.0") as refusal:
        bundled(sources, tmp_path / "builds", Target.aws_lambda())
    assert "needs a wheel for that platform" in str(refusal.value)
    assert list((tmp_path / "builds").iterdir()) == []


def test_dependency_that_is_not_pinned_is_refused(sources: Path, tmp_path: Path) -> None:
    (sources / "constraints.txt").write_text("dependency>=1.0\n")
    with pytest.raises(BundlingError, match=r"constraints.txt does not pin dependency-1.0: add them"):
        bundled(sources, tmp_path / "builds", Target.this_machine())


def test_old_bundles_are_forgotten(sources: Path, tmp_path: Path) -> None:
    for version in range(KEPT_BUNDLES + 2):
        (sources / "peaker" / "__init__.py").write_text(f"VERSION = {version}\n")
        newest = bundled(sources, tmp_path / "builds")
    kept = list((tmp_path / "builds").glob("*.zip"))
    assert len(kept) == KEPT_BUNDLES
    assert newest.path in kept


def test_real_bundle_fits_lambda_and_stands_alone(tmp_path: Path) -> None:
    """With this machine's wheels, since those for arm64 cannot run here, and without its site-packages."""
    bundle = bundle_functions(Target.this_machine())
    with zipfile.ZipFile(bundle.path) as archive:
        unzipped_bytes = sum(entry.file_size for entry in archive.infolist())
        archive.extractall(tmp_path)
    assert unzipped_bytes < LAMBDA_UNZIPPED_LIMIT_MIB * 2**20
    program = (
        "import sys; sys.path.insert(0, '.')\n"
        "import boto3, numpy, jmespath\n"
        "from aws_lambda_powertools import Logger, Metrics\n"
        "from aws_lambda_powertools.utilities.parser import parse\n"
        "from peaker_contract.cluster import ClusterSettings\n"
        f"for service in {sorted(AWS_SERVICES)}: boto3.client(service, region_name='eu-west-1')\n"
        "print(boto3.__version__)\n"
        "print(numpy.linalg.lstsq(numpy.eye(2), numpy.ones(2), rcond=None)[0])\n"
    )
    outcome = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert outcome.stdout == f"{boto3.__version__}\n[1. 1.]\n", outcome.stderr


def test_the_bundle_keeps_the_description_of_every_service_that_the_functions_call() -> None:
    sources = (REPOSITORY / "functions" / "peaker").rglob("*.py")
    called = {name for path in sources for name in re.findall(r'lazy_client\("(\w+)"', path.read_text())}
    assert called == AWS_SERVICES
