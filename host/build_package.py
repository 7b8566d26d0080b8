"""Build the host package: a zip application whose bytes depend on its sources alone."""

from __future__ import annotations

import argparse
import hashlib
import io
import zipfile
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent / "peaker_host"
_TIMESTAMP = (1980, 1, 1, 0, 0, 0)


def package_bytes() -> bytes:
    """The zip application: sorted entries, fixed time and mode, no compression differences between machines."""
    buffer = io.BytesIO(b"")
    buffer.write(b"#!/usr/bin/env python3\n")
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_STORED) as archive:
        _add(archive, "__main__.py", (PACKAGE / "__main__.py").read_bytes())
        for source in sorted(PACKAGE.rglob("*.py")):
            _add(archive, source.relative_to(PACKAGE.parent).as_posix(), source.read_bytes())
    return buffer.getvalue()


def build(output_path: str | Path) -> str:
    """Write the package. Returns its SHA-256 in hexadecimal; equal sources give equal bytes."""
    content = package_bytes()
    target = Path(output_path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)
    target.chmod(0o755)
    return hashlib.sha256(content).hexdigest()


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, _TIMESTAMP)
    entry.create_system = 3
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, content)


def main() -> None:
    """Command line: where to write it."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog="Example: python host/build_package.py build/peaker_host.pyz"
    )
    parser.add_argument("output", help="path of the package to write")
    print(build(parser.parse_args().output))


if __name__ == "__main__":
    main()
