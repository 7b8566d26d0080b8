"""`peaker iostat` and `peaker knee` as a person calls them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from peaker.domain.storage.io_findings import Limits, Verdict
from peaker_cli.app import app
from peaker_cli.storage import knee
from peaker_cli.storage.knee import plot_knee
from typer.testing import CliRunner

from tests.support.sysstat_json import of_12_2_0, row

RECORDINGS = Path(__file__).parents[1] / "domain" / "storage" / "fixtures" / "iostat"
QUEUED = RECORDINGS / "ebs-piops-1000-20-threads.txt"
NVME = "/dev/nvme1n1"
run = CliRunner().invoke


@pytest.fixture(autouse=True)
def any_device_that_is_not_there_can_be_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    real = knee.why_not_measurable
    monkeypatch.setattr(knee, "why_not_measurable", lambda path: None if path == NVME else real(path))


def step(concurrency: int, rate: float) -> dict[str, Any]:
    waits = concurrency / rate * 1000
    return {
        "concurrency": concurrency,
        "requests_per_s": rate,
        "reads_per_s": rate,
        "writes_per_s": 0.0,
        "mib_per_s": rate / 64,
        "await_ms": waits,
        "read_await_ms": waits,
        "write_await_ms": None,
        "queue": float(concurrency),
        "util_percent": 100.0,
        "iostat": None,
        "nvme": None,
        "seconds": 4.0,
    }


def measured() -> dict[str, Any]:
    return {
        "device": "nvme1n1",
        "path": "/dev/nvme1n1",
        "steps": [step(1, 900.0), step(4, 1000.0), step(20, 1000.0), step(50, 1000.0)],
        "crossings": [
            {"await_limit_ms": 20.0, "concurrency": 20.0},
            {"await_limit_ms": 50.0, "concurrency": None},
        ],
        "full_rate": {"concurrency": 4, "requests_per_s": 1000.0},
        "throughput": {"request_bytes": 256 * 1024, "mib_per_s": 124.0},
        "ended": "found",
        "warnings": ["did not settle at concurrency 1"],
    }


def test_iostat_names_the_limit_the_reason_and_what_to_do() -> None:
    result = run(app, ["iostat", str(QUEUED), "--volume", "1000:125"])
    assert result.exit_code == 0
    said = " ".join(result.output.split())
    assert "xvdk: IOPS-limited" in said
    assert "Stripe over more volumes" in said


def test_iostat_reads_standard_input_and_gives_a_document() -> None:
    result = run(app, ["iostat", "-", "--json"], input=QUEUED.read_text())
    (device,) = json.loads(result.output)["devices"]
    assert device["headline"] == "queueing"
    assert device["phases"][0]["also"] == ["IOPS-limited"]
    assert device["phases"][0]["evidence"]["svctm ms"] == 0.94


def test_iostat_halves_sectors_that_are_called_kib_and_says_so() -> None:
    """2,996 reads a second of 16 KiB are 47,936 KiB; sysstat 12.1.2 to 12.2.0 writes twice that."""
    document = of_12_2_0([row(kib_per_s=95_872.0)])
    result = run(app, ["iostat", "-", "--json", "--keep-first"], input=document)
    assert "came in sectors" in result.stderr
    right = run(app, ["iostat", "-", "--json", "--keep-first"], input=of_12_2_0([row()]))
    assert (json.loads(result.stdout), right.stderr) == (json.loads(right.stdout), "")


def test_iostat_names_file_and_line_of_what_it_cannot_read(tmp_path: Path) -> None:
    path = tmp_path / "night.txt"
    path.write_text("Device r/s w/s rkB/s wkB/s aqu-sz\nsda 1 2 3 4\n")
    result = run(app, ["iostat", str(path)])
    assert result.exit_code == 1
    assert f"{path}:2: the row of sda has 4 numbers" in result.stderr


def test_knee_shows_crossings_plan_verdict_and_warnings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(knee, "find_knee", lambda *_: measured())
    plot = tmp_path / "knee.svg"
    result = run(app, ["knee", "/dev/nvme1n1", "--volume", "1000:125", "--plot", str(plot)])
    said = " ".join(result.output.split())
    assert result.exit_code == 0, result.output
    assert "await 20 ms at concurrency 20" in said
    assert "await 50 ms: not reached (found)" in said
    assert "1,000 of 1,000 IOPS promised by the volumes (100%): delivered" in said
    assert "124 of 125 MiB/s promised" in said
    assert "IOPS-limited: 1,000 of 1,000 IOPS promised" in said
    assert "beware: did not settle" in said
    assert "<svg" in plot.read_text()


def test_a_promise_of_throughput_that_the_iops_cannot_carry_is_not_held_against_the_volume(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow = {**measured(), "throughput": {"request_bytes": 256 * 1024, "mib_per_s": 50.0}}
    monkeypatch.setattr(knee, "find_knee", lambda *_: slow)
    result = run(app, ["knee", "/dev/nvme1n1", "--volume", "200:125", "--json"])
    bandwidth = json.loads(result.stdout)["against_plan"][1]
    assert (bandwidth["promised"], bandwidth["verdict"]) == (50.0, "delivered")


def test_the_steps_of_a_search_are_judged_by_the_rules_for_iostat() -> None:
    verdicts = [one.verdict for one in knee.diagnose_steps(measured(), Limits()).reports]
    assert verdicts[0] is Verdict.APPLICATION_LIMITED
    assert verdicts[-1] is Verdict.IOPS_LIMITED


def test_the_picture_can_be_a_png(tmp_path: Path) -> None:
    plot_knee(measured(), tmp_path / "knee.png")
    assert (tmp_path / "knee.png").read_bytes().startswith(b"\x89PNG")


def test_the_volume_s_nvme_statistics_tell_the_instance_s_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    result = measured()
    result["steps"][-1]["nvme"] = {"ec2_instance_ebs_performance_exceeded_iops": 3_900_000}
    monkeypatch.setattr(knee, "find_knee", lambda *_: result)
    said = json.loads(run(app, ["knee", "/dev/nvme1n1", "--json"]).stdout)
    assert said["diagnosis"][0]["verdict"] == "instance-limited"
    assert "3.9 of 4 s" in said["diagnosis"][0]["reason"]
