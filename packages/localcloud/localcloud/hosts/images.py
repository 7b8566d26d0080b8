"""Machine images: root filesystems made from Debian packages and the files under rootfs/.

An image is built once into <images>/<image id>; `etc/peaker/image.json` inside it says from what. Editing
only our own files re-makes the image in seconds from the packages already there.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from localcloud.dataplane import DataPlaneError
from localcloud.hosts.debian_mirror import apt_proxy_options, find_mirror

Progress = Callable[[str], None]

MYSQL_IMAGE_ID = "ami-0a770000000000097"
MARIADB_IMAGE_ID = "ami-0a770000000001011"

_HERE = Path(__file__).parent
_STAMP = Path("etc/peaker/image.json")
# The same in every image, because volumes move between hosts; no Debian package takes it.
_MYSQL_UID = 27306
_COMMON_PACKAGES = (
    "e2fsprogs",
    "fio",
    "iproute2",
    "lvm2",
    "mdadm",
    "mount",
    "procps",
    "python3",
    "sysstat",
    "util-linux",
    "xfsprogs",
)
_LEFT_OUT = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*", "/usr/share/info/*")


@dataclass(frozen=True)
class ImageRecipe:
    """What an image is made of."""

    image_id: str
    engine: str
    suite: str
    packages: tuple[str, ...]

    def packages_sha256(self) -> str:
        """Changes when the packages have to be installed anew."""
        return hashlib.sha256(json.dumps([self.suite, self.packages, _LEFT_OUT]).encode()).hexdigest()

    def files_sha256(self) -> str:
        """Changes when one of our own files did."""
        digest = hashlib.sha256(str(_MYSQL_UID).encode())
        for path, target in _own_files(self.engine):
            link = os.readlink(path) if path.is_symlink() else ""
            digest.update(f"{target}\0{link}\0".encode() + path.read_bytes() + b"\0")
        return digest.hexdigest()


@dataclass(frozen=True)
class _Stamp:
    image_id: str
    engine: str
    suite: str
    packages_sha256: str
    files_sha256: str
    files: list[str]


RECIPES: Mapping[str, ImageRecipe] = {
    recipe.image_id: recipe
    for recipe in (
        ImageRecipe(
            MYSQL_IMAGE_ID, "mysql", "unstable", ("mysql-server-core", "mysql-client-core", *_COMMON_PACKAGES)
        ),
        ImageRecipe(
            MARIADB_IMAGE_ID,
            "mariadb",
            "bookworm",
            ("mariadb-server-core", "mariadb-client-core", *_COMMON_PACKAGES),
        ),
    )
}


def image_root(images_directory: Path, image_id: str) -> Path:
    """The root filesystem of a built image. Raises DataPlaneError when there is none."""
    root = images_directory / image_id
    if not (root / _STAMP).is_file():
        raise DataPlaneError(
            f"machine image {image_id} is not in {images_directory}: build it: `python -m localcloud.hosts`"
        )
    return root


def ensure_image(image_id: str, images_directory: Path, progress: Progress = print) -> Path:
    """Build the image unless it is there and current. Safe to call from several processes at once.

    Takes about a minute for MySQL. Raises DataPlaneError for an unknown id or when the build fails.
    """
    recipe = RECIPES.get(image_id)
    if recipe is None:
        raise DataPlaneError(f"no recipe for image {image_id}: known are {', '.join(sorted(RECIPES))}")
    images_directory.mkdir(parents=True, exist_ok=True)
    root = images_directory / image_id
    with _locked(images_directory / f".{image_id}.lock"):
        stamp = _read_stamp(root)
        if stamp and _is_current(stamp, recipe):
            return root
        if os.geteuid() != 0:
            raise DataPlaneError(f"machine image {image_id} can only be built as root: run this with sudo")
        building = images_directory / f".building-{image_id}"
        _remove_tree(building)
        if stamp and stamp.packages_sha256 == recipe.packages_sha256():
            _copy_without_files(root, building, stamp)
        else:
            _install_packages(recipe, building, progress)
        _install_own_files(recipe, building)
        _swap_in(building, root)
    progress(f"image {image_id}: ready in {root}")
    return root


def remove_replaced_images(images_directory: Path) -> list[str]:
    """Delete what rebuilt images left for hosts that still ran on them; returns what was deleted."""
    replaced = sorted(images_directory.glob(".replaced-*"))
    for path in replaced:
        _remove_tree(path)
    return [str(path) for path in replaced]


def _is_current(stamp: _Stamp, recipe: ImageRecipe) -> bool:
    return stamp.packages_sha256 == recipe.packages_sha256() and stamp.files_sha256 == recipe.files_sha256()


def _read_stamp(root: Path) -> _Stamp | None:
    try:
        return _Stamp(**json.loads((root / _STAMP).read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def _own_files(engine: str) -> Iterator[tuple[Path, str]]:
    """(file here, path in the image), in a fixed order."""
    yield _HERE / "service_control.py", "usr/bin/systemctl"
    tree = _HERE / "rootfs" / engine
    for path in sorted(tree.rglob("*")):
        if path.is_file():
            yield path, str(path.relative_to(tree))


def _install_packages(recipe: ImageRecipe, building: Path, progress: Progress) -> None:
    mirror = find_mirror()
    progress(f"image {recipe.image_id}: Debian {recipe.suite} from {mirror.uri}, about a minute")
    started = time.monotonic()
    command = [
        # What it mounts (proc, sys, dev/shm) goes with its last process, however that ends: nobody who deletes the
        # directory of a build that was killed deletes the machine's own.
        *("unshare", "--mount", "--propagation", "private"),
        "mmdebstrap",
        "--mode=root",
        "--variant=essential",
        "--format=directory",
        '--aptopt=Apt::Install-Recommends "false"',
        "--dpkgopt=force-unsafe-io",
        *(f"--dpkgopt=path-exclude={pattern}" for pattern in _LEFT_OUT),
        *apt_proxy_options(),
        f"--include={','.join(recipe.packages)}",
        recipe.suite,
        str(building),
        mirror.source_line(recipe.suite),
    ]
    tail: list[str] = []
    if shutil.which("mmdebstrap") is None:
        raise DataPlaneError("mmdebstrap is not installed: apt-get install mmdebstrap")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        tail = [*tail[-19:], line.rstrip()]
        if line.startswith("I: "):
            progress(f"image {recipe.image_id}: {line[3:].rstrip()}")
    if process.wait() != 0:
        _remove_tree(building)
        raise DataPlaneError(
            f"machine image {recipe.image_id} could not be built from {mirror.uri} ({recipe.suite}):\n"
            + "\n".join(tail)
        )
    progress(f"image {recipe.image_id}: packages installed in {time.monotonic() - started:.0f} s")


def _copy_without_files(root: Path, building: Path, stamp: _Stamp) -> None:
    """Hard links are enough: the files that change are deleted here and written anew."""
    subprocess.run(["cp", "-al", str(root), str(building)], check=True)
    for name in [*stamp.files, str(_STAMP)]:
        (building / name).unlink(missing_ok=True)


def _install_own_files(recipe: ImageRecipe, root: Path) -> None:
    files = []
    for source, name in _own_files(recipe.engine):
        target = root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        shutil.copyfile(source, target, follow_symlinks=False)
        if not target.is_symlink():
            target.chmod(0o755 if name.startswith("usr/bin/") else 0o644)
        files.append(name)
    _add_mysql_user(root)
    for name in ("etc/mysql/conf.d", "etc/systemd/system", "var/lib/peaker", "opt/peaker"):
        (root / name).mkdir(parents=True, exist_ok=True)
    for name in ("var/lib/mysql", "var/lib/mysql-log", "var/lib/mysql-files", "var/log/mysql"):
        (root / name).mkdir(parents=True, exist_ok=True)
        (root / name).chmod(0o750)
        os.chown(root / name, _MYSQL_UID, _MYSQL_UID)
    stamp = _Stamp(
        recipe.image_id, recipe.engine, recipe.suite, recipe.packages_sha256(), recipe.files_sha256(), files
    )
    (root / _STAMP).write_text(json.dumps(asdict(stamp), indent=2) + "\n")


def _add_mysql_user(root: Path) -> None:
    lines = {
        "etc/passwd": f"mysql:x:{_MYSQL_UID}:{_MYSQL_UID}:MySQL Server:/nonexistent:/usr/sbin/nologin",
        "etc/group": f"mysql:x:{_MYSQL_UID}:",
    }
    for name, line in lines.items():
        path = root / name
        kept = [entry for entry in path.read_text().splitlines() if not entry.startswith("mysql:")]
        path.unlink()
        path.write_text("\n".join([*kept, line]) + "\n")
        path.chmod(0o644)


def _swap_in(building: Path, root: Path) -> None:
    """Hosts may still run on the image that is replaced: it is put aside, clean-up deletes it."""
    if root.exists():
        root.rename(root.parent / f".replaced-{root.name}-{time.time_ns()}")
    building.rename(root)


def _remove_tree(path: Path) -> None:
    if not path.exists():
        return
    below = f"{path.resolve()}/"
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        if line.split()[4].startswith(below):
            raise DataPlaneError(f"{line.split()[4]} is mounted: unmount it, then delete {path}")
    shutil.rmtree(path)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
