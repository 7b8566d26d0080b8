"""Peaker's own sessions on a real MySQL, whatever its owner has set for the clients' sessions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from host_bench import image_root
from mysql_server import Server

from localcloud.hosts.images import MYSQL_IMAGE_ID

OPTIONS = ("--max-execution-time=100", "--sql-mode=NO_BACKSLASH_ESCAPES,ANSI_QUOTES")
_CLIENT = """
from peaker_host.database.mysql_client import admin_client, sql_text
from peaker_host.replicate.source_login import read_credentials
client = admin_client(machine)
"""
PASSWORD = "print(ascii(read_credentials(machine, client, '').password))"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with image_root(MYSQL_IMAGE_ID, tmp_path_factory.mktemp("client")) as root:
        server = Server(root, "data", 1, *OPTIONS)
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

    def test_a_password_is_written_as_it_is_under_another_sql_mode(self, server: Server) -> None:
        write = "client.execute('CHANGE REPLICATION SOURCE TO SOURCE_PASSWORD = ' + sql_text(r\"a\\'b\"))\n"
        assert server.python(_CLIENT + write + PASSWORD) == ascii(r"a\'b")

    def test_a_limit_of_the_clients_statements_ends_none_of_peakers(self, server: Server) -> None:
        """information_schema.FILES of many tables takes longer than a reader may."""
        ask = "print(client.rows('SELECT SLEEP(0.3) AS cut'))"
        assert server.python(_CLIENT + ask) == "[{'cut': '0'}]"
