"""The demonstration's lines: each with its time, and where the day is when nothing else is told."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from demo.narrator import Narrator


def told(seconds: float, monkeypatch: pytest.MonkeyPatch) -> str:
    """What is printed into a file in so many seconds of silence after one line."""
    now = [100.0]
    monkeypatch.setattr("demo.narrator.time.monotonic", lambda: now[0])
    file = io.StringIO()
    say = Narrator(Console(file=file, width=100))
    say("deploying")
    say.where = lambda: "Tue 14:20  load 278 of 500 q/s"
    now[0] += seconds
    say.break_silence()
    return file.getvalue()


def test_a_line_has_the_seconds_since_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(0, monkeypatch) == "   0.0 s  deploying\n"


def test_into_a_file_no_minute_is_without_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "  30.0 s  Tue 14:20  load 278 of 500 q/s\n" in told(30, monkeypatch)
