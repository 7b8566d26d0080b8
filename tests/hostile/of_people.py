"""What people give and read: settings, documents, load files, command lines; receipts, statuses and pages."""

# ruff: noqa: E501
from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml
from peaker.domain.decoding import understood
from peaker.domain.reading import Unknown
from peaker_backtest.errors import BadInput
from peaker_backtest.load_input import Choices, parse_load
from peaker_backtest.points import time_zone
from peaker_cli import deployment
from peaker_cli.aws_session import AwsClock
from peaker_cli.backtest import live_load
from peaker_cli.base_replica.prepare_base import base_steps, remedies, render_steps
from peaker_cli.control_plane import ControlPlane
from peaker_cli.doctor import deployed, gather_account
from peaker_cli.doctor.hosts import host_steps
from peaker_cli.failures import ControlPlaneError, plain
from peaker_cli.month import bill as month_bill
from peaker_cli.month import command as month_command
from peaker_cli.month.stretches import parked_times, stretches_of
from peaker_cli.printing import console
from peaker_cli.runs.receipt import render_receipt
from peaker_cli.status.document import Facts, as_document, cluster_status
from peaker_cli.status.rendering import render_overview, render_status, status_line
from peaker_cli.storage.iostat import parse_instance, parse_volumes
from rich.console import Console, RenderableType
from typer import BadParameter

from environments.faults import EnvironmentFileError
from environments.schema import Environment, load_environment
from environments.yaml_text import plain_value
from peaker_contract.errors import AwsCallRejected
from peaker_contract.field_types import moment
from sim.workflows.virtual_time import START as NOON
from ssm_documents.schema import InvalidDocument, check_document
from tests.hostile.entry_point import BYTES, DOCUMENT, JSON_TEXT, TEXT, WORDS, EntryPoint, told_plainly
from tests.hostile.places import file_with, folder
from tests.support import simulated_month as plan_month
from tests.support.builders import BASE, RUN_ID, fleet_with, replica
from tests.unit.cli.test_receipt import proof
from tests.unit.cli.test_receipt import receipt as a_receipt
from tests.unit.cli.test_status_document import REPORT, gathered

ROOT = Path(__file__).resolve().parents[2]
DEV = (ROOT / "environments" / "dev.yaml").read_text(encoding="utf-8")
START = 1_767_225_600
CSV = "timestamp,value\n" + "".join(f"{START + 300 * number},{50 + number % 24}\n" for number in range(40))
OTHER_CSV = "date;load\n2026-11-21 01:00;1234.5\n2026-11-21 01:05;1300.25\n2026-11-21 01:10;\n"
METRIC_DATA = {
    "MetricDataResults": [{
        "Id": "m1", "Label": "reads", "StatusCode": "Complete",
        "Timestamps": [f"2026-11-21T01:{minute:02}:00+00:00" for minute in range(0, 60, 5)], "Values": [1.5] * 12,
    }]
}  # fmt: skip
STATISTICS = {
    "Label": "reads",
    "Datapoints": [
        {"Timestamp": f"2026-11-21T01:{m:02}:00Z", "Average": 1.5, "Unit": "Count"} for m in range(0, 60, 5)
    ],
}
DOCUMENT_OF_SSM = yaml.safe_load((ROOT / "ssm_documents" / "report_health.yaml").read_text(encoding="utf-8"))
STEPS = {
    "ok": False, "error": "BaseNotPrepared", "message": "refused", "server_id": 7, "source_host": "10.0.0.1",
    "steps": [{"name": "gtid", "state": "refused", "detail": "gtid_mode is OFF", "remedy": "turn it on"}],
}  # fmt: skip
POLICY = {
    "Statement": [
        {"Effect": "Allow", "Action": "iam:PassRole", "Resource": "arn:aws:iam::111111111111:role/x"}
    ]
}
KEY_POLICY = {
    "Statement": [{
        "Effect": "Allow", "Principal": {"Service": ["events.amazonaws.com"]}, "Action": ["kms:Decrypt", "kms:GenerateDataKey*"],
        "Resource": "*",
    }]
}  # fmt: skip
FAILURE = {"failed_step": "VerifyStorage", "error": "StorageNotWarm", "cause": "3 % cold"}


def entries() -> list[EntryPoint]:
    """All of them."""
    return [*_settings(), *_documents(), *_loads(), *_live_loads(), *_commands(), *_shown()]


def _settings() -> Iterator[EntryPoint]:
    own = (EnvironmentFileError,)
    yield EntryPoint(
        "an environment file", BYTES, _loaded, (DEV.encode(),), own,
        _faults_are_lines, 0.3,
    )  # fmt: skip
    yield EntryPoint(
        "settings", DOCUMENT, lambda case: Environment.parse(case, "environments/dev.yaml"), (yaml.safe_load(DEV),), own,
        _faults_are_lines, 0.6,
    )  # fmt: skip
    yield EntryPoint(
        "an unquoted word", TEXT, plain_value, ("12", "1.5e3", "no", "012", "2026-11-21", "yes", ".inf"), (),
    )  # fmt: skip
    yield EntryPoint(
        "a moment", DOCUMENT, moment, ("2026-11-27T06:00", "2026-11-27T06:00+01:00"), (ValueError,),
    )  # fmt: skip


def _loaded(case: bytes) -> Any:
    file_with(case, "environments/dev.yaml")
    return load_environment("dev", folder() / "environments", warn=lambda _: None, now=NOON)


def _documents() -> Iterator[EntryPoint]:
    yield EntryPoint(
        "a Command document", DOCUMENT, check_document, (DOCUMENT_OF_SSM,), (InvalidDocument,), _shell_quotes_all, 0.6,
    )  # fmt: skip
    yield EntryPoint(
        "environments of a checkout", BYTES, _files_of_checkout, (DEV.encode(),), (), weight=0.2,
    )  # fmt: skip
    yield EntryPoint(
        "AWS's date", TEXT, _dated, ("Sun, 22 Nov 2026 20:50:00 GMT", "22 Nov 2026 20:50:00 +0100"), (),
    )  # fmt: skip
    yield EntryPoint(
        "a role's policy", JSON_TEXT, lambda case: list(gather_account._passed(case)), (POLICY,), (AwsCallRejected,),
    )  # fmt: skip
    yield EntryPoint(
        "a key's policy", JSON_TEXT, deployed.services_let_in, (KEY_POLICY,), (AwsCallRejected,),
    )  # fmt: skip


def _dated(case: str) -> Any:
    clock = AwsClock()
    clock._note(SimpleNamespace(headers={"Date": case}))
    return clock.now()


def _files_of_checkout(case: bytes) -> Any:
    return deployment._region_in(Path(file_with(case, "checkout.yaml")))


def _loads() -> Iterator[EntryPoint]:
    own = (BadInput,)
    examples = (
        CSV.encode(),
        OTHER_CSV.encode(),
        "\ufefftime\tload\n".encode() + CSV.replace(",", "\t").encode(),
    )
    yield EntryPoint(
        "a load file, table", BYTES, lambda case: _read_load(case, Choices(time_zone="Europe/Berlin")),
        examples, own,
        _load_is_a_load, 1.5,
    )  # fmt: skip
    yield EntryPoint(
        "a load file, JSON", JSON_TEXT, lambda case: _read_load(case.encode("utf-8", "replace"), Choices()),
        (METRIC_DATA, STATISTICS), own, _load_is_a_load, 1.5,
    )  # fmt: skip
    yield EntryPoint(
        "a time zone",
        TEXT,
        time_zone,
        ("Europe/Berlin", "+02:00", "UTC"),
        own,
    )


def _live_loads() -> Iterator[EntryPoint]:
    yield EntryPoint(
        "a metric on the command line", WORDS,
        lambda case: live_load.MetricOptions(*(case[:2] + ["Reads"] * 2)[:2], tuple(case[2:])).over(None),
        (["Shop", "Reads", "Cluster=orders"], ["AWS/RDS", "ReadIOPS", "DBInstanceIdentifier=a=b", "Zone=1"]),
        (BadInput,),
    )  # fmt: skip
    yield EntryPoint(
        "a metric's points, for a backtest", DOCUMENT, _read_live,
        ({"times": [5.0 * number for number in range(40)], "values": [100.0 + number for number in range(40)]},),
        (BadInput, AwsCallRejected), _load_is_a_load,
    )  # fmt: skip


def _read_live(case: Any) -> Any:
    from tests.hostile.of_functions import _points

    unlisted: dict[str, Any] = {"Metrics": []}
    pages = {"list_metrics": lambda **_: [unlisted], "get_metric_data": lambda **_: _points(case)}
    answers = SimpleNamespace(
        list_metrics=lambda **_: unlisted,
        get_metric_data=lambda **_: {"MetricDataResults": []},
        get_paginator=lambda operation: SimpleNamespace(paginate=pages[operation]),
    )
    control = SimpleNamespace(
        client=lambda _: answers, region="us-east-1", clock=SimpleNamespace(now=lambda: NOON)
    )
    metric = live_load.MetricOptions("Shop", "Reads").over(None)
    load = live_load.read_live_load(control, metric, 62, Console(file=io.StringIO()))  # type: ignore[arg-type]
    return load, load.series()


def _read_load(case: bytes, choices: Choices) -> Any:
    load = parse_load("load", case, choices)
    return load, load.series()


def _commands() -> Iterator[EntryPoint]:
    yield EntryPoint(
        "what volumes promise", WORDS, parse_volumes, (["3000:125", "nvme1n1=3000:125", ":125"],), (BadParameter,),
    )  # fmt: skip
    yield EntryPoint(
        "what an instance promises", TEXT, parse_instance, ("11800:594",), (BadParameter,),
    )  # fmt: skip
    load = str(folder() / "load.csv")
    Path(load).write_text(CSV, encoding="utf-8")
    iostat = str(folder() / "iostat.txt")
    from tests.hostile.of_functions import IOSTAT_TEXT

    Path(iostat).write_text(IOSTAT_TEXT, encoding="utf-8")
    yield EntryPoint(
        "the command line", WORDS, _typed,
        (
            ["iostat", iostat, "--volume", "nvme1n1=3000:125", "--instance", "11800:594", "--device", "nvme1n1"],
            ["status", "orders", "--env", "prod", "--region", "us-east-1", "--endpoint", "http://127.0.0.1:1"],
            ["backtest", load, "--capacity", "460", "--lead-minutes", "70", "--load-column", "2"],
            ["receipt", RUN_ID, "--env", "prod", "--profile", "p"],
            ["register-base", "orders", BASE, "--env", "prod"],
        ),
        (), _terminal_is_safe, 0.12,
    )  # fmt: skip


def _typed(words: Sequence[str]) -> str:
    """What a person sees of the command; AWS is out of reach."""
    import sys
    from unittest.mock import patch

    from peaker_cli import app

    out = io.StringIO()
    closed = {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "COLUMNS": "80",
    }
    never = patch(
        "peaker_cli.control_plane.ControlPlane.client", side_effect=ControlPlaneError("no AWS in this test")
    )
    with (
        patch.dict("os.environ", closed),
        patch.object(sys, "argv", ["peaker", *words]),
        never,
        patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(b""))),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(out),
        contextlib.chdir(folder()),
        contextlib.suppress(SystemExit),
    ):
        app.main()
    return out.getvalue()


def _shown() -> Iterator[EntryPoint]:
    own = (ControlPlaneError,)
    receipts = (a_receipt(), proof(), a_receipt(outcome="rolled_back", failure=FAILURE, notes=["a note"]))
    yield EntryPoint(
        "a receipt on the terminal", DOCUMENT, lambda case: _printed(render_receipt(case)), receipts, own, _terminal_is_safe, 0.4,
    )  # fmt: skip
    yield EntryPoint(
        "receipts of a month", DOCUMENT, _month, (plan_month.simulated(1).receipts[:3],), own, _terminal_is_safe, 0.3,
    )  # fmt: skip
    yield EntryPoint(
        "a status on the terminal", DOCUMENT, _status, ({"report": REPORT, "names": ["orders", "reason", "why"]},), own, _terminal_is_safe, 0.3,
    )  # fmt: skip
    yield EntryPoint(
        "steps of a base replica", DOCUMENT, _steps, (STEPS,), own, _terminal_is_safe, 0.5,
    )  # fmt: skip
    yield EntryPoint(
        "an execution's output", JSON_TEXT, _described, ({"outcome": "refused", "error": "E", "reason": "r"},), own,
    )  # fmt: skip
    yield EntryPoint("text on a terminal", TEXT, plain, ("a reason", "orders"), (), _terminal_is_safe)  # fmt: skip


def _month(case: Any) -> str:
    """As `peaker month` reads them."""
    with understood(ControlPlaneError, "a receipt"):
        stretches = stretches_of(case, {})
        parked = parked_times(case, stretches, {})
    month = month_bill.Month("orders", plan_month.START, plan_month.END, stretches, parked, (), (), 1000.0)
    return _printed(month_command.render(month_bill.bill(month)))


def _printed(*shown: RenderableType) -> str:
    terminal = console()
    terminal.file = io.StringIO()
    for one in shown:
        terminal.print(one)
    return terminal.file.getvalue()


def _status(case: Any) -> str:
    whole = case if isinstance(case, dict) else {}
    names = whole.get("names")
    said = [str(one)[:300] for one in names] if isinstance(names, list) else []
    why = said[2] if len(said) > 2 else "why"
    facts = gathered(
        report=whole.get("report") if isinstance(whole.get("report"), dict) else None,
        load=Unknown(why),
        alarms=Unknown(why),
        fleet=fleet_with(replica(BASE, lag=Unknown(why), tags={"Name": why})),
    )
    assert isinstance(facts, Facts)
    status = cluster_status(facts)
    json.dumps(as_document(status))
    return _printed(render_status(status), render_overview([status])) + plain(status_line(status))


def _steps(case: Any) -> str:
    result = case if isinstance(case, dict) else {"steps": case}
    steps = base_steps(result)
    host_steps(result)
    return _printed(render_steps(steps)) + "".join(map(plain, remedies(steps)))


def _described(case: str) -> Any:
    plane = ControlPlane("local", "us-east-1")
    client = SimpleNamespace(describe_execution=lambda **_: {"status": "SUCCEEDED", "output": case})
    object.__setattr__(plane, "client", lambda _: client)
    return plane.describe("arn").is_refused


# --- what must not be there afterwards


class Elements(HTMLParser):
    """The elements, attributes and text of a page, as a browser takes them."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.attributes: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes += [name for name, _ in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data


def _faults_are_lines(case: Any, answer: Any) -> None:
    if isinstance(answer, Exception):
        for line in str(answer).split("\n"):
            assert line.startswith("environments/dev.yaml"), line[:200]
            assert ": " in line
            assert len(line) < 2000


def _shell_quotes_all(case: Any, answer: Any) -> None:
    if not isinstance(answer, Exception):
        assert all(one.allowedPattern.startswith("^") for one in answer.parameters.values())
        assert all(one.interpolationType == "ENV_VAR" for one in answer.parameters.values())


def _load_is_a_load(case: Any, answer: Any) -> None:
    told_plainly(case, answer)
    if isinstance(answer, Exception):
        assert str(answer).isprintable()
        return
    load, _ = answer
    assert all(0 <= value <= 1e15 for value in load.values)


def _terminal_is_safe(case: Any, answer: Any) -> None:
    told_plainly(case, answer)
    if isinstance(answer, str):
        assert plain(answer) == answer, repr(answer[:200])
        assert "Traceback" not in answer
        assert "defect of Peaker" not in answer, answer
