"""The functions' bundle: the same bytes from the same inputs, only what runs, for the right machine."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import boto3
import pytest

from stacks.constructs.local_bundling import (
    AWS_SERVICES,
    KEPT_BUNDLES,
    BundlingError,
    Target,
    bundle_functions,
    distributions_in,
)
from tests.infrastructure.conftest import bundled

REPOSITORY = Path(__file__).resolve().parents[2]
LAMBDA_UNZIPPED_LIMIT_MIB = 250


def plain(requirement: str) -> str:
    return re.sub(r"[-_.]+(?=.*==)", "-", requirement).lower()


def locked(requirements: Path) -> set[str]:
    """name==version of each distribution that a file of hashed requirements names."""
    return {plain(one) for one in re.findall(r"^([\w.-]+==[^ ;\\]+)", requirements.read_text(), re.MULTILINE)}


def names(bundle: Path) -> list[str]:
    with zipfile.ZipFile(bundle) as archive:
        return archive.namelist()


def test_bundle_has_code_and_dependencies_but_nothing_that_never_runs(sources: Path, tmp_path: Path) -> None:
    bundle = bundled(sources, tmp_path / "builds", Target.this_machine())
    assert names(bundle) == [
        "peaker/__init__.py",
        f"peaker/__pycache__/__init__.{sys.implementation.cache_tag}.pyc",
        "dependency-1.0.dist-info/METADATA",
        "dependency-1.0.dist-info/WHEEL",
        "dependency-1.0.dist-info/entry_points.txt",
        "dependency/__init__.py",
        f"dependency/__pycache__/__init__.{sys.implementation.cache_tag}.pyc",
    ]


def checked_out_by_somebody_else(sources: Path, destination: Path) -> Path:
    """The same files in another place, written in another order at another time, readable by their owner alone; and
    what a run of them, an editor and a file manager leave beside them."""
    before = os.umask(0o077)
    try:
        for source in sorted(sources.rglob("*"), reverse=True):
            if source.is_file() and "__pycache__" not in source.parts:
                copy = destination / source.relative_to(sources)
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(source.read_bytes())
                os.utime(copy, (86_400, 86_400))
    finally:
        os.umask(before)
    package = destination / "peaker"
    if package.is_dir():
        (package / "__pycache__").mkdir()
        for name in ("__pycache__/x.pyc", "x.pyc", ".DS_Store", ".__init__.py.swp", "__init__.py~"):
            (package / name).write_bytes(b"differs")
    return destination


def test_two_checkouts_make_the_same_bundle_of_the_same_bytes(
    sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = bundled(sources, tmp_path / "first", Target.this_machine())
    elsewhere = checked_out_by_somebody_else(sources, tmp_path / "elsewhere" / "functions")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    before = os.umask(0o077)
    try:
        second = bundled(elsewhere, tmp_path / "second", Target.this_machine())
    finally:
        os.umask(before)
    assert first.name == second.name
    assert first.read_bytes() == second.read_bytes()


def test_the_byte_code_is_taken_without_a_look_at_the_source(sources: Path, tmp_path: Path) -> None:
    """Lambda's file system is read-only: a cold start that compiled would do so every time."""
    (sources / "peaker" / "__init__.py").write_text("ANSWER = {'one', 'two'} and 42\n")
    with zipfile.ZipFile(bundled(sources, tmp_path / "builds", Target.this_machine())) as archive:
        archive.extractall(tmp_path / "task")
    (tmp_path / "task" / "peaker" / "__init__.py").write_text("raise SystemExit('compiled')\n")
    program = "import sys; sys.path.insert(0, sys.argv[1]); import peaker; print(peaker.ANSWER)"
    answer = subprocess.check_output([sys.executable, "-I", "-c", program, tmp_path / "task"], text=True)
    assert answer == "42\n"


def test_without_the_targets_python_the_bundle_has_no_byte_code_and_says_so(
    sources: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = bundled(sources, tmp_path / "builds", Target("3.99"))
    assert not [name for name in names(bundle) if name.endswith(".pyc")]
    assert "no python3.99 on the PATH: the functions' bundle has no byte code" in capsys.readouterr().err


def test_two_checkouts_make_the_same_host_package(tmp_path: Path) -> None:
    def package(host: Path) -> bytes:
        made = importlib.util.spec_from_file_location("builder", host / "build_package.py")
        assert made is not None
        assert made.loader is not None
        builder = importlib.util.module_from_spec(made)
        made.loader.exec_module(builder)
        return bytes(builder.package_bytes())

    assert package(checked_out_by_somebody_else(REPOSITORY / "host", tmp_path)) == package(
        REPOSITORY / "host"
    )


def test_changed_code_is_another_bundle(sources: Path, tmp_path: Path) -> None:
    before = bundled(sources, tmp_path)
    (sources / "peaker" / "__init__.py").write_text("CHANGED = True\n")
    assert bundled(sources, tmp_path) != before


def test_missing_wheel_says_which_and_for_what(sources: Path, tmp_path: Path) -> None:
    (sources / "requirements.txt").write_text(f"no-such-package==1.0 --hash=sha256:{'0' * 64}\n")
    with pytest.raises(BundlingError, match=r"for Python 3.13 manylinux.*no-such-package==1.0") as refusal:
        bundled(sources, tmp_path / "builds", Target.aws_lambda())
    assert "needs a wheel for that platform" in str(refusal.value)
    assert list((tmp_path / "builds").iterdir()) == []


def swap_the_wheel(sources: Path) -> None:
    [wheel] = (sources.parent / "wheels").glob("*.whl")
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("dependency/added.py", "print('not what was locked')\n")


def forget_the_hash(sources: Path) -> None:
    (sources / "requirements.txt").write_text("dependency==1.0\n")


def forget_what_it_needs(sources: Path) -> None:
    [wheel] = (sources.parent / "wheels").glob("*.whl")
    metadata = "Metadata-Version: 2.1\nName: dependency\nVersion: 1.0\nRequires-Dist: another\n"
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("dependency-1.0.dist-info/METADATA", metadata)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    (sources / "requirements.txt").write_text(f"dependency==1.0 --hash=sha256:{digest}\n")


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    ("what_happens", "told"),
    [
        (swap_the_wheel, "DO NOT MATCH THE HASHES"),
        (forget_the_hash, "Hashes are required"),
        (forget_what_it_needs, "another"),
    ],
)
def test_a_dependency_whose_hash_is_not_the_locked_one_is_refused(
    sources: Path, tmp_path: Path, what_happens: Callable[[Path], None], told: str
) -> None:
    what_happens(sources)
    with pytest.raises(BundlingError, match=f"(?s){told}.*`make requirements` writes the hashes anew"):
        bundled(sources, tmp_path / "builds", Target.this_machine())
    assert list((tmp_path / "builds").iterdir()) == []


def test_old_bundles_are_forgotten(sources: Path, tmp_path: Path) -> None:
    for version in range(KEPT_BUNDLES + 2):
        (sources / "peaker" / "__init__.py").write_text(f"VERSION = {version}\n")
        newest = bundled(sources, tmp_path / "builds")
    kept = list((tmp_path / "builds").glob("*.zip"))
    assert len(kept) == KEPT_BUNDLES
    assert newest in kept


def test_real_bundle_fits_lambda_and_stands_alone(tmp_path: Path) -> None:
    """With this machine's wheels, since those for arm64 cannot run here, and without its site-packages."""
    bundle = bundle_functions(Target.this_machine())
    with zipfile.ZipFile(bundle) as archive:
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
        "import zoneinfo; zoneinfo.reset_tzpath(()); zoneinfo.ZoneInfo('Europe/Berlin')\n"
        "print(boto3.__version__)\n"
        "print(numpy.linalg.lstsq(numpy.eye(2), numpy.ones(2), rcond=None)[0])\n"
    )
    contained = {plain(f"{one.name}=={one.version}") for one in distributions_in(bundle)}
    assert contained == locked(REPOSITORY / "functions" / "requirements.txt")
    assert f"boto3=={boto3.__version__}" in contained
    outcome = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert outcome.stdout == f"{boto3.__version__}\n[1. 1.]\n", outcome.stderr


def test_the_bundle_keeps_the_description_of_every_service_that_the_functions_call() -> None:
    sources = (REPOSITORY / "functions" / "peaker").rglob("*.py")
    called = {
        name for path in sources for name in re.findall(r'\b(?:lazy_)?client\("([\w-]+)"', path.read_text())
    }
    assert called == AWS_SERVICES
