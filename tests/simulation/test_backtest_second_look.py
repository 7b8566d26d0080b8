"""A second look at every headline: figures and claims computed again, from the courses that the report itself shows.

Nothing of Peaker's own arithmetic is used here, only its command: plain sums over the steps of the JSON and the page.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from peaker_cli.app import app
from typer.testing import CliRunner

PRICE = 0.5
DAY = 86_400
START = 1_767_225_600  # 2026-01-01T00:00:00Z

SHORT = re.compile(
    r"Too short to judge: (?P<days>[\d.]+) days of load, and 21 are needed \(14 to warm up, in which nothing may be "
    r"removed, and 7 to compare\): export (?P<missing>[\d.]+) days more\."
)
JUDGED = re.compile(
    r"(?P<answer>It pays: (?P<beaten>.+?), the best other policy, does worse\."
    r"|It does not pay: (?P<better>.+?) does better\."
    r"|It makes no difference: Peaker and the best other policy, (?P<even>.+?), are within 1 %\.)"
    r" Peaker costs \$(?P<ours>[\d,]+) a month, its own \$35 included: (?P<savings>.+?)\."
    r" Compared over (?P<days>[\d.]+) days \((?P<from>[\d-]+) to (?P<to>[\d-]+)\): (?P<figures>.+)\. "
    r"Weighted counts a replica-hour short as (?P<weight>[\d.]+)\."
)
FIGURES = re.compile(
    r"(?P<name>Peaker|static peak|cron schedule|today's fleet|reactive at \d+%)(?: \((?P<note>[^)]*)\))? "
    r"(?P<hours>[\d,]+) replica-hours "
    r"\(\$(?P<dollars>[\d,.]+)\), short (?P<short>[\d,]+) min, weighted (?P<weighted>[\d,]+)"
)


SAVING = re.compile(r"\$(?P<dollars>[\d,]+) \((?P<percent>\d+)%\) (?P<way>less|more) than (?P<name>[^,]+)")


def number(text: str) -> float:
    return float(text.replace(",", ""))


def iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%MZ")


def backtest(loads: np.ndarray, folder: Path) -> tuple[dict[str, Any], dict[str, Any], str]:
    """(JSON document, data of the page, text on the terminal); the peak takes ten replicas."""
    source, document, page = folder / "load.csv", folder / "report.json", folder / "report.html"
    rows = [f"{START + 3600 * hour},{value!r}" for hour, value in enumerate(loads.tolist())]
    source.write_text("\n".join(["timestamp,value", *rows]), encoding="utf-8")
    arguments = [
        "backtest",
        str(source),
        "--json",
        str(document),
        "--html",
        str(page),
        "--lead-minutes",
        "60",
    ]
    arguments += ["--capacity", str(np.quantile(loads, 0.999) / 10), "--fleet-of-today", "8"]
    result = CliRunner().invoke(app, [*arguments, "--replica-hour-usd", str(PRICE)])
    assert result.exit_code == 0, result.output
    text = page.read_text(encoding="utf-8")
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    return json.loads(document.read_text(encoding="utf-8")), json.loads(found[1]), result.output


class SecondLook:
    """Sums over one report's course."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        course = document["course"]
        self.start, self.step = course["start"], course["step_seconds"]
        self.border = course["compared_from_step"]
        self.load, self.policies = course["load"], course["policies"]
        capacity = document["capacity_per_replica"]
        self.required = [
            None if load is None else max(0, math.ceil(load / capacity - 1e-9)) for load in self.load
        ]
        self.weight = document["quantile"] / (1 - document["quantile"])
        self.hour = self.step / 3600

    def missing(self, name: str) -> list[int]:
        serving = self.policies[name]["serving"]
        return [
            0 if need is None else max(0, need - there)
            for need, there in zip(self.required, serving, strict=True)
        ]

    def hours(self, name: str, since: int) -> float:
        return sum(self.policies[name]["paid"][since:]) * self.hour

    def short_minutes(self, name: str, since: int) -> float:
        return sum(each > 0 for each in self.missing(name)[since:]) * self.step / 60

    def weighted(self, name: str, since: int) -> float:
        months = (len(self.load) - since) * self.hour / 730
        own = self.document["own_usd_a_month"] * months / PRICE if name == "Peaker" else 0.0
        return self.hours(name, since) + self.weight * sum(self.missing(name)[since:]) * self.hour + own

    def dollars_a_month(self, name: str) -> float:
        hours = (len(self.load) - self.border) * self.hour
        own = self.document["own_usd_a_month"] if name == "Peaker" else 0.0
        return PRICE * self.hours(name, self.border) / hours * 730 + own

    def reactive(self) -> list[str]:
        return [name for name in self.policies if name.startswith("reactive")]


def check_policies(look: SecondLook) -> None:
    for policy in look.document["policies"]:
        name = policy["name"]
        assert policy["replica_hours"] == pytest.approx(look.hours(name, look.border), abs=0.01)
        assert policy["short_minutes"] == pytest.approx(look.short_minutes(name, look.border))
        assert policy["weighted_replica_hours"] == pytest.approx(look.weighted(name, look.border), abs=0.02)
        assert policy["dollars"] == pytest.approx(PRICE * look.hours(name, look.border), abs=0.01)
        if policy["warm_up"] is not None:
            whole = policy["warm_up"]["replica_hours"] + policy["replica_hours"]
            assert whole == pytest.approx(look.hours(name, 0), abs=0.02)
            assert look.border > 0
    static = look.policies["static peak"]
    highest = max(need for need in look.required[look.border :] if need is not None)
    limits = look.document["min_replicas"], look.document["max_replicas"]
    assert set(static["serving"]) == set(static["paid"]) == {min(limits[1], max(limits[0], highest))}


def check_course_follows_decisions(look: SecondLook) -> None:
    """What Peaker decided, built and removed one by one, gives the course that it shows."""
    shown = look.policies["Peaker"]
    lead = round(look.document["lead_time_minutes"] * 60 / look.step)
    drain, back_after = round(look.document["drain_minutes"] * 60 / look.step), math.ceil(300 / look.step)
    by_time: dict[str, list[dict[str, Any]]] = {}
    for decision in look.document["decisions"]:
        assert decision["reason"]
        by_time.setdefault(decision["at"], []).append(decision)
    serving, arrivals, draining = shown["serving"][0], [], []
    for decision in by_time.get(iso(look.start), []):
        serving += decision["replicas"] if decision["action"] == "scale_in" else 0
    for at in range(len(look.load)):
        draining = [gone for gone in draining if gone > at]
        for decision in by_time.get(iso(look.start + at * look.step), []):
            if decision["action"] == "scale_in":
                serving -= decision["replicas"]
                draining += [at + drain] * decision["replicas"]
            else:
                back = min(decision["replicas"], len(draining))
                draining = draining[back:]
                arrivals += [(at + back_after, back), (at + lead, decision["replicas"] - back)]
        serving += sum(count for due, count in arrivals if due == at)
        building = sum(count for due, count in arrivals if due > at)
        paid = serving + building + len(draining)
        assert (serving, paid) == (shown["serving"][at], shown["paid"][at]), at


def check_headline(look: SecondLook) -> None:
    document = look.document
    found = JUDGED.fullmatch(document["headline"])
    assert found, document["headline"]
    assert number(found["weight"]) == pytest.approx(look.weight)
    figures = {each["name"]: each.groupdict() for each in FIGURES.finditer(found["figures"])}
    reactive = min(look.reactive(), key=lambda name: look.weighted(name, look.border))
    assert list(figures) == ["Peaker", "static peak", "cron schedule", "today's fleet", reactive]
    assert set(look.policies["today's fleet"]["paid"]) == {8}
    check_schedule(look)
    check_savings(look, found, list(figures)[1:])
    for name, said in figures.items():
        assert number(said["hours"]) == pytest.approx(look.hours(name, look.border), abs=0.51)
        assert number(said["dollars"]) == pytest.approx(PRICE * look.hours(name, look.border), abs=0.01)
        assert number(said["short"]) == pytest.approx(look.short_minutes(name, look.border), abs=0.51)
        assert number(said["weighted"]) == pytest.approx(look.weighted(name, look.border), abs=0.52)
    count = look.policies["static peak"]["serving"][0]
    assert figures["static peak"]["note"] == f"{count} replica{'' if count == 1 else 's'}"
    compared = (len(look.load) - look.border) * look.step
    assert number(found["days"]) == pytest.approx(compared / DAY, abs=0.051)
    assert compared >= 7 * DAY
    assert found["from"] == iso(look.start + look.border * look.step)[:10]
    assert found["to"] == iso(look.start + len(look.load) * look.step)[:10]
    check_answer(look, found, reactive)


def check_schedule(look: SecondLook) -> None:
    """Each hour has as many as the highest load of that hour in the 14 days before took."""
    serving = look.policies["cron schedule"]["serving"]
    day, hour = round(DAY / look.step), max(1, round(3600 / look.step))
    into_day = round(look.start % DAY / look.step)
    for at in range(15 * day, len(serving)):
        midnight = at - (at + into_day) % day
        slot = midnight + (at + into_day) % day // hour * hour
        before = [look.required[slot - days * day + each] for days in range(1, 15) for each in range(hour)]
        assert serving[at] == max(1, *(need for need in before if need is not None))


def check_savings(look: SecondLook, found: re.Match[str], rivals: list[str]) -> None:
    ours = look.dollars_a_month("Peaker")
    assert number(found["ours"]) == pytest.approx(ours, abs=0.51)
    said = {each["name"]: each for each in SAVING.finditer(found["savings"])}
    assert list(said) == rivals
    for name, one in said.items():
        theirs = look.dollars_a_month(name)
        assert number(one["dollars"]) == pytest.approx(abs(theirs - ours), abs=0.51)
        assert number(one["percent"]) == pytest.approx(100 * abs(theirs - ours) / theirs, abs=0.51)
        assert (one["way"] == "less") == (ours <= theirs)


def check_answer(look: SecondLook, found: re.Match[str], reactive: str) -> None:
    ours = look.weighted("Peaker", look.border)
    best = min(
        ("static peak", "cron schedule", "today's fleet", reactive),
        key=lambda name: look.weighted(name, look.border),
    )
    theirs = look.weighted(best, look.border)
    if abs(ours - theirs) <= 0.01 * theirs:
        assert found["even"] == best
        return
    if ours > theirs:
        assert found["better"] == best
        return
    assert found["beaten"] == best


def check(document: dict[str, Any], page: dict[str, Any], output: str) -> None:
    look = SecondLook(document)
    assert look.required == document["course"]["required"]
    check_policies(look)
    check_course_follows_decisions(look)
    words = " ".join(output.split())
    assert " ".join(document["headline"].split()) in words
    assert page["load"] == look.load
    assert page["required"] == look.required
    assert page["peaker"] == look.policies["Peaker"]["serving"]
    assert page["peaker_paid"] == look.policies["Peaker"]["paid"]
    assert page["compared"] == look.border
    assert page["static"] == look.policies["static peak"]["serving"][0]
    if document["verdict"]["answer"] == "too_short":
        assert SHORT.fullmatch(document["headline"]), document["headline"]
    else:
        check_headline(look)


def weekly(days: int) -> np.ndarray:
    hour = np.arange(24 * days)
    wave = 100 + 60 * np.sin((hour % 24 - 9) / 24 * 2 * np.pi)
    return (
        wave
        * np.where(hour // 24 % 7 >= 5, 0.4, 1.0)
        * np.exp(np.random.default_rng(5).normal(0, 0.03, len(hour)))
    )


def bursty(days: int) -> np.ndarray:
    draw = np.random.default_rng(11)
    load = 20 * np.exp(draw.normal(0, 0.1, 24 * days))
    for at in draw.integers(0, 24 * days - 4, 14):
        load[at : at + 4] *= 12
    return load


# By kind of load: its points, one an hour, and the answer.
GENERATED: dict[str, tuple[np.ndarray, str]] = {
    "falling": (weekly(28) * np.linspace(3, 1, 24 * 28), "pays"),
    "flat": (np.full(24 * 22, 50.0), "does_not_pay"),
    "bursty": (bursty(42), "does_not_pay"),
    "a warm-up in the replay": (weekly(25), "even"),
    "a day too short": (weekly(20), "too_short"),
}
Report = tuple[dict[str, Any], dict[str, Any], str]


@pytest.fixture(scope="module")
def report_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Report]:
    """The backtest of a generated load, made once."""

    @functools.cache
    def report(kind: str) -> Report:
        return backtest(GENERATED[kind][0], tmp_path_factory.mktemp("report"))

    return report


@pytest.mark.parametrize("kind", GENERATED)
def test_no_headline_is_contradicted(kind: str, report_of: Callable[[str], Report]) -> None:
    document, page, output = report_of(kind)
    check(document, page, output)
    assert document["verdict"]["answer"] == GENERATED[kind][1]


def test_the_warm_up_is_told_apart(report_of: Callable[[str], Report]) -> None:
    document, _, _ = report_of("a warm-up in the replay")
    assert document["compared_from"] == iso(START + 14 * DAY)
    assert document["from"] == iso(START + 4 * DAY)
    note = next(note for note in document["notes"] if note.startswith("Warm-up, left out"))
    for policy in document["policies"]:
        if policy["name"] in {"Peaker", "static peak"}:
            assert f"{policy['name']} {policy['warm_up']['replica_hours']:,.0f}" in note


@pytest.mark.parametrize(("kind", "rule"), [("bursty", "reactive"), ("falling", "forecast")])
def test_the_cheapest_rule_is_reactive_on_bursts_and_the_forecast_on_a_rhythm(
    kind: str, rule: str, report_of: Callable[[str], Report]
) -> None:
    document, _, output = report_of(kind)
    assert document["settings"]["cheapest_rule"] == rule
    assert f"The cheapest rule on this load is `{rule}`" in output
