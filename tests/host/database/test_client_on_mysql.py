"""Peaker's own sessions on a real MySQL, whatever its owner has set for the clients' sessions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from host_bench import image_root
from mysql_server import Server

from localcloud.hosts.images import MYSQL_IMAGE_ID

_CLIENT = """
from peaker_host.database.mysql_client import admin_client, sql_text
from peaker_host.replicate.source_login import read_credentials
client = admin_client(machine)
"""
PASSWORD = "print(ascii(read_credentials(machine, client, '').password))"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with image_root(MYSQL_IMAGE_ID, tmp_path_factory.mktemp("client")) as root:
        server = Server(root, "data", 1)
        try:
            server.initialise()
            server.start()
            yield server
        finally:
            server.kill()


@pytest.mark.real
class TestSessions:
    def test_the_channels_password_is_read_as_its_owner_wrote_it(self, server: Server) -> None:
        """Peaker's programs run in the locale C, where the client takes its server for one that speaks latin1."""
        change = "CHANGE REPLICATION SOURCE TO SOURCE_USER = 'repl', SOURCE_PASSWORD = 'pé€'"
        server.sql(f"SET NAMES utf8mb4; {change}")
        assert server.python(_CLIENT + PASSWORD) == ascii("pé€")
