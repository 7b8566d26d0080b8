"""One look at the replica: what is a fault, what is lag, what is unknown."""

from __future__ import annotations

from typing import Any

import pytest
from host_bench import B, Host, ScriptedProcesses, json_row, looks, status, table
from peaker_host.health.policy import HealthPolicy
from peaker_host.health.sample import (
    FAULT,
    FULL,
    LAG,
    Sample,
    SourceSilence,
    silence_limit_seconds,
    take_sample,
)
from peaker_host.machine.errors import CommandFailed

POLICY = HealthPolicy(lag_seconds=30)
ROOM = {"/var/lib/mysql": 40.0, "/var/lib/mysql-log": 60.0}

# While it has no connection the server knows no lag.
AWAY = {"Replica_IO_Running": "Connecting", "Seconds_Behind_Source": None}


def look(
    host: Host,
    programs: ScriptedProcesses,
    room: dict[str, float] = ROOM,
    policy: HealthPolicy = POLICY,
    engine: str = "mysql",
    silence: SourceSilence | None = None,
    now: float = 0.0,
) -> Sample:
    client = host.client(programs)
    return take_sample(client, engine, policy, room, silence or SourceSilence(), now)


@pytest.mark.parametrize(
    ("changes", "facts", "kind", "why"),
    [
        ({}, {}, "", ""),
        ({}, {"read_only": 0}, FAULT, "accepts writes"),
        ({"Seconds_Behind_Source": None}, {}, FAULT, "lag is unknown"),
        ({"Seconds_Behind_Source": "31"}, {}, LAG, "lag 31.0 s is over 30 s"),
        ({"Replica_IO_Running": "No"}, {}, FAULT, "receiver"),
        # The source's host is gone: no answer to the first try yet, then one error each few seconds.
        (AWAY, {}, LAG, "the source cannot be reached, it was heard of 0.4 s ago"),
        ({**AWAY, "Last_IO_Errno": "2003"}, {"contact_age_seconds": 90.0}, LAG, "90.0 s ago"),
        *(
            ({**AWAY, "Last_IO_Errno": number}, {}, LAG, "cannot be reached")
            for number in ("2002", "2005", "2013")
        ),
        # Without performance_schema's heartbeats nothing tells how old it is.
        ({**AWAY, "Last_IO_Errno": "2003"}, {"contact_age_seconds": None}, FAULT, "not heard of yet"),
        (
            {**AWAY, "Last_IO_Errno": "2003"},
            {"contact_age_seconds": None, "instruments": 0},
            FAULT,
            "not heard of",
        ),
        ({**AWAY, "Last_IO_Errno": "1045", "Last_IO_Error": "Access denied"}, {}, FAULT, "receiver thread"),
        ({**AWAY, "Last_IO_Errno": "2003", "Replica_SQL_Running": "No"}, {}, FAULT, "thread does not run"),
        ({"Replica_SQL_Running": "No", "Seconds_Behind_Source": "31"}, {}, FAULT, "applier"),
        # The server says 0 while the first transaction that it has not applied is 40 s old.
        ({}, {"received": f"{B}:1-95", "unapplied_seconds": 40.2}, LAG, "lag 40.2 s is over 30 s"),
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
    answer = looks(status(), received=f"{B}:1-95", unapplied_seconds=1.5, contact_age_seconds=2.5)
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


def test_a_replica_whose_source_is_away_is_as_old_as_the_last_word_of_it(
    host: Host, programs: ScriptedProcesses
) -> None:
    """What it says of itself lets its peers compare: whoever heard of the source last goes on serving."""
    lost = {
        **AWAY,
        "Last_IO_Errno": "2003",
        "Last_IO_Error": "Can't connect to MySQL server on '10.77.1.10:3306'",
    }
    answer = looks(status(**lost), contact_age_seconds=41.5, received=f"{B}:1-95", unapplied_seconds=44.0)
    programs.on("SHOW REPLICA STATUS", answer=answer)
    sample = look(host, programs)
    assert (sample.receiver_runs, sample.applier_runs, sample.lag_seconds) == (False, True, None)
    assert (sample.source_silent_seconds, sample.staleness_seconds, sample.unknown) == (41.5, 44.0, ())
    assert sample.problem.endswith("41.5 s ago: Can't connect to MySQL server on '10.77.1.10:3306'")


def test_a_server_that_tells_no_heartbeats_is_as_old_as_what_arrived_last(
    host: Host, programs: ScriptedProcesses
) -> None:
    silence, found = SourceSilence(), []
    for second, changes in enumerate([{"Read_Source_Log_Pos": 1}, {"Read_Source_Log_Pos": 2}, AWAY, AWAY]):
        row = {"Read_Source_Log_Pos": 2, "Last_IO_Errno": "2003" if "Replica_IO_Running" in changes else "0"}
        nothing = {"instruments": 0, "contact_age_seconds": None, "heartbeats": None}
        programs.on("SHOW REPLICA STATUS", answer=looks(status(**{**row, **changes}), **nothing))
        found.append(look(host, programs, silence=silence, now=float(second)))
    assert [(one.kind, one.staleness_seconds) for one in found] == [
        ("", 0.0),
        ("", 0.0),
        (LAG, 1.0),
        (LAG, 2.0),
    ]


def test_a_long_transaction_on_its_way_is_word_from_the_source(
    host: Host, programs: ScriptedProcesses
) -> None:
    silence = SourceSilence()
    problems = []
    for second, position in enumerate([100, 200, 300, 300, 300, 300, 300]):
        answer = looks(status(Read_Source_Log_Pos=position), contact_age_seconds=60.0 + second)
        programs.on("SHOW REPLICA STATUS", answer=answer)
        problems.append(look(host, programs, silence=silence, now=float(second)).problem)
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
    silence, samples = SourceSilence(), []
    for second, heartbeats in enumerate([7, 8, 8, 8, 8, 8]):
        facts = {"read_only": 1, "executed": "0-1-21", "heartbeats": str(heartbeats)}
        programs.on(
            "SHOW SLAVE STATUS", answer=json_row(**facts, heartbeat_interval_seconds="1.000") + table(row)
        )
        samples.append(look(host, programs, engine="mariadb", silence=silence, now=float(second)))
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
        "ERROR 1040 (HY000): Too many connections",
        "ERROR 1203 (42000): User peaker_health already has more than 'max_user_connections' active connections",
    ],
)
def test_a_server_without_a_place_for_the_responder_was_not_looked_at(
    host: Host, programs: ScriptedProcesses, said: str
) -> None:
    programs.on("mysql", answer=CommandFailed(f"mysql ended with exit code 1: {said}"))
    sample = look(host, programs)
    assert sample.problem == (
        f"the database has no place for one more connection: mysql ended with exit code 1: {said}"
    )
    assert (sample.kind, sample.lag_seconds, sample.free_disk_percent) == (FULL, None, ROOM)
    assert look(host, programs, {"/var/lib/mysql": 1.0}).kind == FAULT, "its disk is known without the server"


@pytest.mark.parametrize(
    "said",
    [
        "ERROR 1045 (28000): Access denied for user 'peaker_health'@'localhost'",
        "ERROR 4151 (HY000): Access denied, this account is locked",
        "Could not open required defaults file: /etc/peaker/health.cnf",
    ],
)
def test_a_missing_account_is_named_as_such(host: Host, programs: ScriptedProcesses, said: str) -> None:
    programs.on("mysql", answer=CommandFailed(f"mysql ended with exit code 1: {said}"))
    sample = look(host, programs)
    assert sample.problem.startswith("the responder's database account is missing or refused")
    assert (said in sample.problem, sample.kind) == (True, FAULT)


def test_lag_is_no_hour_when_the_servers_own_clock_changes(host: Host) -> None:
    programs = ScriptedProcesses().on("SHOW REPLICA STATUS", answer=looks(status()))
    look(host, programs)
    ((command, _),) = programs.calls
    assert "SET time_zone = '+00:00'" in " ".join(command)
