"""Which Debian mirror this machine is configured to use, read from its own apt sources."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from localcloud.dataplane import DataPlaneError

_DEFAULT_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
_ONE_LINE = re.compile(
    r"^deb\s+(?:\[(?P<options>[^]]*)\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)\s+(?P<components>.+)$"
)


@dataclass(frozen=True)
class DebianMirror:
    """A Debian archive and the keyring that its Release files are signed with."""

    uri: str
    keyring: str

    def source_line(self, suite: str) -> str:
        """One apt source line. A mirror that lags behind serves expired Release files: they are accepted,
        the signature is still checked."""
        return f"deb [signed-by={self.keyring} check-valid-until=no] {self.uri} {suite} main"


@dataclass(frozen=True)
class _Source:
    uri: str
    suites: tuple[str, ...]
    components: tuple[str, ...]
    keyring: str


def find_mirror(apt_directory: Path = Path("/etc/apt")) -> DebianMirror:
    """The mirror that serves the main Debian archive; PEAKER_DEBIAN_MIRROR (a URI) overrides it.

    Raises DataPlaneError when apt knows none.
    """
    override = os.environ.get("PEAKER_DEBIAN_MIRROR")
    if override:
        return DebianMirror(override, _DEFAULT_KEYRING)
    for source in _sources(apt_directory):
        is_debian = urlsplit(source.uri).path.rstrip("/").endswith("/debian")
        if is_debian and "main" in source.components:
            return DebianMirror(source.uri.rstrip("/"), source.keyring)
    raise DataPlaneError(
        f"no source of the main Debian archive in {apt_directory}: machine images are made from it;"
        " add one (deb <mirror>/debian bookworm main) or set PEAKER_DEBIAN_MIRROR"
    )


def apt_proxy_options() -> list[str]:
    """The machine's apt proxy settings, as mmdebstrap options (it does not read /etc/apt itself)."""
    dump = subprocess.run(
        ["apt-config", "dump", "--no-empty", "Acquire"], capture_output=True, text=True, check=True
    ).stdout
    proxy = re.compile(r"^Acquire::https?::proxy(::\S+)? ", re.IGNORECASE)
    return [f"--aptopt={line.rstrip(';')}" for line in dump.splitlines() if proxy.match(line)]


def _sources(apt_directory: Path) -> Iterator[_Source]:
    parts = apt_directory / "sources.list.d"
    for path in [apt_directory / "sources.list", *sorted(parts.glob("*.list"))]:
        if path.is_file():
            yield from _one_line_sources(path.read_text())
    for path in sorted(parts.glob("*.sources")):
        yield from _deb822_sources(path.read_text())


def _one_line_sources(text: str) -> Iterator[_Source]:
    for line in text.splitlines():
        match = _ONE_LINE.match(line.split("#", 1)[0].strip())
        if match:
            words = (match["options"] or "").split()
            options = {name: value for name, _, value in (word.partition("=") for word in words)}
            yield _Source(
                match["uri"],
                (match["suite"],),
                tuple(match["components"].split()),
                options.get("signed-by", _DEFAULT_KEYRING),
            )


def _deb822_sources(text: str) -> Iterator[_Source]:
    for paragraph in re.split(r"\n\s*\n", text):
        lines = [line for line in paragraph.splitlines() if not line.startswith("#")]
        fields = {
            name.strip().lower(): value.strip()
            for name, separator, value in (line.partition(":") for line in lines if not line.startswith(" "))
            if separator
        }
        if "deb" not in fields.get("types", "").split() or fields.get("enabled", "yes").lower() == "no":
            continue
        keyring = fields.get("signed-by", "")
        for uri in fields.get("uris", "").split():
            yield _Source(
                uri,
                tuple(fields.get("suites", "").split()),
                tuple(fields.get("components", "").split()),
                keyring if keyring.startswith("/") else _DEFAULT_KEYRING,
            )
