"""What readers ask for all the time is in a copy's buffer pool when it begins to serve, on a real MySQL."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from host_bench import image_root
from mysql_server import Server

from localcloud.hosts.images import MYSQL_IMAGE_ID

# 4,096 pages, of which InnoDB keeps 512 free.
OPTIONS = (
    *("--innodb-buffer-pool-size=64M", "--innodb-lru-scan-depth=512", "--skip-log-bin"),
    *("--innodb-buffer-pool-dump-at-shutdown=OFF", "--innodb-buffer-pool-load-at-startup=OFF"),
    *("--innodb-io-capacity=200", "--innodb-io-capacity-max=400"),
)
ROWS = 8000  # in 890 pages
_FILL = """SET SESSION cte_max_recursion_depth = 1000000;
CREATE TABLE shop.{name} (id INT PRIMARY KEY, text VARCHAR(8000)) CHARSET latin1
WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < {rows})
SELECT id, REPEAT('a', {size}) AS text FROM n;"""
_LOADS = """
import json
from peaker_host.database.mysql_client import admin_client
from peaker_host.database.page_load import DUMP_PERCENT, begin_buffer_pool_load, dump_buffer_pool, load_buffer_pool
client = admin_client(machine)
"""
DUMP = "print(dump_buffer_pool(client, machine, DUMP_PERCENT, 240))"
LOAD = "print(json.dumps(load_buffer_pool(client, machine, 240, lambda _: None)))"


def ask_for_the_hot_table(server: Server, seed: int) -> None:
    """As readers do: row by row, anywhere in it."""
    rows = random.Random(seed)
    asked = (f"SELECT text INTO @t FROM shop.hot WHERE id = {rows.randint(1, ROWS)};\n" for _ in range(4500))
    server.sql("".join(asked))


def pages_read(server: Server) -> int:
    return int(server.sql("SHOW GLOBAL STATUS LIKE 'Innodb_pages_read'").split()[1])


@pytest.mark.real
def test_what_the_catch_up_evicted_is_loaded_again_before_readers_come(tmp_path: Path) -> None:
    with image_root(MYSQL_IMAGE_ID, tmp_path) as root:
        server = Server(root, "data", 1, *OPTIONS)
        try:
            server.initialise()
            server.start()
            server.sql("CREATE DATABASE shop")
            for name, rows, size in (
                ("hot", ROWS, 1600),
                ("replayed", 2 * ROWS, 1600),
                ("history", 10_000, 3900),
            ):
                server.sql(_FILL.format(name=name, rows=rows, size=size))
            # InnoDB takes a page for a hot one that is asked for again after a second.
            for round_ in range(3):
                ask_for_the_hot_table(server, round_)
                server.sql("DO SLEEP(1.1)")
            listed = int(server.python(_LOADS + DUMP))
            assert 0.6 * 4096 <= listed <= 0.75 * 4096, (
                "a quarter of the pool is left for what the copy reads by itself"
            )
            # It goes on as its own copy: a clean data directory, and the list.
            server.stop()
            server.start()
            server.python(_LOADS + "begin_buffer_pool_load(client)\nprint()")
            server.sql("UPDATE shop.replayed SET text = REPEAT('b', 1600) WHERE id <= 3000")
            assert json.loads(server.python(_LOADS + LOAD))["loads"] > 1
            before = pages_read(server)
            ask_for_the_hot_table(server, 9)
            assert pages_read(server) - before <= 45, "of 890 pages; 333 after one load"
            capacities = server.sql("SELECT @@GLOBAL.innodb_io_capacity, @@GLOBAL.innodb_io_capacity_max")
            assert capacities == "200\t400", "as the copy's own files have them"
        finally:
            server.kill()
