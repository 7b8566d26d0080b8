"""The three answers of the health responder, over HTTP."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from host_bench import Host, ScriptedProcesses, json_row, status
from peaker_host.errors import CommandFailed, InvalidArgument
from peaker_host.health import HealthState, Sample, serve, set_maintenance, take_sample
from peaker_host.health_policy import HealthPolicy, load_policy, parse_policy, store_policy
from peaker_host.health_service import UNIT, install_health_service
from peaker_host.mysql_client import admin_client

GOOD, BAD = Sample("", 0), Sample("lag 99 s is over 30 s", 99)


POLICY = HealthPolicy(good_samples=2, bad_samples=2, lag_seconds=30, min_free_disk_percent=5)
ROOM = {"/var/lib/mysql": 40.0, "/var/lib/mysql-log": 60.0}
SERVER = "3d664b29-e551-11f1-b745-6ef0865e2f1c"


def progress(**changes: Any) -> str:
    """What a healthy replica answers about its progress."""
    facts: dict[str, Any] = {
        "read_only": 1,
        "received": f"{SERVER}:1-90",
        "executed": f"{SERVER}:1-90",
        "contact_age_seconds": 0.4,
        "waiting_seconds": None,
    }
    return json_row(**{**facts, **changes})


def statuses(state: HealthState, samples: list[Sample]) -> list[int]:
    codes = []
    for now, sample in enumerate(samples):
        state.add(sample, now)
        codes.append(state.answer(False, now)[0])
    return codes


def test_bad_until_enough_good_samples_in_a_row() -> None:
    assert statuses(HealthState(3, 1), [GOOD, GOOD, BAD, GOOD, GOOD, GOOD]) == [503, 503, 503, 503, 503, 200]


def test_good_until_enough_bad_samples_in_a_row() -> None:
    samples = [GOOD, BAD, GOOD, BAD, BAD, GOOD]
    assert statuses(HealthState(1, 2), samples) == [200, 200, 200, 200, 503, 200]


def test_one_slow_sample_does_not_turn_it_but_is_told() -> None:
    state = HealthState(1, 2)
    statuses(state, [GOOD, BAD])
    code, body = state.answer(False, 1)
    assert (code, body["bad_samples"]) == (200, 1)
    assert "the last sample was not: lag 99 s" in body["why"]


def test_before_the_first_sample_and_with_an_old_one_it_is_bad() -> None:
    state = HealthState(1, 2)
    assert state.answer(False, 0)[0] == 503
    state.add(GOOD, 0)
    assert state.answer(False, 1)[0] == 200
    status_code, body = state.answer(False, 6)
    assert (status_code, body["why"]) == (503, "the last sample is 6.0 s old")


def test_maintenance_wins_over_good_and_bad() -> None:
    state = HealthState(1, 2)
    assert state.answer(True, 0)[0] == 404
    state.add(GOOD, 0)
    assert state.answer(True, 0)[0] == 404


@pytest.mark.parametrize(
    ("changes", "facts", "why"),
    [
        ({}, {}, ""),
        ({}, {"read_only": 0}, "accepts writes"),
        ({"Seconds_Behind_Source": None}, {}, "lag is unknown"),
        ({"Seconds_Behind_Source": "31"}, {}, "lag 31.0 s is over 30 s"),
        ({"Replica_IO_Running": "Connecting"}, {}, "receiver"),
        ({"Replica_SQL_Running": "No"}, {}, "applier"),
        # The server says 0 while the first transaction that it has not applied is 40 s old.
        ({}, {"received": f"{SERVER}:1-95", "waiting_seconds": 40.2}, "lag 40.2 s is over 30 s"),
        # An old time that a worker still shows means nothing when all is applied.
        ({}, {"waiting_seconds": 4000.0}, ""),
        ({}, {"contact_age_seconds": 3.5}, "the source was not heard of for 3.5 s"),
        ({}, {"contact_age_seconds": None}, "the source was not heard of yet"),
    ],
)
def test_one_sample(
    host: Host, programs: ScriptedProcesses, changes: dict[str, Any], facts: dict[str, Any], why: str
) -> None:
    programs.on("read_only", answer=progress(**facts))
    programs.on("SHOW REPLICA STATUS", answer=status(**changes))
    problem = take_sample(admin_client(host.settings, programs), "mysql", POLICY, ROOM).problem
    assert why in problem
    assert bool(problem) is bool(why)


def test_a_sample_counts_transactions_behind_and_the_fullest_disk(
    host: Host, programs: ScriptedProcesses
) -> None:
    programs.on("read_only", answer=progress(received=f"{SERVER}:1-95", waiting_seconds=1.5))
    programs.on("SHOW REPLICA STATUS", answer=status())
    sample = take_sample(admin_client(host.settings, programs), "mysql", POLICY, ROOM)
    assert (sample.transactions_behind, sample.lag_seconds, sample.free_disk_percent) == (5, 1.5, 40.0)


def test_a_disk_that_is_nearly_full_is_bad_and_named(host: Host, programs: ScriptedProcesses) -> None:
    programs.on("read_only", answer=progress()).on("SHOW REPLICA STATUS", answer=status())
    room = {"/var/lib/mysql": 40.0, "/var/lib/mysql-log": 2.13}
    sample = take_sample(admin_client(host.settings, programs), "mysql", POLICY, room)
    assert sample.problem == "2.1 % of /var/lib/mysql-log is free, 5 % needed"


def test_no_channel_and_no_answer_are_bad(host: Host, programs: ScriptedProcesses) -> None:
    programs.on("read_only", answer=progress()).on("SHOW REPLICA STATUS", answer="")
    client = admin_client(host.settings, programs)
    assert take_sample(client, "mysql", POLICY, ROOM).problem == "no replication channel"
    programs.on("mysql", answer=CommandFailed("did not end within 3 s"))
    assert "did not end" in take_sample(client, "mysql", POLICY, ROOM).problem


def test_the_policy_is_kept_on_the_host_and_an_empty_one_keeps_it(host: Host) -> None:
    assert load_policy(host.settings) == HealthPolicy()
    store_policy(host.settings, parse_policy('{"bad_samples":4,"lag_seconds":2.5}'))
    store_policy(host.settings, parse_policy("{}"))
    assert load_policy(host.settings) == HealthPolicy(bad_samples=4, lag_seconds=2.5)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("{", "not JSON"),
        ("[]", "must be a JSON object"),
        ('{"lag":1}', "unknown field 'lag'"),
        ('{"bad_samples":0}', "bad_samples must be a whole number of at least 1"),
        ('{"lag_seconds":"5"}', "lag_seconds must be a number"),
    ],
)
def test_a_wrong_policy_names_the_field(text: str, names: str) -> None:
    with pytest.raises(InvalidArgument, match=names):
        parse_policy(text)


@pytest.fixture
def responder(host: Host, programs: ScriptedProcesses, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr("peaker_host.health.SAMPLE_SECONDS", 0.02)
    programs.on("read_only", answer=progress()).on("SHOW REPLICA STATUS", answer=status())
    stop = threading.Event()
    server = serve(host.settings, admin_client(host.settings, programs), 0, stop, "127.0.0.1")
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    stop.set()
    server.shutdown()
    server.server_close()


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
    assert ask(responder) == (404, {"state": "maintenance", "why": "maintenance is on"})
    set_maintenance(host.settings, False)
    assert ask(responder)[0] == 200
    programs.on("SHOW REPLICA STATUS", answer=status(Replica_SQL_Running="No", Last_SQL_Error="dup"))
    assert ask_until(responder, 503)["why"] == "the applier thread does not run: dup"


def test_the_service_is_installed_once_and_started_again(host: Host, programs: ScriptedProcesses) -> None:
    programs.on("systemctl")
    install_health_service(host.settings, programs)
    install_health_service(host.settings, programs)
    calls = [argv[1:] for argv, _ in programs.calls]
    assert calls == [["daemon-reload"], ["enable", UNIT], ["restart", UNIT], ["start", UNIT]]
    unit = (host.root / "units" / UNIT).read_text()
    assert "health --port 9200" in unit
