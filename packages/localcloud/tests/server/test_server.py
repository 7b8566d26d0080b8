"""The local cloud's life: start, refusals, admin endpoints, stop without a rest, command line, versions."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cloud_rig.control import control, eventually
from localcloud import server
from localcloud.open_cloud import LocalCloudError
from localcloud.server import LocalCloud

PACKAGE = Path(__file__).resolve().parents[2]


def ask(url: str, body: Any = None) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data)) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_a_new_cloud_is_empty_and_moto_is_put_back(tmp_path: Path) -> None:
    from moto.stepfunctions.parser.models import StepFunctionsParserBackend

    before = StepFunctionsParserBackend.start_execution
    for _ in range(2):
        with control(tmp_path) as aws:
            assert StepFunctionsParserBackend.start_execution is not before
            assert not aws.dynamodb.list_tables()["TableNames"]
            aws.table()
    assert StepFunctionsParserBackend.start_execution is before


def test_nothing_runs_after_it_is_closed(tmp_path: Path) -> None:
    with control(tmp_path) as aws:
        function = aws.function("import os\ndef handler(event, context): return os.getpid()")
        worker = aws.invoke(function)[1]
        execution = aws.start(aws.machine({"Pause": {"Type": "Wait", "Seconds": 86400, "End": True}}))
        port = aws.cloud.port
        assert aws.stepfunctions.describe_execution(executionArn=execution)["status"] == "RUNNING"
    eventually(lambda: not Path(f"/proc/{worker}").exists())
    eventually(lambda: not [one for one in threading.enumerate() if one.name.startswith("peaker-")])
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


def test_every_answer_carries_the_cloud_s_date(tmp_path: Path) -> None:
    with control(tmp_path) as aws:
        aws.cloud.clock.set(now=datetime(2031, 5, 6, 7, 8, tzinfo=UTC))
        answer = aws.dynamodb.list_tables()
        assert answer["ResponseMetadata"]["HTTPHeaders"]["date"].startswith("Tue, 06 May 2031 07:0")


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with (
            pytest.raises(LocalCloudError, match=f"Port {port} on 127.0.0.1 is taken"),
            LocalCloud(None, tmp_path, port),
        ):
            pass
    with LocalCloud(None, tmp_path):
        pass  # the failed start left nothing behind


@pytest.mark.parametrize("address", ["0.0.0.0", "::", ""])
def test_it_never_listens_on_every_address(tmp_path: Path, address: str) -> None:
    with pytest.raises(LocalCloudError, match="listens on named addresses only"):
        LocalCloud(None, tmp_path, extra_addresses=[address])


def test_a_second_address_serves_the_same_cloud(tmp_path: Path) -> None:
    with LocalCloud(None, tmp_path, extra_addresses=["127.0.0.2"]) as cloud:
        assert cloud.host_endpoint_url == f"http://127.0.0.2:{cloud.port}"
        assert ask(f"{cloud.host_endpoint_url}/_peaker/health")[0] == 200


def test_only_one_may_be_open_in_a_process(tmp_path: Path) -> None:
    second = LocalCloud(None, tmp_path / "b")
    with LocalCloud(None, tmp_path / "a"), pytest.raises(LocalCloudError, match="close it first"):
        second.start()


def test_the_clock_is_read_and_set_over_http(tmp_path: Path) -> None:
    with control(tmp_path) as aws:
        url = f"{aws.cloud.endpoint_url}/_peaker/clock"
        status, clock = ask(url, {"scale": 60, "now": "2026-03-01T08:00:00+01:00"})
        assert status == 200
        assert clock["now"].startswith("2026-03-01T07:")  # a minute is a second of the machine's
        assert ask(url)[1]["scale"] == 60
        volume = aws.ec2.create_volume(AvailabilityZone="us-east-1a", Size=1, VolumeType="gp3")
        assert volume["CreateTime"].strftime("%Y-%m-%d") == "2026-03-01"


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("clock", {"scale": -1}, "scale"),
        ("clock", {"now": "yesterday"}, "now"),
        ("clock", {"now": "2026-01-01T00:00:00"}, "now"),
        ("clock", {"speed": 2}, "speed"),
        ("clock", {}, "body"),
        ("clock", [1], "body"),
        ("metrics/history", {"namespace": "N", "name": "M"}, "points"),
        ("metrics/history", {"namespace": "N", "name": "M", "points": [["2026-01-01", 1]]}, "points[0]"),
    ],
)
def test_a_wrong_admin_request_names_the_field(tmp_path: Path, path: str, body: Any, field: str) -> None:
    with LocalCloud(None, tmp_path) as cloud:
        status, answer = ask(f"{cloud.endpoint_url}/_peaker/{path}", body)
    assert status == 400
    assert answer["error"].startswith(f"{field}:")


def test_another_version_of_moto_stops_the_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(server, "VERSIONS", {"moto": "5.9.9"})
    with (
        pytest.raises(LocalCloudError, match=r"moto 5\.2\.5 is installed, 5\.9\.9 is needed"),
        LocalCloud(None, tmp_path),
    ):
        pass


def test_a_hook_that_moved_stops_the_start_and_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from moto.events.models import Rule

    monkeypatch.delattr(Rule, "send_to_targets")
    with (
        pytest.raises(LocalCloudError, match=r"moto has no Rule\.send_to_targets"),
        LocalCloud(None, tmp_path),
    ):
        pass


def test_a_hook_with_other_parameters_stops_the_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from moto.events.models import Rule

    monkeypatch.setattr(Rule, "send_to_targets", lambda self, event: None)
    with pytest.raises(LocalCloudError, match=r"moto has Rule\.send_to_targets\(self, event\): is it moto"):
        LocalCloud(None, tmp_path).start()


def test_serve_says_when_it_is_ready_and_stops_on_sigterm(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "localcloud", "serve", "--dataplane", "simulated", "--port", "0"]
    process = subprocess.Popen(
        [*command, "--state", str(tmp_path)],
        cwd=PACKAGE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("local cloud ready http://127.0.0.1:")
        assert ask(f"{line.split()[-1]}/_peaker/health")[1]["status"] == "ready"
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.communicate()
