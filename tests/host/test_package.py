"""The package: same bytes from same sources, runs on the oldest Python, needs nothing installed."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import build_package
import pytest
from peaker_host import cli
from peaker_host.machine.errors import InvalidHostSettings
from peaker_host.machine.settings import Settings, load_settings

from tests.support.old_pythons import TOO_OLD, python_of

HOST = build_package.PACKAGE.parent
SOURCES = sorted(build_package.PACKAGE.rglob("*.py"))


def run(package: Path, *arguments: str, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, "-I", str(package), *arguments],
        cwd="/",
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("package") / "peaker_host.pyz"
    build_package.build(path)
    return path


def test_two_builds_give_the_same_bytes_and_the_hash_is_theirs(tmp_path: Path) -> None:
    first = build_package.build(tmp_path / "a.pyz")
    for source in SOURCES[:3]:
        os.utime(source)
    assert build_package.build(tmp_path / "b.pyz") == first
    assert (tmp_path / "a.pyz").read_bytes() == (tmp_path / "b.pyz").read_bytes()


def test_it_holds_every_source_and_nothing_else(package: Path) -> None:
    with zipfile.ZipFile(package) as archive:
        names = archive.namelist()
    assert names == ["__main__.py"] + [path.relative_to(HOST).as_posix() for path in SOURCES]


def test_every_command_has_help_with_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (one.name for one in cli.COMMANDS):
        with pytest.raises(SystemExit, match="0"):
            cli.main([command, "--help"])
        assert f"Example: peaker_host.pyz {command}" in capsys.readouterr().out


def test_sources_are_python_3_9_and_import_only_the_standard_library() -> None:
    imported = set()
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(), str(path), feature_version=(3, 9))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add((node.module or "").split(".")[0])
    assert imported <= set(sys.stdlib_module_names) | {"peaker_host"}


@pytest.mark.parametrize("version", TOO_OLD)
def test_on_a_python_that_is_too_old_every_command_says_so(package: Path, version: str) -> None:
    """3.8 ran most of them, and had no F_OFD_GETLK when the prewarm began, an hour into the run."""
    done = run(package, "report_prewarm", "--run-id", "r", python=str(python_of(version)))
    result = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, result["ok"], result["error"]) == (1, False, "PythonTooOld")
    assert (result["version"], result["command"]) == (1, "report_prewarm")
    assert f"is {version}." in result["message"]


def test_it_runs_on_python_3_9_when_there_is_one(package: Path) -> None:
    done = run(package, "assemble_storage", "--run-id", "r", "--volumes", "[]", python=str(python_of("3.9")))
    assert json.loads(done.stdout.splitlines()[-1])["error"] == "InvalidArgument", done.stderr


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["report_prewarm", "--run-id", "a b"], "--run-id"),
        (["start_database", "--run-id", "r", "--server-id", "0"], "--server-id"),
        (["start_prewarm", "--run-id", "r", "--background-rate-mib-per-s", "-1"], "--background-rate"),
        (["start_replication", "--run-id", "r", "--source-host", "a;b"], "--source-host"),
        (["verify_storage", "--run-id", "r", "--sample-blocks", "-1"], "--sample-blocks"),
        (["verify_storage", "--run-id", "r", "--await-ratio-limit", "nan"], "--await-ratio-limit"),
    ],
)
def test_a_wrong_argument_gives_a_result_line_that_names_it(
    capsys: pytest.CaptureFixture[str], arguments: list[str], named: str
) -> None:
    code = cli.main(arguments)
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (code, result["ok"], result["error"]) == (1, False, "InvalidArgument")
    assert named in result["message"]


def test_an_unexpected_failure_also_gives_a_result_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("peaker_host.warm.control.report", lambda *_: 1 / 0)
    settings = tmp_path / "none.json"
    assert cli.main(["--settings", str(settings), "report_prewarm", "--run-id", "r"]) == 1
    result = json.loads(capsys.readouterr().out)
    assert (result["error"], result["command"]) == ("UnexpectedError", "report_prewarm")


class TestSettings:
    def test_a_missing_file_means_the_defaults(self, tmp_path: Path) -> None:
        assert load_settings(str(tmp_path / "none")) == Settings()

    def test_known_fields_are_taken(self, tmp_path: Path) -> None:
        path = tmp_path / "host.json"
        path.write_text('{"engine": "mariadb", "health_port": 9300}')
        settings = load_settings(str(path))
        assert (settings.engine, settings.health_port, settings.mysql_service) == ("mariadb", 9300, "mysql")

    @pytest.mark.parametrize(
        ("text", "named"),
        [
            ("{", "host.json"),
            ("[]", "one JSON object"),
            ('{"engin": "mysql"}', "engin"),
            ('{"health_port": "9300"}', "health_port"),
            ('{"engine": "postgres"}', "engine must be one of"),
        ],
    )
    def test_a_wrong_file_names_the_field(self, tmp_path: Path, text: str, named: str) -> None:
        path = tmp_path / "host.json"
        path.write_text(text)
        with pytest.raises(InvalidHostSettings, match=named):
            load_settings(str(path))
