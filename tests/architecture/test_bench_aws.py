"""What `make bench-aws` takes from the tests is there, so that hours are not spent on a part that cannot run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bench import aws


def test_the_proof_is_asked_about_volumes_of_every_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(aws, "VOLUMES_OF_A_KIND", 1)
    assert aws.volumes(None) == {
        "warm verdicts, 5 volumes with cold blocks": {"value": 0, "must": 0, "holds": True}
    }


@pytest.fixture
def checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A checkout with one test, which fails."""
    named = tmp_path / "tests" / "hosts" / "test_quota.py"
    named.parent.mkdir(parents=True)
    named.write_text("def test_one_more():\n    print('asked')\n    raise RuntimeError('1920 are in use')\n")
    monkeypatch.setattr(aws, "ROOT", tmp_path)
    monkeypatch.setattr(aws, "RESULT", tmp_path / "build" / "bench" / "aws.json")
    return tmp_path


def test_a_case_that_fails_is_told_with_its_reason_and_its_output_stays(checkout: Path) -> None:
    [told] = aws.broken(["tests/hosts/test_quota.py"])
    assert told == "tests.hosts.test_quota::test_one_more: RuntimeError: 1920 are in use"
    assert "asked" in (checkout / "build" / "bench" / "logs" / "behaviours-hosts.log").read_text()


@pytest.mark.usefixtures("checkout")
def test_a_test_that_is_not_there_is_none_that_passes() -> None:
    """Pytest runs none of the others then either, and its report has no failure."""
    [told] = aws.broken(["tests/hosts/test_quota.py::test_renamed"])
    assert told.startswith("hosts: pytest ended with 4, see ")


@pytest.mark.usefixtures("checkout")
def test_tests_that_cannot_be_run_are_none_that_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    [told] = aws.broken(["tests/hosts/test_quota.py"])
    assert told.startswith("hosts: pytest ended with 1, see ")
