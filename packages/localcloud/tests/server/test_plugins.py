"""A project's own commands and extensions."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from localcloud.open_cloud import CloudSettings
from localcloud.plugins import PluginError, add_commands, named_plugins
from localcloud.server import LocalCloud

PLUGIN = """
def install(cloud):
    cloud.when_ready(lambda: setattr(cloud, "greeted", cloud.settings.region))

def commands(app):
    @app.command()
    def greet():
        print("good morning")
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "greeting_plugin.py").write_text(PLUGIN)
    (tmp_path / "pyproject.toml").write_text('[tool.localcloud]\nplugins = ["greeting_plugin"]\n')
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


def test_the_projects_file_names_them(project: Path) -> None:
    assert named_plugins(project, {}) == ("greeting_plugin",)
    assert named_plugins(project / "nowhere", {}) == ()


def test_the_variable_is_taken_instead(project: Path) -> None:
    assert named_plugins(project, {"LOCALCLOUD_PLUGINS": "one, two"}) == ("one", "two")
    assert named_plugins(project, {"LOCALCLOUD_PLUGINS": ""}) == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [("plugins = 7", "must be a list of module names, got 7"), ("plugins = [", "pyproject.toml: ")],
)
def test_a_wrong_file_is_named(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[tool.localcloud]\n{text}\n")
    with pytest.raises(PluginError) as refused:
        named_plugins(tmp_path, {})
    assert said in str(refused.value)
    assert str(tmp_path / "pyproject.toml") in str(refused.value)


def test_a_plugin_adds_to_a_cloud_that_starts_and_to_the_command(project: Path, tmp_path: Path) -> None:
    plugins = named_plugins(project, {})
    with LocalCloud(None, tmp_path / "state", settings=CloudSettings(plugins=plugins)) as cloud:
        assert vars(cloud)["greeted"] == "us-east-1"
    app = typer.Typer()
    app.callback()(lambda: None)
    add_commands(app, plugins)
    assert CliRunner().invoke(app, ["greet"]).stdout == "good morning\n"


@pytest.mark.parametrize(
    ("name", "said"),
    [("nowhere_plugin", "cannot be imported"), ("json", "neither install(cloud) nor commands(app)")],
)
def test_what_is_no_plugin_is_said(tmp_path: Path, name: str, said: str) -> None:
    cloud = LocalCloud(None, tmp_path, settings=CloudSettings(plugins=(name,)))
    with pytest.raises(PluginError) as refused:
        cloud.start()
    assert f"plugin {name}: " in str(refused.value)
    assert said in str(refused.value)
