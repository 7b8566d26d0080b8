"""What readers ask for all the time is in a copy's buffer pool when it begins to serve, on a real MySQL."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest
from host_bench import Host, quiet
from peaker_host.database.mysql_client import MysqlClient
from peaker_host.database.page_load import begin_buffer_pool_load, dump_buffer_pool, load_buffer_pool
from peaker_host.donor.prepare_donor import DUMP_PERCENT
from peaker_host.machine.settings import Processes

from cloud_rig.real_machine import IMAGES, free_port
from localcloud.hosts.images import MYSQL_IMAGE_ID, image_root
from tests.page_load.servers import Programs, Server, given_to_servers, place, running

pytestmark = pytest.mark.real

# 4,096 pages, of which InnoDB keeps 512 free.
OPTIONS = """[mysqld]
innodb_buffer_pool_size = 64M
innodb_lru_scan_depth = 512
innodb_buffer_pool_dump_at_shutdown = OFF
innodb_buffer_pool_load_at_startup = OFF
innodb_io_capacity = 200
innodb_io_capacity_max = 400
skip-log-bin
"""
ROWS = 8000  # in 890 pages
_FILL = """SET SESSION cte_max_recursion_depth = 1000000;
CREATE TABLE shop.{name} (id INT PRIMARY KEY, text VARCHAR(8000)) CHARSET latin1
WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < {rows})
SELECT id, REPEAT('a', {size}) AS text FROM n"""


def client_of(server: Server) -> MysqlClient:
    return MysqlClient(Processes(), str(server.programs.client), "", [f"--socket={server.socket}"])


def ask_for_the_hot_table(server: Server, seed: int) -> None:
    """As readers do: row by row, anywhere in it."""
    rows = random.Random(seed)
    for _ in range(3):
        server.ask(
            ";".join(
                f"SELECT text INTO @t FROM shop.hot WHERE id = {rows.randint(1, ROWS)}" for _ in range(1500)
            )
        )


def pages_read(server: Server) -> int:
    return int(server.ask("SHOW GLOBAL STATUS LIKE 'Innodb_pages_read'")[0].split()[1])


@contextmanager
def copied(host: Host) -> Iterator[Server]:
    """A server that starts on the data directory of a donor, which has listed its pages and is gone."""
    with place() as folder:
        options = folder / "my.cnf"
        options.write_text(OPTIONS)
        programs = Programs.of(image_root(IMAGES, MYSQL_IMAGE_ID), folder, options)
        data, logs = given_to_servers(folder / "data"), given_to_servers(folder / "logs")
        start = partial(running, programs, data, logs)
        with start(free_port()) as donor:
            donor.ask("CREATE DATABASE shop")
            for name, rows, size in (
                ("hot", ROWS, 1600),
                ("replayed", 2 * ROWS, 1600),
                ("history", 10_000, 3900),
            ):
                donor.ask(_FILL.format(name=name, rows=rows, size=size))
            # InnoDB takes a page for a hot one that is asked for again after a second.
            for round_ in range(3):
                ask_for_the_hot_table(donor, round_)
                donor.ask("DO SLEEP(1.1)")
            listed = dump_buffer_pool(client_of(donor), host.settings, DUMP_PERCENT, 240)
            assert 0.6 * 4096 <= listed <= 0.75 * 4096, (
                "a quarter of the pool is left for what the copy reads by itself"
            )
        with start(free_port()) as copy:
            yield copy


@pytest.fixture
def host(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Host]:
    with ExitStack() as volumes:
        yield Host(tmp_path, volumes, capsys)


def test_what_the_catch_up_evicted_is_loaded_again_before_readers_come(host: Host) -> None:
    with copied(host) as copy:
        client = client_of(copy)
        begin_buffer_pool_load(client)
        copy.ask("UPDATE shop.replayed SET text = REPEAT('b', 1600) WHERE id <= 3000")
        assert load_buffer_pool(client, host.settings, 240, quiet)["loads"] > 1
        before = pages_read(copy)
        ask_for_the_hot_table(copy, 9)
        assert pages_read(copy) - before <= 45, "of 890 pages; 333 after one load"
        capacities = copy.ask("SELECT @@GLOBAL.innodb_io_capacity, @@GLOBAL.innodb_io_capacity_max")
        assert capacities == ["200\t400"], "as the copy's own files have them"
