"""The endpoint for readers, and sysbench's words for it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Endpoint:
    """The address and the login of a reader."""

    host: str
    port: int
    user: str
    password: str
    database: str
    tables: int
    table_size: int

    def sysbench(self, test: str, threads: int, seconds: float, rate: float) -> list[str]:
        """The command line of one run; rate in transactions per second."""
        return [
            "sysbench", test,
            "--db-driver=mysql",
            f"--mysql-host={self.host}", f"--mysql-port={self.port}",
            f"--mysql-user={self.user}", f"--mysql-password={self.password}", f"--mysql-db={self.database}",
            f"--tables={self.tables}", f"--table-size={self.table_size}",
            f"--threads={threads}", f"--time={max(1, round(seconds))}", f"--rate={max(1, round(rate))}",
            "--mysql-ignore-errors=none", "--percentile=99", "--db-ps-mode=disable",
            "run",
        ]  # fmt: skip
