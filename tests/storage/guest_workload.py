"""In the storage machine: a database on every filesystem, written to without a pause, and what a look at it finds.

SQLite stands for the server: a real database with a log that it recovers by. Each commit is on the device before it is
counted in /run/commits, so that every row that was counted before a snapshot must be in it. Beside it lie files like a
server's, whose pages carry marks by which the tests find them on the volumes.

    guest_workload.py fill PLACE SPACE      guest_workload.py write PLACE...      guest_workload.py look PLACE
"""

import hashlib
import json
import os
import sqlite3
import struct
import sys
import threading
import time
import zlib

PAGE = 16384
PAGES = 1000
COMMITS = "/run/commits"
# So that the one processor has time for more than this.
_PAUSE_SECONDS = 0.05


def mark(space: int, page: int) -> bytes:
    """How a page of a file like a tablespace begins."""
    return f"mark {space},{page};".encode().ljust(32, b".")


def fill(place: str, space: int) -> None:
    """A file like a tablespace, the system's own, and a page list with every eleventh page of the last quarter."""
    os.makedirs(f"{place}/shop", exist_ok=True)
    for name, number in (("shop/orders.ibd", space), ("mysql.ibd", 4294967294)):
        head = bytearray(PAGE)
        struct.pack_into(">I", head, 34, number)
        struct.pack_into(">I", head, 54, 0x4000)
        with open(f"{place}/{name}", "wb") as file:
            file.write(head)
            for page in range(1, PAGES if number == space else 8):
                file.write(mark(number, page) + os.urandom(PAGE - 32))
            os.fsync(file.fileno())
    hot = range(PAGES * 3 // 4, PAGES, 11)
    with open(f"{place}/ib_buffer_pool", "w", encoding="ascii") as file:
        file.writelines(f"{space},{page}\n" for page in hot)
        file.flush()
        os.fsync(file.fileno())
    connection = _database(place)
    connection.execute("CREATE TABLE IF NOT EXISTS rows (n INTEGER PRIMARY KEY, body BLOB, sum INTEGER)")
    connection.commit()
    connection.close()


def write(places: list) -> None:
    """Until the machine ends."""
    os.makedirs(COMMITS, exist_ok=True)
    for place in places:
        threading.Thread(target=_write_one, args=(place,)).start()


def _write_one(place: str) -> None:
    connection = _database(place)
    count = os.path.join(COMMITS, place.replace("/", "_"))
    number = 0
    while True:
        number += 1
        body = os.urandom(6000)
        connection.execute("INSERT INTO rows VALUES (?, ?, ?)", (number, body, zlib.crc32(body)))
        connection.commit()
        with open(f"{count}.new", "w", encoding="ascii") as file:
            file.write(str(number))
        os.rename(f"{count}.new", count)
        time.sleep(_PAUSE_SECONDS)


def look(place: str) -> None:
    """The database recovers; what it and the files hold, as JSON."""
    connection = _database(place)
    bad = [n for n, body, total in connection.execute("SELECT * FROM rows") if zlib.crc32(body) != total]
    numbers = [n for (n,) in connection.execute("SELECT n FROM rows ORDER BY n")]
    found = {
        "integrity": connection.execute("PRAGMA integrity_check").fetchone()[0],
        "rows": len(numbers),
        "without_gap": numbers == list(range(1, len(numbers) + 1)),
        "bad": bad,
        "files": {
            name: _digest(f"{place}/{name}") for name in ("shop/orders.ibd", "mysql.ibd", "ib_buffer_pool")
        },
    }
    connection.close()
    print(json.dumps(found))


def _database(place: str) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{place}/commits.db", timeout=60)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    return connection


def _digest(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def main(arguments: list) -> None:
    """One command."""
    command, *rest = arguments
    if command == "fill":
        fill(rest[0], int(rest[1]))
    elif command == "write":
        write(rest)
    else:
        look(rest[0])


if __name__ == "__main__":
    main(sys.argv[1:])
