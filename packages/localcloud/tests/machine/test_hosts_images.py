"""Machine images: where packages come from, and how an image is kept current."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from localcloud.dataplane import DataPlaneError
from localcloud.hosts import images
from localcloud.hosts.debian_mirror import find_mirror
from localcloud.hosts.images import MYSQL_IMAGE_ID, RECIPES, ensure_image, image_root, remove_replaced_images


@pytest.fixture
def apt(tmp_path: Path) -> Path:
    (tmp_path / "sources.list.d").mkdir()
    return tmp_path


def test_the_mirror_is_read_from_a_deb822_file(apt: Path) -> None:
    (apt / "sources.list.d" / "debian.sources").write_text(
        "Types: deb\n# a comment\nURIs: http://mirror.example/debian-security\nSuites: bookworm-security\n"
        "Components: main\n\n"
        "Types: deb\nURIs: http://mirror.example/debian/\nSuites: bookworm bookworm-updates\n"
        "Components: main contrib\nSigned-By: /usr/share/keyrings/x.gpg\n"
    )
    mirror = find_mirror(apt)
    assert (mirror.uri, mirror.keyring) == ("http://mirror.example/debian", "/usr/share/keyrings/x.gpg")
    assert mirror.source_line("unstable") == (
        "deb [signed-by=/usr/share/keyrings/x.gpg check-valid-until=no] http://mirror.example/debian unstable main"
    )


def test_the_mirror_is_read_from_a_one_line_file(apt: Path) -> None:
    (apt / "sources.list").write_text(
        "# deb http://commented.example/debian bookworm main\n"
        "deb [arch=amd64 trusted=yes] https://other.example/apt bookworm main\n"
        "deb https://download.example/linux/debian bookworm stable\n"
        "deb http://deb.example/debian bookworm main # the one\n"
    )
    assert find_mirror(apt).uri == "http://deb.example/debian"


def test_a_machine_without_a_debian_source_is_told_what_to_do(apt: Path) -> None:
    (apt / "sources.list").write_text("deb https://other.example/apt bookworm main\n")
    with pytest.raises(DataPlaneError, match="PEAKER_DEBIAN_MIRROR"):
        find_mirror(apt)


def test_an_image_that_is_not_there_says_how_to_build_it(tmp_path: Path) -> None:
    with pytest.raises(DataPlaneError, match=r"python -m localcloud\.hosts"):
        image_root(tmp_path, MYSQL_IMAGE_ID)
    with pytest.raises(DataPlaneError, match=MYSQL_IMAGE_ID):
        ensure_image("ami-0000000000000dead", tmp_path)


def test_a_failed_build_leaves_no_image_and_shows_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PEAKER_DEBIAN_MIRROR", "http://127.0.0.1:9/debian")
    with pytest.raises(DataPlaneError, match=r"127\.0\.0\.1"):
        ensure_image(MYSQL_IMAGE_ID, tmp_path, lambda line: None)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []


def test_a_build_that_is_killed_leaves_nothing_mounted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory with the machine's own proc, sys or shared memory in it cannot be deleted without harm."""
    programs = tmp_path / "programs"
    programs.mkdir()
    killed = programs / "mmdebstrap"
    killed.write_text(
        '#!/bin/sh\nfor place; do case "$place" in */.building-*) mkdir -p "$place/proc"; '
        'mount -t proc proc "$place/proc";; esac; done\nkill -KILL $$\n'
    )
    killed.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    with pytest.raises(DataPlaneError, match="could not be built"):
        ensure_image(MYSQL_IMAGE_ID, tmp_path / "images", lambda line: None)
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()
    assert [path.name for path in (tmp_path / "images").iterdir() if path.is_dir()] == []


def test_changed_files_of_ours_renew_an_image_without_installing_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_packages(*_: object) -> None:
        raise AssertionError("packages were installed")

    monkeypatch.setattr(images, "_install_packages", no_packages)
    root = tmp_path / MYSQL_IMAGE_ID
    (root / "etc" / "peaker").mkdir(parents=True)
    (root / "etc" / "passwd").write_text("root:x:0:0:root:/root:/bin/bash\nmysql:x:1:1::/:/bin/false\n")
    (root / "etc" / "group").write_text("root:x:0:\n")
    (root / "etc" / "gone.conf").write_text("ours once, not now")
    (root / "from-a-package").write_text("kept")
    stamp = {
        "image_id": MYSQL_IMAGE_ID,
        "engine": "mysql",
        "suite": "unstable",
        "packages_sha256": RECIPES[MYSQL_IMAGE_ID].packages_sha256(),
        "files_sha256": "of an older version",
        "files": ["etc/gone.conf"],
    }
    (root / "etc" / "peaker" / "image.json").write_text(json.dumps(stamp))

    said: list[str] = []
    ensure_image(MYSQL_IMAGE_ID, tmp_path, said.append)

    assert (root / "from-a-package").read_text() == "kept"
    assert not (root / "etc" / "gone.conf").exists()
    assert "super_read_only = ON" in (root / "etc" / "mysql" / "my.cnf").read_text()
    assert (root / "usr" / "bin" / "systemctl").stat().st_mode & 0o777 == 0o755
    passwd = (root / "etc" / "passwd").read_text()
    assert passwd.count("mysql:") == 1
    assert passwd.startswith("root:")
    assert said

    said.clear()
    ensure_image(MYSQL_IMAGE_ID, tmp_path, said.append)
    assert said == []
    assert len(remove_replaced_images(tmp_path)) == 1
    assert remove_replaced_images(tmp_path) == []
