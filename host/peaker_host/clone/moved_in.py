"""The copy that a clone has made, put where the host's own server looks for it."""

from __future__ import annotations

import os
import pwd
import shutil

from peaker_host.clone.server_paths import ServerPaths
from peaker_host.machine.errors import CloneRefused

_REDO = "#innodb_redo"


def make_places(paths: ServerPaths, user: str) -> None:
    """The server's directories on the new filesystems, its own alone. Those that the image has elsewhere stay as they
    are."""
    for directory in paths.places:
        os.makedirs(directory, mode=0o750, exist_ok=True)
        give(directory, user)
        os.chmod(directory, 0o750)


def move_in(copy: str, paths: ServerPaths, user: str) -> None:
    """Everything into the data directory, redo log and undo tablespaces into theirs."""
    for name in sorted(os.listdir(copy)):
        target = _directory_of(name, paths)
        if target == paths.datadir:
            os.rename(os.path.join(copy, name), os.path.join(target, name))
        else:
            # Another filesystem, to which the owner does not come along.
            shutil.move(os.path.join(copy, name), os.path.join(target, name))
            _give_all(os.path.join(target, name), user)


def _directory_of(name: str, paths: ServerPaths) -> str:
    if name == _REDO:
        return paths.redo
    # Those that InnoDB makes itself; others are known by their whole paths (MySQL 8.4 manual, "Undo Tablespaces").
    return paths.undo if name in ("undo_001", "undo_002") else paths.datadir


def give(path: str, user: str) -> None:
    """To the user and the user's own group. Raises CloneRefused where there is no such user."""
    try:
        found = pwd.getpwnam(user)
    except KeyError as error:
        raise CloneRefused(
            f"there is no user {user} on this host: mysql_user in host.json must name the server's"
        ) from error
    os.chown(path, found.pw_uid, found.pw_gid)


def _give_all(path: str, user: str) -> None:
    give(path, user)
    for place, directories, files in os.walk(path):
        for name in (*directories, *files):
            give(os.path.join(place, name), user)
