"""What a project adds to its local cloud: modules that it names, each with one of these functions or both.

    install(cloud)    called at every start, after the local cloud's own extensions
    commands(app)     adds commands to `python -m localcloud`, a Typer application

A project names them in the pyproject.toml of the folder where the command is typed:

    [tool.localcloud]
    plugins = ["lab.plugin"]

or in LOCALCLOUD_PLUGINS, separated by commas, which is taken instead.
"""

from __future__ import annotations

import importlib
import os
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer

    from localcloud.open_cloud import OpenCloud

VARIABLE = "LOCALCLOUD_PLUGINS"


class PluginError(Exception):
    """A plugin is named and cannot be used; the message says where it is named."""


def named_plugins(folder: Path, variables: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """The modules that LOCALCLOUD_PLUGINS names, or the folder's pyproject.toml. Raises PluginError."""
    if VARIABLE in variables:
        return tuple(name.strip() for name in variables[VARIABLE].split(",") if name.strip())
    project = folder / "pyproject.toml"
    if not project.is_file():
        return ()
    try:
        table = tomllib.loads(project.read_text(encoding="utf-8")).get("tool", {}).get("localcloud", {})
    except tomllib.TOMLDecodeError as error:
        raise PluginError(f"{project}: {error}") from error
    names = table.get("plugins", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise PluginError(
            f"{project}: tool.localcloud.plugins: must be a list of module names, got {names!r}"
        )
    if names and str(folder) not in sys.path:
        sys.path.append(str(folder))  # the project's own modules, also for the installed command
    return tuple(names)


def install(cloud: OpenCloud, names: Sequence[str]) -> None:
    """Let each plugin add to a cloud that starts. Raises PluginError."""
    for plugin in map(_module, names):
        if hasattr(plugin, "install"):
            plugin.install(cloud)


def add_commands(app: typer.Typer, names: Sequence[str]) -> None:
    """Let each plugin add its commands. Raises PluginError."""
    for plugin in map(_module, names):
        if hasattr(plugin, "commands"):
            plugin.commands(app)


def _module(name: str) -> ModuleType:
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        raise PluginError(f"plugin {name}: cannot be imported ({error})") from error
    if not hasattr(module, "install") and not hasattr(module, "commands"):
        raise PluginError(f"plugin {name}: has neither install(cloud) nor commands(app)")
    return module
