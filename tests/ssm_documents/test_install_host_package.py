"""The installer of the host package runs before the package exists, so it is tested as the shell it is."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ssm_documents.schema import load_document
from tests.support.downloads import CUT, Downloads, serving
from tests.support.old_pythons import TOO_OLD, python_of

DOCUMENT = Path(__file__).resolve().parents[2] / "ssm_documents" / "install_host_package.yaml"
SHELL = "\n".join(load_document(DOCUMENT)["mainSteps"][0]["inputs"]["runCommand"]) + "\n"
PLACE = "{% package_sha256 %}"
CONTENT = b"the package"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
# Read by Python before the program: the pauses are told and not slept through.
NO_SLEEP = (
    "import os, time\ntime.sleep = lambda seconds: open(os.environ['PAUSES'], 'a').write(f'{seconds}\\n')\n"
)


@pytest.fixture
def downloads() -> Iterator[Downloads]:
    with serving(CONTENT) as served:
        yield served


class Installation:
    """A host's /opt/peaker, and what was answered."""

    def __init__(self, root: Path, scratch: Path) -> None:
        self.root, self._scratch = root, scratch
        (scratch / "sitecustomize.py").write_text(NO_SLEEP)
        self.limit: Callable[[], None] | None = None
        self.search_path = os.environ["PATH"]

    def install(self, url: str, sha256: str = SHA256) -> tuple[int, dict[str, Any]]:
        done = subprocess.run(
            ["/bin/sh", "-c", SHELL.replace(PLACE, sha256)],
            env={
                "PATH": self.search_path,
                "PYTHONPATH": str(self._scratch),
                "PAUSES": str(self._scratch / "pauses"),
                "PEAKER_INSTALL_ROOT": str(self.root),
                "SSM_PackageUrl": url,
            },
            preexec_fn=self.limit,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout.splitlines()[-1])

    @property
    def pauses_seconds(self) -> list[int]:
        path = self._scratch / "pauses"
        return [int(line) for line in path.read_text().split()] if path.exists() else []


@pytest.fixture
def host(tmp_path: Path) -> Installation:
    (tmp_path / "scratch").mkdir()
    return Installation(tmp_path / "opt", tmp_path / "scratch")


def test_it_points_current_at_the_package_and_finds_it_the_second_time(
    host: Installation, downloads: Downloads
) -> None:
    named = {"version": 1, "command": "install_host_package", "ok": True, "sha256": SHA256}
    assert host.install(downloads.url) == (0, {**named, "installed": True})
    assert (host.root / "current" / "peaker_host.pyz").read_bytes() == CONTENT
    assert host.install(downloads.url) == (0, {**named, "installed": False})
    assert downloads.asked == 1


def test_a_damaged_installation_is_replaced(host: Installation, downloads: Downloads) -> None:
    host.install(downloads.url)
    (host.root / SHA256 / "peaker_host.pyz").write_bytes(b"half a pack")
    code, result = host.install(downloads.url)
    assert (code, result["installed"]) == (0, True)
    assert (host.root / "current" / "peaker_host.pyz").read_bytes() == CONTENT


def test_a_wrong_hash_leaves_nothing(host: Installation, downloads: Downloads) -> None:
    code, result = host.install(downloads.url, "0" * 64)
    assert (code, result["error"]) == (1, "PackageHashMismatch")
    assert not (host.root / "current").exists()


def test_an_unreachable_address_is_named_without_its_signature(host: Installation) -> None:
    code, result = host.install("http://127.0.0.1:9/p?X-Amz-Signature=secret")
    assert (code, result["error"]) == (1, "PackageNotFetched")
    assert "ConnectionRefusedError" in result["message"]
    assert "secret" not in json.dumps(result)


@pytest.mark.parametrize("first", [[429], [CUT, 503]])
def test_what_s3_wants_to_be_asked_again_is_asked_again(
    host: Installation, downloads: Downloads, first: list[int]
) -> None:
    """S3 was busy, or the connection was cut, while the first replica of a deployment got its package."""
    downloads.first = list(first)
    code, result = host.install(downloads.url)
    assert (code, result["installed"]) == (0, True)
    assert host.pauses_seconds == [1, 2][: len(first)]


@pytest.mark.parametrize(("status", "told"), [(503, "HTTPError 503"), (CUT, "IncompleteRead")])
def test_after_five_tries_the_last_answer_is_told(
    host: Installation, downloads: Downloads, status: int, told: str
) -> None:
    downloads.first = [status] * 5
    code, result = host.install(downloads.url)
    assert (code, result["error"]) == (1, "PackageNotFetched")
    assert told in result["message"]
    assert "secret" not in json.dumps(result)
    assert (downloads.asked, host.pauses_seconds) == (5, [1, 2, 4, 8])


@pytest.mark.parametrize("status", [403, 404])
def test_an_address_that_is_good_no_more_is_not_asked_again(
    host: Installation, downloads: Downloads, status: int
) -> None:
    downloads.first = [status]
    code, result = host.install(downloads.url)
    assert (code, result["error"]) == (1, "PackageNotFetched")
    assert f"HTTPError {status}" in result["message"]
    assert downloads.asked == 1


def test_a_disk_that_takes_no_more_is_told_and_nothing_is_left_on_it(
    host: Installation, downloads: Downloads
) -> None:
    host.limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (len(CONTENT) - 1,) * 2)
    code, result = host.install(downloads.url)
    assert (code, result["error"]) == (1, "PackageNotInstalled")
    assert "OSError: File too large" in result["message"]
    assert [path for path in host.root.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("version", TOO_OLD)
def test_a_python_that_is_too_old_is_told_before_anything_is_fetched(
    host: Installation, downloads: Downloads, tmp_path: Path, version: str
) -> None:
    """The distribution's own: the package came, and the first command that met a newer word of Python failed."""
    found = tmp_path / "bin"
    found.mkdir()
    (found / "python3").symlink_to(python_of(version))
    host.search_path = f"{found}:/usr/bin:/bin"
    code, result = host.install(downloads.url)
    assert (code, result["error"]) == (1, "PythonTooOld")
    assert f"is {version}." in result["message"]
    assert f"({found}/python3); 3.9 or newer is needed" in result["message"]
    assert downloads.asked == 0
    assert not host.root.exists()


def test_the_oldest_python_we_support_installs(
    host: Installation, downloads: Downloads, tmp_path: Path
) -> None:
    found = tmp_path / "bin"
    found.mkdir()
    (found / "python3").symlink_to(python_of("3.9"))
    host.search_path = f"{found}:/usr/bin:/bin"
    assert host.install(downloads.url)[1]["ok"] is True
