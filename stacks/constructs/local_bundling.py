"""The functions' code as one reproducible zip, made with pip alone: no Docker, no compiler.

Dependencies come from functions/requirements.txt, which names every distribution with the hashes of its files, as
wheels for the platform that will run them. What differs between two builds is removed (scripts with the builder's
interpreter path, pip's records), and so is what never runs in a function (tests, type stubs, headers, and botocore's
descriptions of services that the functions do not call).
The byte code is in it, since Lambda's file system is read-only and each cold start would compile again. The target's
own Python makes it: another one's would be ignored. Where this machine has none the bundle has no byte code, works as
well, and is said to be slower to start.
The zip's name is the hash of its inputs, so that an unchanged bundle is never built twice. Equal inputs give equal
bytes, wherever, whenever and by whomever they were checked out; the version of the compiling Python is an input.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGES = (REPOSITORY / "functions" / "peaker", REPOSITORY / "peaker_contract")
LAMBDA_PLATFORMS = ("manylinux_2_28_aarch64", "manylinux2014_aarch64")  # Amazon Linux 2023 has glibc 2.34
LAMBDA_PYTHON = "3.13"
LAMBDA_DIRECTORY = "/var/task"
# Changed whenever what follows would make another zip from the same inputs.
BUNDLE_FORMAT = "6"
# botocore describes 400 services; these are the ones that the functions call.
AWS_SERVICES = frozenset(
    {
        "cloudwatch",
        "dynamodb",
        "ebs",
        "ec2",
        "events",
        "elbv2",
        "kms",
        "pricing",
        "route53",
        "s3",
        "service-quotas",
        "sns",
        "ssm",
        "stepfunctions",
    }
)
# Older bundles than this many are forgotten; a second synth at the same time still finds its own.
KEPT_BUNDLES = 8

_UNUSED_DIRECTORIES = {"__pycache__", "bin", "tests"}
_UNUSED_SUFFIXES = {".pyc", ".pyi", ".c", ".h", ".pxd", ".a"}
_BUILDER_RECORDS = {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"}
_EARLIEST_ZIP_TIME = (1980, 1, 1, 0, 0, 0)


class BundlingError(Exception):
    """The bundle cannot be made; the message says what was run and what to do."""


@dataclass(frozen=True)
class Target:
    """The Python and platform that will run the bundle; without platforms: this machine."""

    python: str
    platforms: tuple[str, ...] = ()

    @classmethod
    def aws_lambda(cls) -> Target:
        return cls(LAMBDA_PYTHON, LAMBDA_PLATFORMS)

    @classmethod
    def this_machine(cls) -> Target:
        return cls(f"{sys.version_info.major}.{sys.version_info.minor}")

    @property
    def identity(self) -> str:
        return f"{self.python} {' '.join(self.platforms) or platform.machine()}"


def target_of(is_local: bool) -> Target:
    """Returns the target of an environment's functions: this machine for the local cloud, else AWS Lambda."""
    return Target.this_machine() if is_local else Target.aws_lambda()


def bundle_functions(
    target: Target | None,
    *,
    packages: Sequence[Path] = PACKAGES,
    requirements: Path = REPOSITORY / "functions" / "requirements.txt",
    builds: Path = REPOSITORY / "build" / "bundles",
) -> Path:
    """Zip the packages with their dependencies; without a target, the packages alone (for template tests).

    The zip's name is the hash of its inputs.

    Raises BundlingError when pip finds no wheel for the target, or one whose hash the requirements do not have.
    """
    code = _digest(*(f"{package.name} {_digest_of_tree(package)}" for package in packages))
    compiler = compiler_for(target.python) if target else None
    # What is stripped belongs to it: an upgrade that calls one more service needs its model.
    made_of = (
        "sources"
        if target is None
        else _digest(
            target.identity,
            compiler.version if compiler else "no byte code",
            requirements.read_text(encoding="utf-8"),
            *sorted(AWS_SERVICES),
        )
    )
    bundle = builds / f"{_digest(made_of, code)}.zip"
    if bundle.is_file():
        return bundle
    builds.mkdir(parents=True, exist_ok=True)
    if target is None:
        _write_zip([(package, f"{package.name}/") for package in packages], bundle)
    else:
        if compiler is None:
            print(
                f"no python{target.python} on the PATH: the functions' bundle has no byte code, and each cold start "
                f"takes about a second longer; install Python {target.python} and synthesise again",
                file=sys.stderr,
            )
        dependencies = builds / f"dependencies-{made_of}"
        if not dependencies.is_dir():
            _install(requirements, target, compiler, dependencies)
        with tempfile.TemporaryDirectory(prefix="compiling-", dir=builds) as staging:
            own = _copied(packages, Path(staging))
            _compile(own, compiler)
            _write_zip([(own, ""), (dependencies, "")], bundle)
    _forget_old(builds)
    return bundle


@dataclass(frozen=True)
class Compiler:
    """A Python that makes byte code, and its full version."""

    path: str
    version: str


def compiler_for(python: str) -> Compiler | None:
    """The Python of that version: this one, else `python<version>` of the PATH, else None."""
    for candidate in (sys.executable, shutil.which(f"python{python}")):
        if candidate is None:
            continue
        answer = subprocess.run(
            [
                candidate,
                "-I",
                "-c",
                "import platform as p; print(p.python_implementation(), p.python_version())",
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        version = answer.stdout.strip()
        if answer.returncode == 0 and version.startswith(f"CPython {python}."):
            return Compiler(candidate, version)
    return None


def _copied(packages: Sequence[Path], destination: Path) -> Path:
    for package in packages:
        for name, path in _files(package):
            copy = destination / package.name / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
    return destination


def _compile(tree: Path, compiler: Compiler | None) -> None:
    """Byte code beside each source, taken without a look at the source; the same bytes wherever `tree` is.

    The order of a set's constants hangs on the seed of hashes. Raises BundlingError for a source that does not compile.
    """
    if compiler is None:
        return
    command = [compiler.path, "-m", "compileall", "-q", "-f", "--invalidation-mode", "unchecked-hash"]
    command += ["-s", str(tree), "-p", LAMBDA_DIRECTORY, str(tree)]
    outcome = subprocess.run(
        command,
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    if outcome.returncode != 0:
        raise BundlingError(f"{' '.join(command)}: {(outcome.stdout + outcome.stderr).strip()[-2000:]}")


def distributions_in(bundle: Path) -> list[Distribution]:
    """Lists the distributions that pip put into the zip, by name."""
    found = distributions(path=[str(bundle)])
    return sorted(found, key=lambda one: one.name.lower())


def _install(requirements: Path, target: Target, compiler: Compiler | None, destination: Path) -> None:
    print(
        f"fetching what the functions need for Python {target.identity}, once; a minute or more",
        file=sys.stderr,
    )
    staging = Path(tempfile.mkdtemp(prefix="installing-", dir=destination.parent))
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    # It goes into a folder of its own: a comparison with what this environment has would be half of pip's time.
    command += ["--no-compile", "--no-warn-conflicts"]
    command += ["--only-binary=:all:", "--require-hashes", "--target", str(staging)]
    if target.platforms:
        command += ["--implementation", "cp", "--python-version", target.python]
        for name in target.platforms:
            command += ["--platform", name]
    command += ["--requirement", str(requirements)]
    try:
        outcome = subprocess.run(command, capture_output=True, text=True, check=False)
        if outcome.returncode != 0:
            reason = (outcome.stderr.strip() or outcome.stdout.strip())[-2000:]
            raise BundlingError(
                f"pip could not fetch {requirements.name} for Python {target.identity}: {reason}\n"
                "Each requirement needs a wheel for that platform; check the package index (pip config list). "
                "`make requirements` writes the hashes anew."
            )
        _strip(staging)
        _compile(staging, compiler)
        try:
            staging.rename(destination)
        except OSError:
            if not destination.is_dir():  # a synth at the same time may have been first
                raise
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _strip(tree: Path) -> None:
    for model in tree.glob("botocore/data/*/"):
        if model.is_dir() and model.name not in AWS_SERVICES:
            shutil.rmtree(model)
    for directory, names, files in os.walk(tree):
        for name in [name for name in names if name in _UNUSED_DIRECTORIES]:
            shutil.rmtree(Path(directory) / name)
            names.remove(name)
        for name in files:
            path = Path(directory) / name
            if path.suffix in _UNUSED_SUFFIXES or name in _BUILDER_RECORDS:
                path.unlink()


def _forget_old(builds: Path) -> None:
    by_age = sorted(builds.glob("*.zip"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in by_age[KEPT_BUNDLES:]:
        path.unlink(missing_ok=True)
        path.with_suffix(".cdx.json").unlink(missing_ok=True)


def _files(tree: Path, *, with_byte_code: bool = False) -> Iterator[tuple[str, Path]]:
    """(name in the zip, file), by name; without what editors and file managers leave (`.DS_Store`)."""
    named = ((path.relative_to(tree), path) for path in tree.rglob("*") if path.is_file())
    kept = (
        (name.as_posix(), path)
        for name, path in named
        if (with_byte_code or ("__pycache__" not in name.parts and path.suffix not in (".pyc", ".pyo")))
        and not name.name.startswith(".")
        and not name.name.endswith("~")
    )
    yield from sorted(kept)


def _digest_of_tree(tree: Path) -> str:
    digest = hashlib.sha256()
    for name, path in _files(tree):
        content = path.read_bytes()
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join((BUNDLE_FORMAT, *parts)).encode()).hexdigest()


def _write_zip(trees: list[tuple[Path, str]], destination: Path) -> None:
    handle, staging = tempfile.mkstemp(prefix="zipping-", suffix=".zip", dir=destination.parent)
    os.close(handle)
    try:
        with zipfile.ZipFile(staging, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
            for tree, prefix in trees:
                for name, path in _files(tree, with_byte_code=not prefix):
                    entry = zipfile.ZipInfo(f"{prefix}{name}", _EARLIEST_ZIP_TIME)
                    entry.compress_type = zipfile.ZIP_DEFLATED
                    entry.create_system = 3  # as on Unix, whoever zips
                    entry.external_attr = 0o100644 << 16
                    archive.writestr(entry, path.read_bytes())
        Path(staging).chmod(0o644)
        os.replace(staging, destination)
    finally:
        Path(staging).unlink(missing_ok=True)
