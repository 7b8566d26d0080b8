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
from peaker_host.errors import CommandFailed
from peaker_host.health import HealthState, Sample, serve, set_maintenance, take_sample
from peaker_host.health_service import UNIT, install_health_service
from peaker_host.mysql_client import admin_client

GOOD, BAD = Sample("", 0), Sample("lag 99 s is over 30 s", 99)


def test_bad_until_enough_good_samples_in_a_row() -> None:
    state = HealthState(3)
    answers = []
    for now, sample in enumerate([GOOD, GOOD, BAD, GOOD, GOOD, GOOD]):
        state.add(sample, now)
        answers.append(state.answer(False, now)[0])
    assert answers == [503, 503, 503, 503, 503, 200]


def test_before_the_first_sample_and_with_an_old_one_it_is_bad() -> None:
    state = HealthState(1)
    assert state.answer(False, 0)[0] == 503
    state.add(GOOD, 0)
    assert state.answer(False, 1)[0] == 200
    status_code, body = state.answer(False, 6)
    assert (status_code, body["why"]) == (503, "the last sample is 6.0 s old")


def test_maintenance_wins_over_good_and_bad() -> None:
    state = HealthState(1)
    assert state.answer(True, 0)[0] == 404
    state.add(GOOD, 0)
    assert state.answer(True, 0)[0] == 404


@pytest.mark.parametrize(
    ("changes", "read_only", "why"),
    [
        ({}, 1, ""),
        ({}, 0, "accepts writes"),
        ({"Seconds_Behind_Source": None}, 1, "lag is unknown"),
        ({"Seconds_Behind_Source": "31"}, 1, "lag 31 s"),
        ({"Replica_IO_Running": "Connecting"}, 1, "receiver"),
        ({"Replica_SQL_Running": "No"}, 1, "applier"),
    ],
)
def test_one_sample(
    host: Host, programs: ScriptedProcesses, changes: dict[str, Any], read_only: int, why: str
) -> None:
    programs.on("read_only", answer=json_row(read_only=read_only))
    programs.on("SHOW REPLICA STATUS", answer=status(**changes))
    problem = take_sample(admin_client(host.settings, programs), "mysql", 30).problem
    assert why in problem
    assert bool(problem) is bool(why)


def test_no_channel_and_no_answer_are_bad(host: Host, programs: ScriptedProcesses) -> None:
    programs.on("read_only", answer=json_row(read_only=1)).on("SHOW REPLICA STATUS", answer="")
    client = admin_client(host.settings, programs)
    assert take_sample(client, "mysql", 30).problem == "no replication channel"
    programs.on("mysql", answer=CommandFailed("did not end within 3 s"))
    assert "did not end" in take_sample(client, "mysql", 30).problem


@pytest.fixture
def responder(host: Host, programs: ScriptedProcesses, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr("peaker_host.health.SAMPLE_SECONDS", 0.02)
    programs.on("read_only", answer=json_row(read_only=1)).on("SHOW REPLICA STATUS", answer=status())
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
