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
from typing import Any

import pytest
from host_bench import Host, ScriptedProcesses, answering, looks, status
from peaker_host.health.policy import (
    FloorDecision,
    HealthPolicy,
    Peer,
    Standing,
    load_policy,
    parse_policy,
    store_policy,
)
from peaker_host.health.responder import (
    HealthState,
    Sampler,
    answer_now,
    is_draining,
    mark_draining,
    report_health,
)
from peaker_host.health.sample import FAULT, FULL, LAG, Sample
from peaker_host.health.server import HealthServer, listen
from peaker_host.health.unit import UNIT
from peaker_host.machine.errors import InvalidArgument, ResponderUnreachable

GOOD = Sample("", lag_seconds=0.0, staleness_seconds=0.0)
LATE = Sample("lag 99 s is over 30 s", LAG, lag_seconds=99.0, staleness_seconds=99.0)
BROKEN = Sample("the applier thread does not run: dup", FAULT)
CROWDED = Sample("the database has no place for one more connection: ERROR 1040", FULL)
KEEP = FloorDecision(True, "0 of 1 peers are good, the floor is 1", {"floor_replicas": 1})


def statuses(
    samples: list[Sample], good: int = 1, bad: int = 1, floor: FloorDecision | None = None
) -> tuple[list[int], HealthState]:
    state = HealthState(good, bad)
    codes = []
    for now, sample in enumerate(samples):
        state.add(sample, floor if state.asks_for_floor(sample) else None, now)
        codes.append(state.answer(False, now)[0])
    return codes, state


def test_bad_until_enough_good_samples_in_a_row() -> None:
    codes, _ = statuses([GOOD, GOOD, LATE, GOOD, GOOD, GOOD], good=3)
    assert codes == [503, 503, 503, 503, 503, 200]


def test_good_until_enough_bad_samples_in_a_row() -> None:
    codes, _ = statuses([GOOD, LATE, GOOD, BROKEN, LATE, GOOD], bad=2)
    assert codes == [200, 200, 200, 200, 503, 200]


def test_one_slow_sample_does_not_turn_it_but_is_told() -> None:
    _, state = statuses([GOOD, LATE], bad=2)
    code, body = state.answer(False, 1)
    assert (code, body["bad_samples"]) == (200, 1)
    assert "the last sample was not: lag 99 s" in body["why"]


def test_before_the_first_sample_and_with_an_old_one_it_is_bad() -> None:
    state = HealthState(good_samples=1)
    assert state.answer(False, 0)[0] == 503
    state.add(GOOD, None, 0)
    assert state.answer(False, 5)[0] == 200
    status_code, body = state.answer(False, 6)
    assert (status_code, body["state"], body["why"]) == (503, "bad", "the last sample is 6.0 s old")


class TestAFullServer:
    """At a peak clients hold all connections (ERROR 1040). They are served; to eject it would send them to the next."""

    def test_the_last_verdict_stands_for_a_minute(self) -> None:
        codes, state = statuses([GOOD, GOOD, *[CROWDED] * 63], good=2, bad=2)
        assert codes[1:] == [200] * 62 + [503] * 2, "seconds 1 to 61, one more bad sample, then out"
        assert state.answer(False, 64)[1]["why"] == CROWDED.problem

    def test_meanwhile_it_says_so(self) -> None:
        _, state = statuses([GOOD, *[CROWDED] * 7])
        code, body = state.answer(False, 7)
        assert (code, body["lag_seconds"], body["sample_age_seconds"]) == (200, None, 0.0)
        assert body["why"].endswith("ERROR 1040; what was seen 7 s ago counts, for 60 s at most)")

    def test_what_was_bad_does_not_become_good_by_it(self) -> None:
        assert statuses([GOOD, BROKEN, CROWDED, GOOD])[0] == [200, 503, 503, 200]
        assert statuses([CROWDED, CROWDED])[0] == [503, 503], "nothing was ever seen of it"
        assert statuses([GOOD, BROKEN, CROWDED, BROKEN], bad=2)[0] == [200, 200, 200, 503]


class TestFloor:
    """Lag alone is forgiven while the floor asks for it; nothing else ever is."""

    def test_a_lagging_replica_goes_on_and_says_why(self) -> None:
        codes, state = statuses([GOOD, LATE, LATE, LATE], bad=2, floor=KEEP)
        assert codes == [200, 200, 200, 200]
        body = state.answer(False, 3)[1]
        assert (body["state"], body["kept_by_floor"], body["only_lag"]) == ("bad", True, True)
        assert body["why"] == "lag 99 s is over 30 s; goes on serving: 0 of 1 peers are good, the floor is 1"

    def test_a_fault_is_never_forgiven(self) -> None:
        codes, state = statuses([LATE, BROKEN], floor=KEEP)
        assert codes == [200, 503]
        state.add(BROKEN, KEEP, 2)
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


class TestSampler:
    def replica(self, host: Host, programs: ScriptedProcesses, lag: str) -> tuple[HealthState, Sampler]:
        state = HealthState(bad_samples=1)
        programs.on("SHOW REPLICA STATUS", answer=looks(status(Seconds_Behind_Source=lag)))
        return state, Sampler(host.settings, host.client(programs), state)

    def test_it_asks_its_peers_only_when_lag_is_all_that_is_wrong(
        self, host: Host, programs: ScriptedProcesses, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[Any] = []

        def ask_peers(peers: Any, port: int) -> list[Standing]:
            asked.append((peers, port))
            return [Standing("i-1", "good")]

        monkeypatch.setattr("peaker_host.health.responder.ask_peers", ask_peers)
        peers = '{"peers":[{"instance_id":"i-1","address":"10.0.0.1"}],"floor_replicas":1}'
        store_policy(host.settings, parse_policy(peers))
        _, sampler = self.replica(host, programs, "0")
        sampler.look()
        assert not asked
        state, sampler = self.replica(host, programs, "99")
        sampler.look()
        assert asked == [((Peer("i-1", "10.0.0.1"),), 9200)]
        code, body = state.answer(False, time.monotonic())
        assert (code, body["floor"]["peers_good"]) == (503, 1)

    def test_a_lost_source_takes_nobody_out_where_all_have_lost_it(
        self, host: Host, programs: ScriptedProcesses, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The source's host fails: the receivers of all replicas ask for it, and none of them answers 503."""
        lost = {"Replica_IO_Running": "Connecting", "Seconds_Behind_Source": None, "Last_IO_Errno": "2003"}
        answer = looks(status(**lost), contact_age_seconds=41.5)
        programs.on("SHOW REPLICA STATUS", answer=answer)
        peers = [Standing("i-2", "lagging", 42.0)]
        monkeypatch.setattr("peaker_host.health.responder.ask_peers", lambda *_: peers)
        store_policy(host.settings, {"floor_replicas": 1})
        state = HealthState(bad_samples=1)
        Sampler(host.settings, host.client(programs), state, lambda: 0.0).look()
        code, body = state.answer(False, 0)
        assert (code, body["kept_by_floor"], body["only_lag"], body["staleness_seconds"]) == (
            200,
            True,
            True,
            41.5,
        )
        assert "the source cannot be reached" in body["why"]

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
    store_policy(host.settings, parse_policy('{"floor_replicas":4,"lag_seconds":2.5}'))
    store_policy(host.settings, parse_policy("{}"))
    assert load_policy(host.settings) == HealthPolicy(floor_replicas=4, lag_seconds=2.5)
    peers = '{"peers":[{"instance_id":"i-1","address":"10.0.0.1"}]}'
    assert store_policy(host.settings, parse_policy(peers)) is True
    assert store_policy(host.settings, parse_policy(peers)) is False, "nothing new"
    assert load_policy(host.settings).peers == (Peer("i-1", "10.0.0.1"),)
    assert load_policy(host.settings).floor_replicas == 4, "what is not named is kept"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("{", "Expecting"),
        ("[]", "no JSON object"),
        ('{"lag":1}', "unknown field 'lag'"),
        ('{"lag_seconds":"5"}', "lag_seconds is '5', not a float"),
        ('{"floor_replicas":1.5}', "floor_replicas is 1.5, not a int"),
        ('{"source_serves_reads":1}', "source_serves_reads is 1, not a bool"),
        ('{"peers":{}}', "peers is {}, not a list"),
        ('{"peers":[{"address":"10.0.0.1"}]}', "KeyError 'instance_id'"),
        ('{"lag_seconds":NaN}', "lag_seconds is nan"),
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
    sampler = Sampler(host.settings, host.client(programs), state)
    threading.Thread(target=sampler.forever, args=(stop,), daemon=True).start()
    with answering(HealthServer(listen(["127.0.0.1"], 0), lambda: answer_now(state, host.settings))) as port:
        yield f"http://127.0.0.1:{port}/"
    stop.set()


def ask(url: str) -> tuple[int, dict[str, Any]]:
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def ask_until(url: str, wanted: int) -> dict[str, Any]:
    deadline = time.monotonic() + 60
    while True:
        code, body = ask(url)
        if code == wanted:
            return body
        assert time.monotonic() < deadline, (code, body)
        time.sleep(0.02)


def test_report_health_stores_the_policy_and_says_what_is_answered(
    host: Host, programs: ScriptedProcesses, responder: str
) -> None:
    ask_until(responder, 200)
    host.configure(health_port=urllib.parse.urlsplit(responder).port)
    policy = parse_policy('{"peers":[{"instance_id":"i-1","address":"10.0.0.1"}]}')
    first = report_health(host.machine(programs), policy)
    assert (first["http_status"], first["state"], first["policy_changed"]) == (200, "good", True)
    assert report_health(host.machine(programs), policy)["policy_changed"] is False
    assert load_policy(host.settings).peers == (Peer("i-1", "10.0.0.1"),)
    assert not programs.said("systemctl"), "it runs"


def test_report_health_starts_a_responder_that_does_not_run(
    host: Host, programs: ScriptedProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("peaker_host.health.responder._RESPONDER_START_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as free:
        host.configure(health_port=free.getsockname()[1])
    programs.on("systemctl")
    with pytest.raises(ResponderUnreachable):
        report_health(host.machine(programs), {})
    assert len(programs.said("restart", UNIT)) == 1


def test_a_drained_replica_says_so_for_two_minutes(host: Host) -> None:
    now = time.time()
    assert is_draining(host.settings, now) is False
    mark_draining(host.settings)
    assert (is_draining(host.settings, now), is_draining(host.settings, now + 130)) == (True, False)
