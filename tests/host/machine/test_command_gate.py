"""Systems Manager delivers late, twice, and what it called undelivered: the host takes each command once."""

from __future__ import annotations

import errno
import multiprocessing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from peaker_host import cli
from peaker_host.machine import command as gate
from peaker_host.machine.command import FencingToken, SentCommand, admit, forget_tokens, run_alone
from peaker_host.machine.errors import (
    CommandFailed,
    CommandFenced,
    CommandTooLate,
    HostBusy,
    UnreadableFile,
)
from peaker_host.machine.settings import Settings

FORK = multiprocessing.get_context("fork")
NOW = 1_764_000_000
PATIENCE_SECONDS = 60


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(state_dir=str(tmp_path / "state"))


def token(number: int, member: int = 0, ledger: str = "prod/orders") -> FencingToken:
    return FencingToken(ledger, (number, member))


def sent(
    command: str = "start_database", number: int = 12, not_after: int = NOW + 900, key: str = ""
) -> SentCommand:
    return SentCommand(command, key or command, token(number), not_after)


def run(
    settings: Settings, command: SentCommand, work: Callable[[], dict[str, Any]], now: float = NOW
) -> Any:
    return run_alone(settings, command, lambda: now, work)


class Process:
    """A process that runs one command; its work ends when the test says so."""

    def __init__(self, settings: Settings, command: SentCommand, result: dict[str, Any]) -> None:
        self.is_at_work, self.may_end, self.waits = FORK.Event(), FORK.Event(), FORK.Event()
        self._said: multiprocessing.Queue[Any] = FORK.Queue()
        self._process = FORK.Process(target=self._run, args=(settings, command, result))
        self._process.start()

    def _run(self, settings: Settings, command: SentCommand, result: dict[str, Any]) -> None:
        taken = gate._taken

        def seen(lock: Any) -> bool:
            has_it = taken(lock)
            if not has_it:
                self.waits.set()
            return has_it

        gate._taken = seen  # in this process alone

        def work() -> dict[str, Any]:
            self.is_at_work.set()
            assert self.may_end.wait(PATIENCE_SECONDS)
            return result

        try:
            self._said.put(run(settings, command, work))
        except Exception as error:
            self._said.put(type(error).__name__)

    def said(self) -> Any:
        said = self._said.get(timeout=PATIENCE_SECONDS)
        self._process.join(PATIENCE_SECONDS)
        return said


def test_a_command_that_is_sent_twice_at_once_is_done_once_and_both_answer_the_same(
    settings: Settings,
) -> None:
    first = Process(settings, sent(not_after=NOW + 900), {"server_uuid": "a"})
    assert first.is_at_work.wait(PATIENCE_SECONDS)
    second = Process(settings, sent(not_after=NOW + 960), {"server_uuid": "b"})
    assert second.waits.wait(PATIENCE_SECONDS)
    first.may_end.set()
    assert (first.said(), second.said()) == ({"server_uuid": "a"}, {"server_uuid": "a"})
    assert not second.is_at_work.is_set()


def test_another_command_begins_when_the_first_has_ended(settings: Settings) -> None:
    first = Process(settings, sent("start_prewarm"), {"pid": 7})
    assert first.is_at_work.wait(PATIENCE_SECONDS)
    second = Process(settings, sent("stop_database"), {"stopped_seconds": 1})
    assert second.waits.wait(PATIENCE_SECONDS)
    assert not second.is_at_work.is_set()
    first.may_end.set()
    assert first.said() == {"pid": 7}
    second.may_end.set()
    assert second.said() == {"stopped_seconds": 1}


def test_a_command_that_waits_is_refused_when_another_run_has_taken_over_meanwhile(
    settings: Settings,
) -> None:
    first = Process(settings, sent("start_prewarm", 12), {})
    assert first.is_at_work.wait(PATIENCE_SECONDS)
    old = Process(settings, sent("stop_database", 12), {})
    assert old.waits.wait(PATIENCE_SECONDS)
    admit(settings, sent("drain_replica", 13), NOW)
    first.may_end.set()
    assert old.said() == "CommandFenced"


def test_a_command_that_was_killed_leaves_the_host_free(settings: Settings) -> None:
    first = Process(settings, sent(), {})
    assert first.is_at_work.wait(PATIENCE_SECONDS)
    first._process.kill()
    first._process.join(PATIENCE_SECONDS)
    assert run(settings, sent(), lambda: {"ran": 2}) == {"ran": 2}


def test_a_host_that_stays_busy_says_with_which_command(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "_WAIT_SECONDS", 0.0)
    with (
        gate.alone(settings, sent("verify_storage")),
        pytest.raises(HostBusy, match="stop_database: verify_storage changes the host"),
    ):
        run(settings, sent("stop_database"), dict)


class TestTokens:
    def test_a_late_command_of_a_dead_run_is_refused(self, settings: Settings) -> None:
        """Its run was fenced, and another one has brought the replica back into service."""
        run(settings, sent("start_database", 13), dict)
        with pytest.raises(CommandFenced, match=r"token 12\.0 of prod/orders, .* seen 13\.0"):
            run(settings, sent("stop_database", 12), pytest.fail)

    def test_a_member_that_was_fenced_within_its_batch_is_refused_too(self, settings: Settings) -> None:
        admit(settings, SentCommand("stop_database", "", token(12, 2), None), NOW)
        with pytest.raises(CommandFenced):
            admit(settings, SentCommand("start_database", "", token(12, 1), None), NOW)
        admit(settings, SentCommand("start_database", "", token(13, 0), None), NOW)

    def test_two_ledgers_that_share_a_base_replica_do_not_refuse_each_other(self, settings: Settings) -> None:
        admit(settings, SentCommand("prepare_donor", "", token(500), None), NOW)
        admit(settings, SentCommand("prepare_donor", "", token(3, ledger="staging/orders"), None), NOW)

    def test_the_ledger_of_a_new_installation_counts_from_1_after_prepare_base(
        self, settings: Settings
    ) -> None:
        admit(settings, sent(number=500), NOW)
        with pytest.raises(CommandFenced, match="peaker prepare-base"):
            admit(settings, sent(number=1), NOW)
        forget_tokens(settings)
        admit(settings, sent(number=1), NOW)

    def test_a_token_that_cannot_be_kept_lets_nothing_pass(
        self, settings: Settings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(_path: str, _content: dict[str, Any]) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(gate, "write_json", full)
        with pytest.raises(OSError, match="No space left"):
            admit(settings, sent(), NOW)

    def test_a_damaged_file_is_named(self, settings: Settings, tmp_path: Path) -> None:
        (tmp_path / "state").mkdir()
        (tmp_path / "state" / "fence.json").write_text('{"prod/orders": "many"}')
        with pytest.raises(UnreadableFile, match=r"fence\.json"):
            admit(settings, sent(), NOW)

    def test_the_locks_are_root_s_alone(self, settings: Settings, tmp_path: Path) -> None:
        run(settings, sent(), dict)
        assert {path.stat().st_mode & 0o777 for path in (tmp_path / "state").glob("*.lock")} == {0o600}


def test_a_command_that_comes_after_its_latest_time_is_refused_with_both_times(settings: Settings) -> None:
    with pytest.raises(CommandTooLate, match=r"before 2025-11-24T16:15:00Z, .* 2025-11-24T16:15:01Z"):
        run(settings, sent(not_after=NOW + 900), pytest.fail, now=NOW + 901)


class TestAgain:
    """The agent may run a command again after its own update, as it was sent."""

    def test_it_answers_as_before_and_changes_nothing_however_late(self, settings: Settings) -> None:
        first = run(settings, sent(), lambda: {"server_uuid": "a"})
        assert run(settings, sent(), pytest.fail, now=NOW + 86_400) == first

    def test_a_new_sending_of_the_same_runs(self, settings: Settings) -> None:
        """A step that is done twice on purpose, as a proof that is looked at again."""
        run(settings, sent(not_after=NOW + 900), lambda: {"verdict": "unknown"})
        assert run(settings, sent(not_after=NOW + 960), lambda: {"verdict": "warm"}) == {"verdict": "warm"}

    def test_one_that_failed_runs(self, settings: Settings) -> None:
        def fail() -> dict[str, Any]:
            raise CommandFailed("no")

        with pytest.raises(CommandFailed):
            run(settings, sent(), fail)
        assert run(settings, sent(), lambda: {"ok": 1}) == {"ok": 1}

    def test_after_a_boot_it_runs(self, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
        run(settings, sent(), lambda: {"boot": 1})
        monkeypatch.setattr(gate, "boot_id", lambda: "another")
        assert run(settings, sent(), lambda: {"boot": 2}) == {"boot": 2}

    def test_after_another_command_it_is_admitted_as_any(self, settings: Settings) -> None:
        """stop_database, start_database, and stop_database once more: nothing says that the server is down."""
        run(settings, sent("stop_database"), lambda: {"stopped": 1})
        run(settings, sent("start_database"), dict)
        with pytest.raises(CommandTooLate):
            run(settings, sent("stop_database"), pytest.fail, now=NOW + 901)


def test_what_each_command_carries() -> None:
    fenced = {one.name for one in cli.COMMANDS if one.fenced}
    alone = {one.name for one in cli.COMMANDS if one.alone}
    assert fenced - alone == {"drain_replica", "load_buffer_pool"}
    assert alone == {
        *("assemble_storage", "prepare_donor", "start_database", "start_prewarm", "start_replication"),
        *("stop_database", "verify_storage"),
    }


def test_a_block_list_s_address_is_kept_nowhere(settings: Settings, tmp_path: Path) -> None:
    """A presigned address is a secret, and differs at each sending."""
    asked = ["start_prewarm", "--run-id", "r", "--block-list-url", "http://bucket/key?X-Amz-Signature=abc"]
    arguments = cli.parser().parse_args(asked)
    command = next(one for one in cli.COMMANDS if one.name == "start_prewarm")
    assert "X-Amz-Signature" not in command.sent(arguments).key
