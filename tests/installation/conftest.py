"""A person on another machine: no root, no Debian tools, an own home, and nothing of this checkout's environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.installation.copies import REPOSITORY

NOBODY = 65534
# Where jsii keeps the CDK's JavaScript, under a home; to unpack it takes longer than to synthesize.
UNPACKED_CDK = Path(".cache/aws/jsii/package-cache")
_FOLDERS_OF_EVERYBODY = "/usr/local/bin:/usr/bin:/bin"
_TOOLS = ("sh", "bash", "env", "cat", "dirname", "rm", "mkdir", "ls", "id", "uname", "sed", "grep")
_NODE = ("node", "npm", "npx")
# Settings that say how to reach the package registries from here; everything else of the shell is left behind.
_REGISTRY_SETTINGS = ("SSL_CERT_FILE", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "https_proxy", "no_proxy")


@dataclass(frozen=True)
class Person:
    """A user without root. `folder` is theirs, and so is everything that they make."""

    folder: Path
    tools: Path

    def run(
        self, *command: str, cwd: Path | None = None, variables: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as this person and return what it said."""
        kept = {name: os.environ[name] for name in _REGISTRY_SETTINGS if name in os.environ}
        kept |= {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        environment = {
            **kept,
            "PATH": str(self.tools),
            "HOME": str(self.folder),
            "TERM": "dumb",
            "COLUMNS": "100",
        }
        as_nobody: dict[str, object] = {}
        if os.geteuid() == 0:
            as_nobody = {"user": NOBODY, "group": NOBODY, "extra_groups": ()}
        return subprocess.run(  # type: ignore[call-overload,no-any-return]
            command,
            cwd=cwd or self.folder,
            env={**environment, **(variables or {})},
            capture_output=True,
            text=True,
            check=False,
            **as_nobody,
        )

    def give(self, *paths: Path) -> None:
        """Make these files, and all in them, this person's."""
        if os.geteuid() != 0:
            return
        for top in paths:
            for path in (top, *top.rglob("*")):
                os.chown(path, NOBODY, NOBODY, follow_symlinks=False)


@pytest.fixture(scope="module")
def person() -> Iterator[Person]:
    with folder_for_everybody("person") as folder:
        tools = folder / "tools"
        link_tools(tools)
        someone = Person(folder, tools)
        someone.give(folder)
        yield someone


@contextmanager
def folder_for_everybody(name: str) -> Iterator[Path]:
    """A folder that a user without root can enter; pytest's own are closed to others."""
    folder = Path(tempfile.mkdtemp(prefix=f"peaker-{name}-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def link_tools(tools: Path) -> None:
    """A PATH with what every Linux and macOS has, Python and Node.js; no apt-get and no dpkg."""
    tools.mkdir()
    same_python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for name, program in (
        *((tool, tool) for tool in (*_TOOLS, *_NODE)),
        ("python3", same_python),
    ):
        found = shutil.which(program, path=_FOLDERS_OF_EVERYBODY)
        assert found, f"{program} is needed in {_FOLDERS_OF_EVERYBODY}"
        (tools / name).symlink_to(found)


def copy_checkout(destination: Path) -> Path:
    """What git would hand out of this checkout, with changes that are not committed yet."""
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY,
        capture_output=True,
        check=True,
    ).stdout.decode()
    for name in filter(None, names.split("\0")):
        source, target = REPOSITORY / name, destination / name
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    return destination
