"""The command `peaker backtest`: what it prints, the JSON document and the page."""

from __future__ import annotations

import io
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
import typer
from moto import mock_aws
from peaker_backtest.console import progress
from peaker_backtest.load_input import read_load
from peaker_cli.backtest.command import EPILOG, backtest_command
from peaker_cli.deployment import takes_deployment
from rich.console import Console
from typer.testing import CliRunner

from tests.support.builders import orders
from tests.unit.domain.forecasting.loads import START, daily

app = typer.Typer()
app.command(epilog=EPILOG)(takes_deployment(backtest_command))
TRACES = Path(__file__).resolve().parents[2] / "data" / "traces"
Replayed = tuple[str, dict[str, Any], str]


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def load_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = [f"{START + 3600 * i:.0f},{value:.2f}" for i, value in enumerate(daily(24, 3600))]
    return write(tmp_path_factory.mktemp("load") / "reads.csv", "\n".join(["timestamp,value", *rows]))


@pytest.fixture(scope="module")
def replayed(load_file: Path) -> Replayed:
    page, document = load_file.with_suffix(".html"), load_file.with_suffix(".json")
    arguments = [str(load_file), "--capacity", "40", "--lead-minutes", "110"]
    arguments += ["--replica-hour-usd", "0.5", "--json", str(document), "--html", str(page)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    return result.output, json.loads(document.read_text()), page.read_text()


def test_the_json_has_every_policy_with_shortage_hours_and_dollars(replayed: Replayed) -> None:
    document = replayed[1]
    names = [policy["name"] for policy in document["policies"]]
    assert names[:3] == ["Peaker", "static peak", "cron schedule"]
    assert names[3:-1] == [f"reactive at {target}%" for target in (100, 85, 70, 60, 50, 40)]
    assert names[-1] == "oracle"
    for policy in document["policies"]:
        assert policy["dollars"] == pytest.approx(0.5 * policy["replica_hours"], abs=0.01)
    assert document["from"] < document["compared_from"] < document["to"]


def test_the_answer_comes_first_and_names_what_it_compares(replayed: Replayed) -> None:
    output, document, _ = replayed
    lines = [line for line in output.splitlines() if line]
    assert lines[0].startswith("read 576 points, every 60 min")
    assert lines[1] == f"reads: {document['headline']}"
    assert document["verdict"]["compared"][:2] == ["Peaker", "static peak"]
    assert all(name in document["headline"] for name in document["verdict"]["compared"])


def test_what_was_given_rounded_and_assumed_is_said(
    replayed: Replayed, load_file: Path, tmp_path: Path
) -> None:
    said = " ".join(replayed[1]["assumptions"])
    assert "one replica serves 40 load units (given)" in said
    assert (
        "120 min: 110 min (given), rounded up to whole steps, because the load is replayed in steps of 60 min"
        in said
    )
    assert "19 spare replica-hours per replica-hour short" in said
    document = tmp_path / "report.json"
    assert CliRunner().invoke(app, [str(load_file), "--days", "1", "--json", str(document)]).exit_code == 0
    said = " ".join(json.loads(document.read_text())["assumptions"])
    assert "assumed, 1/10 of the load's 99.9th percentile" in said
    assert "--replica-hour-usd adds dollars" in said


def test_without_a_capacity_there_is_no_verdict_and_no_advice(load_file: Path, tmp_path: Path) -> None:
    document = tmp_path / "report.json"
    result = CliRunner().invoke(app, [str(load_file), "--json", str(document)])
    assert result.exit_code == 0
    assert "No verdict: what one replica serves is assumed. Give --capacity" in result.output
    report = json.loads(document.read_text())
    assert (report["verdict"]["answer"], report["settings"]) == ("no_capacity", None)


def test_too_few_days_asked_for_are_no_judgement(load_file: Path) -> None:
    result = CliRunner().invoke(app, [str(load_file), "--days", "2"])
    assert result.exit_code == 0
    assert "Too short to judge" in result.output
    assert "give --days 7 or more" in result.output


def test_the_document_can_go_to_standard_output_alone(load_file: Path) -> None:
    result = CliRunner().invoke(app, ["-", "--days", "1", "--json", "-"], input=load_file.read_bytes())
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["source"] == "standard input"


def test_the_page_fits_a_narrow_screen(replayed: Replayed) -> None:
    page = replayed[2]
    assert "width=device-width" in page
    style = page.split("<style>")[1].split("</style>")[0]
    assert "overflow-x:auto" in re.sub(r"\s", "", style.split(".scroll {")[1].split("}")[0])
    assert "@media (max-width:640px)" in style
    widths = [int(px) for px in re.findall(r"[;{ ](?:min-)?width:\s*(\d+)px", style)]
    assert all(px <= 120 for px in widths), "a fixed width overflows a phone"
    assert 'viewBox="0 0 1200' not in page, "a drawing of a fixed size shrinks its letters"


def test_the_page_has_the_answer_the_units_and_a_glossary(replayed: Replayed) -> None:
    _, document, page = replayed
    answer = re.search(r'<div class="verdict(?: good| bad)?"><p><span>(.+?)</span></p>', page)
    assert answer is not None
    assert document["headline"].startswith(answer[1])
    span = re.search(r"Compared over [\d.]+ days \([-\d]+ to [-\d]+\)", document["headline"])
    assert span is not None
    assert span[0] in page
    for word in ("replica-hour", "static peak", "cron schedule", "lead time", "warm-up", "weighted"):
        assert f"<dt>{word}</dt>" in page
    for column in ("replica-hours", "short (min)", "cost (USD)"):
        assert re.search(rf"<th [^>]*>{re.escape(column)}</th>", page)


def test_a_card_for_each_policy_says_what_it_cost_and_in_red_how_long_it_was_short(
    replayed: Replayed,
) -> None:
    _, document, page = replayed
    shown = dict(re.findall(r'<div class="card"><h3>(.+?)</h3><p class="big">(.+?)</p>', page))
    by_name = {one["name"]: one for one in document["policies"]}
    assert list(shown)[:2] == ["Peaker", "static peak"]
    assert shown == {name: f"${by_name[name]['dollars']:,.0f}" for name in shown}
    short = [name for name in shown if by_name[name]["short_minutes"] > 0]
    assert page.count('<p class="short">short ') == len(short) < len(shown)


def test_the_page_needs_nothing_from_outside_and_holds_the_course(replayed: Replayed) -> None:
    page = replayed[2]
    assert "{{" not in page
    assert re.findall(r"(?:src|href)\s*=[^ >]+|@import|url\(", page) == ['href="data:,"'], (
        "an icon of its own, empty"
    )
    assert set(re.findall(r"https?://[^\"' ]+", page)) <= {"http://www.w3.org/2000/svg"}
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    course = json.loads(found.group(1))
    assert len(course["load"]) == len(course["p95"]) == len(course["peaker"]) == 20 * 24
    assert all(p95 is None or p95 >= p50 for p50, p95 in zip(course["p50"], course["p95"], strict=True))


def test_too_little_history_is_refused_with_the_days_that_are_needed(tmp_path: Path) -> None:
    rows = ["timestamp,value", *(f"{START + 300 * i:.0f},5" for i in range(100))]
    result = CliRunner().invoke(app, [str(write(tmp_path / "short.csv", "\n".join(rows)))])
    assert result.exit_code == 2
    assert "too short to judge: 0.3 days of load, and 21 are needed" in result.output


def test_a_deployed_clusters_load_comes_from_cloudwatch(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with mock_aws():
        hourly = {**orders().load_metric.model_dump(), "period_seconds": 3600}
        settings = orders(load_metric=hourly, time_zone="Europe/Berlin")
        ssm = boto3.client("ssm", region_name="us-east-1")
        ssm.put_parameter(Name="/peaker/dev/clusters/orders", Value=settings.model_dump_json(), Type="String")
        values = daily(10, 3600)
        end = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
        data = [
            {
                "MetricName": settings.load_metric.name,
                "Dimensions": [{"Name": "Cluster", "Value": "orders"}],
                "Timestamp": end - timedelta(hours=len(values) - i),
                "Value": float(value),
            }
            for i, value in enumerate(values)
        ]
        boto3.client("cloudwatch", region_name="us-east-1").put_metric_data(
            Namespace=settings.load_metric.namespace, MetricData=data
        )
        deployed = ["--env", "dev", "--region", "us-east-1"]
        found = CliRunner().invoke(app, ["--cluster", "orders", "--days", "2", *deployed])
        absent = CliRunner().invoke(app, ["--cluster", "payments", *deployed])
    assert found.exit_code == 0, found.output
    assert "orders: Too short to judge: 10.0 days" in found.output
    assert "of the hours of Europe/Berlin (from the cluster's settings)" in " ".join(found.output.split())
    assert absent.exit_code == 2
    assert 'given "payments"; clusters of this environment: orders' in " ".join(absent.output.split())


def test_progress_is_shown_on_a_terminal_alone() -> None:
    def told(is_terminal: bool) -> str:
        terminal = Console(file=io.StringIO(), force_terminal=is_terminal, width=80)
        with progress(terminal, 2) as tick:
            tick()
        return terminal.file.getvalue()  # type: ignore[attr-defined]

    assert "decisions replayed" in told(True)
    assert told(False) == ""


def test_every_shipped_trace_is_readable_and_listed_with_its_licence() -> None:
    listed = (TRACES / "manifest.csv").read_text(encoding="utf-8")
    for path in sorted(TRACES.glob("*.csv")):
        if path.stem != "manifest":
            assert f"{path.stem}," in listed
            assert len(read_load(path).values) > 4000
    assert "ea702d75" in (TRACES / "LICENSE.md").read_text(encoding="utf-8")
