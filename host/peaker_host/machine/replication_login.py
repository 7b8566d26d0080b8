"""The login at the source that the image of the peak replicas brings, in `replication_credentials_file`."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Optional

from peaker_host.machine.errors import InvalidHostSettings, ReplicationNotConfigured
from peaker_host.machine.files import read_json
from peaker_host.machine.settings import Settings
from peaker_host.machine.understanding import understood, whole


@dataclass(frozen=True)
class ReplicationLogin:
    """`port` is None where the file leaves it to the channel."""

    user: str
    password: str = field(repr=False)
    port: Optional[int] = None


def read_login(settings: Settings) -> Optional[ReplicationLogin]:
    """Reads the image's login; None without the file. Raises InvalidHostSettings, UnreadableFile."""
    return login_in(settings.replication_credentials_file)


def login_in(path: str) -> Optional[ReplicationLogin]:
    """A login that the image brings in a file of its own; None without it. Raises as `read_login`."""
    content = read_json(path) if os.path.exists(path) else None
    if content is None:
        return None
    user, password, port = content.get("user"), content.get("password"), content.get("port")
    if not isinstance(user, str) or not isinstance(password, str):
        raise InvalidHostSettings(f"{path}: needs the texts user and password")
    with understood(InvalidHostSettings, path):
        return ReplicationLogin(user, password, whole(port, "the port", 1, 65535) if port else None)


def refuse_without_login(settings: Settings) -> None:
    """Refuses an image without a usable login before hours of prewarm: a copy of a MariaDB holds no password
    of its channel.

    Raises ReplicationNotConfigured, InvalidHostSettings, UnreadableFile.
    """
    path = settings.replication_credentials_file
    if read_login(settings) is None and settings.engine == "mariadb":
        raise ReplicationNotConfigured(
            f"no replication user: {path} is not there, and the data directory of a MariaDB keeps no password. Put "
            '{"user": "...", "password": "..."} there in the image of the peak replicas, readable by root alone'
        )
