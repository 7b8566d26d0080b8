"""The three answers of the health responder, over HTTP."""

from __future__ import annotations

import json
import socket
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from host_bench import Host, ScriptedProcesses, answering, json_row, status, table
from peaker_host.database.mysql_client import admin_client
from peaker_host.health.account import ensure_health_account, health_client
from peaker_host.health.policy import HealthPolicy, Peer, load_policy, parse_peers, parse_policy, store_policy
from peaker_host.health.responder import (
    HealthState,
    Sampler,
    answer_now,
    is_draining,
    mark_draining,
    report_health,
    set_maintenance,
)
from peaker_host.health.sample import FAULT, LAG, Sample, SourceWatch, silence_limit_seconds, take_sample
from peaker_host.health.server import HealthServer, listen
from peaker_host.health.serving_floor import FloorDecision, Standing
from peaker_host.health.unit import UNIT, install_health_service
from peaker_host.machine.errors import (
    CommandFailed,
    DatabaseUnreachable,
    InvalidArgument,
    ResponderUnreachable,
    SuperReadOnlyNotRestored,
)

GOOD = Sample("", lag_seconds=0.0, staleness_seconds=0.0)
LATE = Sample("lag 99 s is over 30 s", LAG, lag_seconds=99.0, staleness_seconds=99.0)
BROKEN = Sample("the applier thread does not run: dup", FAULT)
POLICY = HealthPolicy(good_samples=2, bad_samples=2, lag_seconds=30, min_free_disk_percent=5)
ROOM = {"/var/lib/mysql": 40.0, "/var/lib/mysql-log": 60.0}
SERVER = "3d664b29-e551-11f1-b745-6ef0865e2f1c"
KEEP = FloorDecision(True, "0 of 1 peers are good, the floor is 1", {"floor_replicas": 1})
LET_GO = FloorDecision(False, "1 of its peers are good, the floor is 1", {"floor_replicas": 1})


def looks(status_rows: str, **changes: Any) -> str:
    """What one look of a healthy replica brings: its progress, then its replication status."""
    facts: dict[str, Any] = {
        "read_only": 1,
        "instruments": 1,
        "received": f"{SERVER}:1-90",
        "executed": f"{SERVER}:1-90",
        "heartbeats": 812,
        "heartbeat_interval_seconds": 1.0,
        "contact_age_seconds": 0.4,
        "unapplied_seconds": None,
    }
    return json_row(**{**facts, **changes}) + status_rows


def look(
    host: Host,
    programs: ScriptedProcesses,
    room: dict[str, float] = ROOM,
    policy: HealthPolicy = POLICY,
    engine: str = "mysql",
    watch: SourceWatch | None = None,
    now: float = 0.0,
) -> Sample:
    client = admin_client(host.settings, programs)
    return take_sample(client, engine, policy, room, watch or SourceWatch(), now)


def statuses(
    samples: list[Sample], good: int = 1, bad: int = 1, floor: FloorDecision | None = None
) -> tuple[list[int], HealthState]:
    policy = HealthPolicy(good_samples=good, bad_samples=bad)
    state = HealthState()
    codes = []
    for now, sample in enumerate(samples):
        state.add(sample, policy, floor if state.asks_for_floor(sample) else None, now)
        codes.append(state.answer(False, now)[0])
    return codes, state


def test_bad_until_enough_good_samples_in_a_row() -> None:
    codes, _ = statuses([GOOD, GOOD, LATE, GOOD, GOOD, GOOD], good=3)
    assert codes == [503, 503, 503, 503, 503, 200]


def test_good_until_enough_bad_samples_in_a_row() -> None:
    codes, _ = statuses([GOOD, LATE, GOOD, BROKEN, LATE, GOOD], bad=2)
    assert codes == [200, 200, 200, 200, 503, 200]


def test_one_slow_sample_in_two_never_turns_it() -> None:
    codes, _ = statuses([GOOD, GOOD, GOOD, *[BROKEN, GOOD] * 50], good=3, bad=2)
    assert codes[2:] == [200] * 101


def test_one_slow_sample_does_not_turn_it_but_is_told() -> None:
    _, state = statuses([GOOD, LATE], bad=2)
    code, body = state.answer(False, 1)
    assert (code, body["bad_samples"]) == (200, 1)
    assert "the last sample was not: lag 99 s" in body["why"]


def test_before_the_first_sample_and_with_an_old_one_it_is_bad() -> None:
    state = HealthState()
    assert state.answer(False, 0)[0] == 503
    state.add(GOOD, HealthPolicy(good_samples=1), None, 0)
    assert state.answer(False, 5)[0] == 200
    status_code, body = state.answer(False, 6)
    assert (status_code, body["state"], body["why"]) == (503, "bad", "the last sample is 6.0 s old")


def test_maintenance_wins_over_good_and_bad() -> None:
    for sample in (GOOD, BROKEN):
        _, state = statuses([sample])
        assert state.answer(True, 0)[0] == 404


class TestFloor:
    """Lag alone is forgiven while the floor asks for it; nothing else ever is."""

    def test_a_lagging_replica_goes_on_and_says_why(self) -> None:
        codes, state = statuses([GOOD, LATE, LATE, LATE], bad=2, floor=KEEP)
        assert codes == [200, 200, 200, 200]
        body = state.answer(False, 3)[1]
        assert (body["state"], body["kept_by_floor"], body["only_lag"]) == ("bad", True, True)
        assert body["why"] == "lag 99 s is over 30 s; goes on serving: 0 of 1 peers are good, the floor is 1"

    def test_it_leaves_when_peers_suffice(self) -> None:
        assert statuses([GOOD, LATE, LATE], bad=2, floor=LET_GO)[0] == [200, 200, 503]

    def test_a_fault_is_never_forgiven(self) -> None:
        codes, state = statuses([LATE, BROKEN], floor=KEEP)
        assert codes == [200, 503]
        state.add(BROKEN, HealthPolicy(bad_samples=1), KEEP, 2)
        assert state.answer(False, 2)[0] == 503, "not even when a floor were said to hold"

    def test_it_does_not_leave_for_a_moment_on_its_way_back_to_good(self) -> None:
        codes, state = statuses([GOOD, GOOD, GOOD, LATE, LATE, GOOD, GOOD, GOOD], good=3, bad=2, floor=KEEP)
        assert codes[2:] == [200] * 6
        assert state.answer(False, 7)[1]["kept_by_floor"] is False

    def test_good_samples_after_a_fault_or_a_start_are_not_enough_for_the_floor(self) -> None:
        assert statuses([GOOD, GOOD, BROKEN, GOOD], good=3, floor=KEEP)[0] == [503] * 4

    def test_an_old_sample_is_not_kept(self) -> None:
        _, state = statuses([LATE], floor=KEEP)
        code, body = state.answer(False, 6)
        assert (code, body["kept_by_floor"], body["only_lag"]) == (503, False, False)


@pytest.mark.parametrize(
    ("changes", "facts", "kind", "why"),
    [
        ({}, {}, "", ""),
        ({}, {"read_only": 0}, FAULT, "accepts writes"),
        ({"Seconds_Behind_Source": None}, {}, FAULT, "lag is unknown"),
        ({"Seconds_Behind_Source": "31"}, {}, LAG, "lag 31.0 s is over 30 s"),
        ({"Replica_IO_Running": "Connecting"}, {}, FAULT, "receiver"),
        ({"Replica_SQL_Running": "No", "Seconds_Behind_Source": "31"}, {}, FAULT, "applier"),
        # The server says 0 while the first transaction that it has not applied is 40 s old.
        ({}, {"received": f"{SERVER}:1-95", "unapplied_seconds": 40.2}, LAG, "lag 40.2 s is over 30 s"),
        # An old time that a worker still shows means nothing when all is applied.
        ({}, {"unapplied_seconds": 4000.0}, "", ""),
        ({}, {"contact_age_seconds": 3.5}, LAG, "the source was not heard of for 3.5 s"),
        ({}, {"contact_age_seconds": None}, FAULT, "the source was not heard of yet"),
        # A channel that asks for a heartbeat every 30 s may be silent for as long.
        ({}, {"contact_age_seconds": 31.0, "heartbeat_interval_seconds": 30.0}, "", ""),
        ({}, {"contact_age_seconds": 76.0, "heartbeat_interval_seconds": 30.0}, LAG, "76.0 s"),
        # Without instruments or heartbeats nobody knows: it is said so, and not guessed.
        ({}, {"contact_age_seconds": None, "instruments": 0}, "", ""),
        ({}, {"contact_age_seconds": 900.0, "heartbeat_interval_seconds": 0.0}, "", ""),
    ],
)
def test_one_sample(
    host: Host,
    programs: ScriptedProcesses,
    changes: dict[str, Any],
    facts: dict[str, Any],
    kind: str,
    why: str,
) -> None:
    programs.on("SHOW REPLICA STATUS", answer=looks(status(**changes), **facts))
    sample = look(host, programs)
    assert why in sample.problem
    assert (sample.kind, bool(sample.problem)) == (kind, bool(why))


def test_a_sample_is_one_connection_that_counts_what_is_behind(
    host: Host, programs: ScriptedProcesses
) -> None:
    answer = looks(status(), received=f"{SERVER}:1-95", unapplied_seconds=1.5, contact_age_seconds=2.5)
    programs.on("SHOW REPLICA STATUS", answer=answer)
    sample = look(host, programs)
    assert (sample.transactions_behind, sample.lag_seconds, sample.staleness_seconds) == (5, 1.5, 2.5)
    assert (sample.receiver_runs, sample.applier_runs, sample.unknown) == (True, True, ())
    assert len(programs.calls) == 1


def test_what_the_server_does_not_tell_is_null_and_named(host: Host, programs: ScriptedProcesses) -> None:
    nothing = dict.fromkeys(("received", "contact_age_seconds", "heartbeat_interval_seconds", "heartbeats"))
    programs.on("SHOW REPLICA STATUS", answer=looks(status(), instruments=0, **nothing))
    sample = look(host, programs)
    assert sample.unknown == ("transactions_behind", "source_silent_seconds", "unapplied_seconds")
    assert (sample.transactions_behind, sample.source_silent_seconds) == (None, None)


def test_a_long_transaction_on_its_way_is_word_from_the_source(
    host: Host, programs: ScriptedProcesses
) -> None:
    watch = SourceWatch()
    problems = []
    for second, position in enumerate([100, 200, 300, 300, 300, 300, 300]):
        answer = looks(status(Read_Source_Log_Pos=position), contact_age_seconds=60.0 + second)
        programs.on("SHOW REPLICA STATUS", answer=answer)
        problems.append(look(host, programs, watch=watch, now=float(second)).problem)
    assert "60.0 s" in problems[0], "nothing is known yet but the last heartbeat"
    assert problems[1:6] == [""] * 5
    assert problems[6] == "the source was not heard of for 4.0 s"


def test_mariadb_tells_its_positions_and_heartbeats(host: Host, programs: ScriptedProcesses) -> None:
    row = {
        "Master_Host": "10.77.1.10",
        "Slave_IO_Running": "Yes",
        "Slave_SQL_Running": "Yes",
        "Seconds_Behind_Master": "0",
        "Master_Log_File": "binlog.000002",
        "Read_Master_Log_Pos": "4711",
        "Gtid_IO_Pos": "0-1-25",
    }
    watch, samples = SourceWatch(), []
    for second, heartbeats in enumerate([7, 8, 8, 8, 8, 8]):
        facts = {"read_only": 1, "executed": "0-1-21", "heartbeats": str(heartbeats)}
        programs.on(
            "SHOW SLAVE STATUS", answer=json_row(**facts, heartbeat_interval_seconds="1.000") + table(row)
        )
        samples.append(look(host, programs, engine="mariadb", watch=watch, now=float(second)))
    assert samples[0].problem == "the source was not heard of yet"
    assert [sample.problem for sample in samples[1:5]] == [""] * 4
    assert samples[5].problem == "the source was not heard of for 4.0 s"
    assert (samples[1].transactions_behind, samples[1].unknown) == (4, ("unapplied_seconds",))


def test_silence_is_measured_by_the_channels_own_heartbeat() -> None:
    assert [silence_limit_seconds(interval) for interval in (None, 0.0, 1.0, 2.0, 30.0)] == [3, 3, 3, 5, 75]


def test_a_disk_that_is_nearly_full_is_a_fault_and_named(host: Host, programs: ScriptedProcesses) -> None:
    programs.on("SHOW REPLICA STATUS", answer=looks(status()))
    sample = look(host, programs, {"/var/lib/mysql": 40.0, "/var/lib/mysql-log": 2.13})
    assert sample.problem == "2.1 % of /var/lib/mysql-log is free, 5 % needed"
    assert sample.kind == FAULT


@pytest.mark.parametrize(("may", "problem"), [(False, "it is the source, which serves no reads"), (True, "")])
def test_a_source_answers_good_only_where_it_may_serve_reads(
    host: Host, programs: ScriptedProcesses, may: bool, problem: str
) -> None:
    programs.on("SHOW REPLICA STATUS", answer=looks("", read_only=0))
    sample = look(host, programs, policy=HealthPolicy(source_serves_reads=may))
    assert (sample.problem, sample.is_source) == (problem, True)


def test_a_source_that_may_serve_reads_still_needs_room(host: Host, programs: ScriptedProcesses) -> None:
    programs.on("SHOW REPLICA STATUS", answer=looks("", read_only=0))
    sample = look(host, programs, {"/var/lib/mysql": 1.0}, HealthPolicy(source_serves_reads=True))
    assert (sample.kind, "1.0 % of /var/lib/mysql" in sample.problem) == (FAULT, True)


def test_no_channel_and_no_answer_are_faults(host: Host, programs: ScriptedProcesses) -> None:
    programs.on("SHOW REPLICA STATUS", answer=looks(""))
    assert (look(host, programs).problem, look(host, programs).kind) == ("no replication channel", FAULT)
    programs.on("mysql", answer=CommandFailed("did not end within 2 s"))
    assert "did not end" in look(host, programs).problem
    programs.on("mysql", answer="result\n")
    assert look(host, programs).kind == FAULT, "half an answer is none"


@pytest.mark.parametrize(
    "said",
    [
        "ERROR 1045 (28000): Access denied for user 'peaker_health'@'localhost'",
        "Could not open required defaults file: /etc/peaker/health.cnf",
    ],
)
def test_a_missing_account_is_named_as_such(host: Host, programs: ScriptedProcesses, said: str) -> None:
    programs.on("mysql", answer=CommandFailed(f"mysql ended with exit code 1: {said}"))
    sample = look(host, programs)
    assert sample.problem.startswith("the responder's database account is missing or refused")
    assert (said in sample.problem, sample.kind) == (True, FAULT)


class TestSampler:
    def replica(self, host: Host, programs: ScriptedProcesses, lag: str) -> tuple[HealthState, Sampler]:
        state = HealthState()
        programs.on("SHOW REPLICA STATUS", answer=looks(status(Seconds_Behind_Source=lag)))
        return state, Sampler(host.settings, admin_client(host.settings, programs), state)

    def test_it_asks_its_peers_only_when_lag_is_all_that_is_wrong(
        self, host: Host, programs: ScriptedProcesses, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[Any] = []

        def ask_peers(peers: Any, port: int) -> list[Standing]:
            asked.append((peers, port))
            return [Standing("i-1", "good")]

        monkeypatch.setattr("peaker_host.health.responder.ask_peers", ask_peers)
        peers = '{"peers":[{"instance_id":"i-1","address":"10.0.0.1"}],"bad_samples":1,"floor_replicas":1}'
        store_policy(host.settings, parse_policy(peers))
        _, sampler = self.replica(host, programs, "0")
        sampler.look()
        assert not asked
        state, sampler = self.replica(host, programs, "99")
        sampler.look()
        assert asked == [((Peer("i-1", "10.0.0.1"),), 9200)]
        code, body = state.answer(False, time.monotonic())
        assert (code, body["floor"]["peers_good"]) == (503, 1)

    def test_the_only_replica_goes_on_under_lag(self, host: Host, programs: ScriptedProcesses) -> None:
        codes = {}
        for floor in (0, 1):
            store_policy(host.settings, parse_policy(f'{{"bad_samples":1,"floor_replicas":{floor}}}'))
            state, sampler = self.replica(host, programs, "99")
            sampler.look()
            code, body = state.answer(False, time.monotonic())
            codes[floor] = code, body["kept_by_floor"]
        assert codes == {0: (503, False), 1: (200, True)}, "and it leaves while its peers are not known"

    def test_a_policy_that_cannot_be_read_is_a_bad_sample_not_the_end(
        self, host: Host, programs: ScriptedProcesses
    ) -> None:
        state, sampler = self.replica(host, programs, "0")
        (host.root / "health.json").write_text('{"unheard_of": 1}')
        sampler.look()
        code, body = state.answer(False, time.monotonic())
        assert (code, "no sample could be taken" in body["why"]) == (503, True)


def test_the_policy_is_kept_on_the_host_and_an_empty_one_keeps_it(host: Host) -> None:
    assert load_policy(host.settings) == HealthPolicy()
    store_policy(host.settings, parse_policy('{"bad_samples":4,"lag_seconds":2.5}'))
    store_policy(host.settings, parse_policy("{}"))
    assert load_policy(host.settings) == HealthPolicy(bad_samples=4, lag_seconds=2.5)
    peers = '{"peers":[{"instance_id":"i-1","address":"10.0.0.1"}]}'
    assert store_policy(host.settings, parse_policy(peers)) is True
    assert store_policy(host.settings, parse_policy(peers)) is False, "nothing new"
    assert load_policy(host.settings).peers == (Peer("i-1", "10.0.0.1"),)
    assert load_policy(host.settings).bad_samples == 4, "what is not named is kept"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("{", "not JSON"),
        ("[]", "must be a JSON object"),
        ('{"lag":1}', "unknown field 'lag'"),
        ('{"bad_samples":0}', "bad_samples must be a whole number of at least 1"),
        ('{"lag_seconds":"5"}', "lag_seconds must be a number"),
        ('{"floor_replicas":1.5}', "floor_replicas must be a whole number"),
        ('{"source_serves_reads":1}', "source_serves_reads must be true or false"),
        ('{"peers":{}}', "must be a JSON list"),
        ('{"peers":[{"address":"10.0.0.1"}]}', "needs instance_id and address"),
        ('{"peers":[{"instance_id":"i-1","address":"10.0.0.1/x"}]}', "no name or address"),
    ],
)
def test_a_wrong_policy_names_the_field(text: str, names: str) -> None:
    with pytest.raises(InvalidArgument, match=names):
        parse_policy(text)


@pytest.fixture
def responder(host: Host, programs: ScriptedProcesses, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr("peaker_host.health.responder.SAMPLE_SECONDS", 0.02)
    programs.on("SHOW REPLICA STATUS", answer=looks(status()))
    stop, state = threading.Event(), HealthState()
    sampler = Sampler(host.settings, admin_client(host.settings, programs), state)
    threading.Thread(target=sampler.forever, args=(stop,), daemon=True).start()
    with answering(HealthServer(listen(["127.0.0.1"], 0), lambda: answer_now(state, host.settings))) as port:
        yield f"http://127.0.0.1:{port}/"
    stop.set()


def ask(url: str) -> tuple[int, dict[str, Any]]:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def ask_until(url: str, wanted: int) -> dict[str, Any]:
    deadline = time.monotonic() + 5
    while True:
        code, body = ask(url)
        if code == wanted:
            return body
        assert time.monotonic() < deadline, (code, body)
        time.sleep(0.02)


def test_over_http_good_bad_and_maintenance(host: Host, programs: ScriptedProcesses, responder: str) -> None:
    assert ask_until(responder, 200)["state"] == "good"
    assert set_maintenance(host.settings, True) == {"maintenance": "on", "changed": True}
    assert set_maintenance(host.settings, True)["changed"] is False
    assert ask(responder) == (404, {"state": "maintenance", "why": "maintenance is on", "draining": False})
    set_maintenance(host.settings, False)
    assert ask(responder)[0] == 200
    broken = status(Replica_SQL_Running="No", Last_SQL_Error="dup")
    programs.on("SHOW REPLICA STATUS", answer=looks(broken))
    assert ask_until(responder, 503)["why"] == "the applier thread does not run: dup"


def test_report_health_stores_the_policy_and_says_what_is_answered(
    host: Host, programs: ScriptedProcesses, responder: str
) -> None:
    ask_until(responder, 200)
    host.configure(health_port=urllib.parse.urlsplit(responder).port)
    policy = HealthPolicy(good_samples=3, peers=parse_peers('[{"instance_id":"i-1","address":"10.0.0.1"}]'))
    first = report_health(host.settings, programs, policy)
    assert (first["http_status"], first["state"], first["policy_changed"]) == (200, "good", True)
    assert report_health(host.settings, programs, policy)["policy_changed"] is False
    assert load_policy(host.settings) == policy
    assert not programs.said("systemctl"), "it runs"


def test_report_health_starts_a_responder_that_does_not_run(
    host: Host, programs: ScriptedProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("peaker_host.health.responder._RESPONDER_START_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as free:
        host.configure(health_port=free.getsockname()[1])
    programs.on("systemctl")
    with pytest.raises(ResponderUnreachable):
        report_health(host.settings, programs, HealthPolicy())
    assert len(programs.said("restart", UNIT)) == 1


def test_a_drained_replica_says_so_for_two_minutes(host: Host) -> None:
    now = time.time()
    assert is_draining(host.settings, now) is False
    mark_draining(host.settings)
    assert (is_draining(host.settings, now), is_draining(host.settings, now + 130)) == (True, False)


def test_the_service_is_installed_once_and_started_again(host: Host, programs: ScriptedProcesses) -> None:
    programs.on("systemctl")
    install_health_service(host.settings, programs)
    install_health_service(host.settings, programs)
    calls = [argv[1:] for argv, _ in programs.calls]
    assert calls == [["daemon-reload"], ["enable", UNIT], ["restart", UNIT], ["start", UNIT]]
    unit = (host.root / "units" / UNIT).read_text()
    assert "health --port 9200" in unit


class TestAccount:
    """The account that the responder logs in with; the administrator's is never used for that."""

    @pytest.fixture(autouse=True)
    def accepting(self, programs: ScriptedProcesses) -> None:
        programs.on("CREATE USER").on("super_read_only = ON").on("SELECT 1", answer=table({"1": 1}))
        programs.on("@@GLOBAL.super_read_only", answer=json_row(on=1))

    def ensure(self, host: Host, programs: ScriptedProcesses) -> bool:
        return ensure_health_account(host.settings, programs, admin_client(host.settings, programs))

    def test_it_is_made_once_unlogged_with_little_more_than_a_look(
        self, host: Host, programs: ScriptedProcesses
    ) -> None:
        assert self.ensure(host, programs) is True
        (made,) = programs.said("CREATE USER")
        assert "sql_log_bin = 0" in made.split("CREATE USER")[0]
        assert [line for line in made.split(";\n") if "GRANT" in line] == [
            f"GRANT {right} TO 'peaker_health_local'@'localhost'"
            for right in ("REPLICATION CLIENT ON *.*", "SELECT ON performance_schema.*")
        ]
        path = Path(host.settings.health_defaults_file)
        assert path.stat().st_mode & 0o777 == 0o600
        assert self.ensure(host, programs) is False
        assert len(programs.said("CREATE USER")) == 1

    def test_the_owner_s_own_account_is_used_as_it_is(self, host: Host, programs: ScriptedProcesses) -> None:
        path = Path(host.settings.health_defaults_file)
        path.write_text("[client]\nuser=peaker_health\npassword=x\n")
        assert self.ensure(host, programs) is False
        assert "peaker_health\n" in path.read_text()

    def test_a_failure_never_leaves_the_server_writable(
        self, host: Host, programs: ScriptedProcesses
    ) -> None:
        programs.on("CREATE USER", answer=CommandFailed("ERROR 1396"))
        with pytest.raises(DatabaseUnreachable):
            self.ensure(host, programs)
        assert programs.calls[-1][1].endswith("SET GLOBAL super_read_only = ON;\n")

    def test_where_super_read_only_was_off_it_stays_off(
        self, host: Host, programs: ScriptedProcesses
    ) -> None:
        programs.on("@@GLOBAL.super_read_only", answer=json_row(on=0))
        assert self.ensure(host, programs) is True
        assert not programs.said("SET GLOBAL super_read_only")

    def test_super_read_only_is_turned_on_again_though_a_long_transaction_is_being_applied(
        self, host: Host, programs: ScriptedProcesses
    ) -> None:
        busy = iter([CommandFailed("ERROR 1205 (HY000): Lock wait timeout exceeded")] * 2)

        def turn_on(_text: str) -> str:
            if (error := next(busy, None)) is not None:
                raise error
            return ""

        programs.on("super_read_only = ON", answer=turn_on)
        assert self.ensure(host, programs) is True
        assert len(programs.said("super_read_only = ON")) == 3
        assert all("lock_wait_timeout" in line for line in programs.said("super_read_only = ON"))

    def test_a_super_read_only_that_stays_off_is_told_by_its_name(
        self, host: Host, programs: ScriptedProcesses
    ) -> None:
        programs.on("super_read_only = ON", answer=CommandFailed("ERROR 1205 (HY000): Lock wait timeout"))
        with pytest.raises(SuperReadOnlyNotRestored, match="SET GLOBAL super_read_only = ON"):
            self.ensure(host, programs)

    def test_what_lies_in_the_home_directory_is_never_read(
        self, host: Host, programs: ScriptedProcesses
    ) -> None:
        health_client(host.settings, programs).rows("SELECT 1")
        assert programs.environments[-1] == {"HOME": "/nonexistent"}

    def test_the_responder_logs_in_with_it(self, host: Host, programs: ScriptedProcesses) -> None:
        health_client(host.settings, programs).rows("SELECT 1")
        (argv, _) = programs.calls[-1]
        assert f"--defaults-extra-file={host.settings.health_defaults_file}" in argv
