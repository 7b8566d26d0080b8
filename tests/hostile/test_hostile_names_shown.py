"""What people look at: a page has no element, and a terminal gets no code, that comes from a name or a reason."""

from __future__ import annotations

import ast
import io
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from peaker_backtest.load_input import Choices, parse_load
from peaker_backtest.page import render_page
from peaker_backtest.replay.simulation import Event
from peaker_backtest.report import BacktestReport, run_backtest
from peaker_backtest.scenario import Options, make_scenario
from peaker_cli.failures import plain
from peaker_cli.printing import console, echo
from peaker_cli.runs.receipt import render_receipt
from rich.table import Table

from tests.hostile.of_people import START, Elements
from tests.hostile.payloads import INJECTIONS, TERMINAL
from tests.unit.cli.test_receipt import receipt

ROOT = Path(__file__).resolve().parents[2]
# Chosen by whoever owns a file, a metric, an alarm, or starts an execution.
NAMES = "".join(text for text in INJECTIONS if len(text) < 60)


@cache
def a_report() -> BacktestReport:
    days = "timestamp,value\n" + "".join(
        f"{START + 3600 * hour},{50 + hour % 24}\n" for hour in range(24 * 6)
    )
    load = parse_load("load", days.encode(), Choices())
    options = Options(quantile=0.9, capacity_per_replica=30.0, lead_minutes=70.0)
    return run_backtest("load", load.read, load.unit, make_scenario(load.series(), options), options)


def elements(page: str) -> Elements:
    found = Elements()
    found.feed(page)
    return found


def test_a_page_has_the_same_elements_whatever_names_and_reasons_say() -> None:
    report = a_report()
    events = (Event(120, "scale_out", 1, "why"), Event(130, "scale_in", 1, "why"))
    usual_report = replace(report, peaker=replace(report.peaker, events=events))
    events = tuple(replace(event, reason=NAMES) for event in events)
    hostile = replace(
        report,
        source=NAMES,
        load_unit=NAMES,
        read=(NAMES, *report.read[1:]),
        warnings=tuple(NAMES for _ in report.warnings),
        peaker=replace(report.peaker, events=events),
    )
    usual, found = elements(render_page(usual_report)), elements(render_page(hostile))
    assert found.elements == usual.elements
    assert found.attributes == usual.attributes
    assert "<script>alert(1)</script>" in found.text, "a name is shown as it is"


@pytest.mark.parametrize("text", TERMINAL)
def test_a_receipt_shows_what_a_terminal_would_obey(text: str) -> None:
    failure = {"failed_step": text, "error": text, "cause": text}
    shown = printed(receipt(reason=text, cluster=text, outcome=text, notes=[text], failure=failure))
    assert plain(shown) == shown
    assert "\x1b" not in shown


def test_square_brackets_are_no_markup() -> None:
    shown = printed(receipt(reason="[/nothing] [red]x[/red] [link=http://evil.example]y[/link]"))
    assert "[/nothing] [red]x[/red] [link=http://evil.example]y[/link]" in shown


def test_a_table_s_cells_are_no_markup_either() -> None:
    table = Table("[bold]name")
    table.add_row("[/nothing] \x1b]0;owned\x07")
    terminal = console()
    terminal.file = io.StringIO()
    terminal.print(table)
    shown = terminal.file.getvalue()
    assert "[/nothing] \\x1b]0;owned" in shown
    assert "\x1b" not in shown


def test_a_line_cannot_be_forged_by_a_carriage_return(capsys: pytest.CaptureFixture[str]) -> None:
    echo("denied\rgranted \u202egnp.exe")
    assert capsys.readouterr().out == "denied\\x0dgranted \\u202egnp.exe\n"


def test_all_that_the_command_prints_goes_through_one_room() -> None:
    """Only these talk to a terminal themselves, and make the text plain first."""
    rooms = {"printing.py", "failures.py", "interruption.py", "deployment.py", "app.py"}
    found = []
    for path in sorted((ROOT / "cli" / "peaker_cli").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if called in ("print", "typer.echo", "typer.secho", "Console") and path.name not in rooms:
                found.append(f"{path.name}:{node.lineno} {called}")
    assert found == []


def printed(document: dict[str, object]) -> str:
    terminal = console()
    terminal.file = io.StringIO()
    terminal.print(render_receipt(document))
    return terminal.file.getvalue()
