"""HAProxy's runtime API: one command per connection to its administration socket."""

from __future__ import annotations

import csv
import io
import os
import socket
from pathlib import Path

from localcloud.dataplane import DataPlaneError

_LIMIT_SECONDS = 5.0


class RuntimeApi:
    """The administration socket of one HAProxy process."""

    def __init__(self, socket_path: Path) -> None:
        self._path = socket_path

    def ask(self, command: str) -> str:
        """Send a command that answers with data. Raises OSError when HAProxy does not answer."""
        # A socket path may have 107 bytes; a state directory may be deeper, its descriptor is not.
        directory = os.open(self._path.parent, os.O_PATH)
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.settimeout(_LIMIT_SECONDS)
                connection.connect(f"/proc/self/fd/{directory}/{self._path.name}")
                connection.sendall(f"{command}\n".encode())
                parts = []
                while part := connection.recv(65536):
                    parts.append(part)
        finally:
            os.close(directory)
        return b"".join(parts).decode()

    def order(self, command: str, accepted_answers: tuple[str, ...] = ()) -> None:
        """Send a command that changes something. Raises DataPlaneError with HAProxy's answer if it refuses.

        HAProxy answers nothing, or a sentence that is in accepted_answers, when it did it.
        """
        answer = self.ask(command).strip()
        if answer and not any(expected in answer for expected in accepted_answers):
            raise DataPlaneError(f"HAProxy refused `{command}`: {answer}")

    def open_sessions(self, backend: str) -> dict[str, int]:
        """How many connections are open to each of the backend's servers, by name."""
        text = self.ask(f"show stat {backend} 4 -1").lstrip("# ")
        rows = csv.DictReader(io.StringIO(text))
        return {row["svname"]: int(row["scur"] or 0) for row in rows if row.get("svname")}
