"""A copy of a donor that commits out of order catches up: real servers, a snapshot taken while eight workers apply."""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from host_bench import image_root
from mysql_server import Server, wait_until

from localcloud.hosts.images import MYSQL_IMAGE_ID

WORKERS = ("--replica-parallel-workers=8", "--replica-preserve-commit-order=OFF")
COPY = ("--skip-replica-start=ON", "--relay-log-recovery=ON", "--read-only=ON", "--super-read-only=ON")
JOIN_AND_CATCH_UP = """
import json
from peaker_host.replicate.replication import start_replication, wait_for_catch_up
joined = start_replication(machine, "127.0.0.1", print)
print(json.dumps({"joined": joined, "caught_up": wait_for_catch_up(machine, 5, 3, 240, print)}))
"""


@contextlib.contextmanager
def load(source: Server) -> Iterator[None]:
    """Eight clients, each with a table of its own: their transactions depend on none of another's."""
    ended = threading.Event()

    def write(number: int) -> None:
        one = f"INSERT INTO orders.t{number} (n) VALUES (1);\n" * 200
        while not ended.is_set():
            source.sql(one)

    writers = [threading.Thread(target=write, args=(number,), daemon=True) for number in range(8)]
    for writer in writers:
        writer.start()
    try:
        yield
    finally:
        ended.set()
        for writer in writers:
            writer.join(60)


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    with image_root(MYSQL_IMAGE_ID, tmp_path) as root:
        yield root


@pytest.mark.real
def test_the_copy_of_a_donor_that_commits_out_of_order_catches_up(root: Path) -> None:
    source, donor = Server(root, "source", 1), Server(root, "donor", 2, *WORKERS)
    copy = Server(root, "copy", 3, *WORKERS, *COPY)
    try:
        source.initialise()
        # Both begin as one empty server: the donor's own identity is made at its start.
        subprocess.run(["cp", "-a", str(root / "srv/source"), str(root / "srv/donor")], check=True)
        (root / "srv/donor/auto.cnf").unlink()
        for one in (source, donor):
            one.start()
        tables = "".join(
            f"CREATE TABLE orders.t{n} (id INT AUTO_INCREMENT PRIMARY KEY, n INT);" for n in range(8)
        )
        source.sql(
            "CREATE USER repl@'127.0.0.1' IDENTIFIED BY 'secret'; GRANT REPLICATION SLAVE ON *.* TO repl@'127.0.0.1';"
            f"CREATE DATABASE orders; {tables}"
        )
        donor.sql(
            "RESET BINARY LOGS AND GTIDS;"
            f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={source.port},"
            "SOURCE_USER='repl', SOURCE_PASSWORD='secret', SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1;"
            "START REPLICA; SET GLOBAL super_read_only=ON"
        )
        with load(source):
            wait_until(lambda: int(donor.sql("SELECT COUNT(*) FROM orders.t7", check=False) or 0) > 50, 120)
            donor.kill()  # what is on its volumes now is what a snapshot of this instant has
            subprocess.run(["cp", "-a", str(root / "srv/donor"), str(root / "srv/copy")], check=True)
        (root / "srv/copy/auto.cnf").unlink()
        copy.start()
        joined = json.loads(copy.python(JOIN_AND_CATCH_UP))
        assert joined["caught_up"]["gtid_behind_at_start"] is not None
        counts = " UNION ALL ".join(f"SELECT COUNT(*) FROM orders.t{number}" for number in range(8))
        assert copy.sql(counts) == source.sql(counts)
    finally:
        for one in (copy, donor, source):
            one.kill()
