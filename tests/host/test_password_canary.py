"""A password that is like no other text goes in; what a command shows, says and leaves is looked through for it.

The commands run with their own processes: a program in the place of `mysql` notes what the process list showed. What
AWS then keeps of it: tests/statemachines/test_no_password_in_aws.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from peaker_host.database.mysql_client import admin_client
from peaker_host.health import unit
from peaker_host.machine.errors import DatabaseUnreachable
from peaker_host.machine.settings import Machine, Processes, load_settings
from peaker_host.replicate import replication

from tests.support.passwords.bench import CANARY, PART, REFUSED, Bench, answer, joining, leftovers


@pytest.fixture
def bench(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Bench:
    private = tmp_path / "tmp"
    private.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(private))
    monkeypatch.setattr(replication, "_JOIN_SECONDS", 0.1)
    return Bench(tmp_path, capsys)


class TestReplicationPassword:
    """It comes with the copy, in MySQL's own table, and goes to the server alone."""

    def test_joining_shows_it_nowhere(self, bench: Bench) -> None:
        joining(bench)
        _, told = bench.run(
            "start_replication", "--run-id", "scale-out-orders-1", "--source-host", "10.77.1.10"
        )
        assert "SOURCE_PASSWORD = 'cAnArY" in bench.statements(), told
        assert PART not in told
        assert PART not in bench.process_list()
        assert leftovers(bench.folder) == []
        assert {mode for one in bench.shown for mode in one["modes"]} == {"0o600"}  # type: ignore[attr-defined]

    def test_a_server_that_quotes_the_statement_does_not_tell_it(self, bench: Bench) -> None:
        """MySQL's error 1064 repeats what it did not understand, which a command's output would carry to AWS."""
        joining(bench, (1, REFUSED.format(password=CANARY)))
        code, told = bench.run(
            "start_replication", "--run-id", "scale-out-orders-1", "--source-host", "10.77.1.10"
        )
        assert code == 1
        assert "ERROR 1064" in told
        assert PART not in told


class TestHealthPassword:
    """It is made on the host, and kept in a file that only root reads."""

    @pytest.fixture(autouse=True)
    def drawn(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(unit.secrets, "token_urlsafe", lambda _: f"{PART}-7f3a91")

    def make(self, bench: Bench) -> None:
        settings = load_settings(bench.settings())
        unit.ensure_health_account(
            Machine.of(settings, Processes()), admin_client(Machine.of(settings, Processes()))
        )

    def test_it_is_in_the_server_and_in_its_file_alone(self, bench: Bench) -> None:
        bench.rules = [("super_read_only", 0, answer(on="0")), ("IDENTIFIED BY", 0, "")]
        self.make(bench)
        assert f"IDENTIFIED BY 'Aa1_{PART}" in bench.statements()
        assert PART not in bench.process_list()
        file = bench.folder / "health.cnf"
        assert leftovers(bench.folder) == [str(file)]
        assert file.stat().st_mode & 0o777 == 0o600

    def test_a_server_that_refuses_the_account_does_not_tell_it(self, bench: Bench) -> None:
        refused = f"ERROR 1064 (42000) at line 3: You have an error near '{PART}-7f3a91'' at line 3"
        bench.rules = [("super_read_only", 0, answer(on="0")), ("IDENTIFIED BY", 1, refused)]
        with pytest.raises(DatabaseUnreachable, match="ERROR 1064") as caught:
            self.make(bench)
        assert PART not in str(caught.value)
        assert caught.value.__cause__ is None
        assert leftovers(bench.folder) == []
