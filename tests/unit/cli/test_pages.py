"""The pages of status, plan, receipt and month: what they say, whatever they say it of."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from peaker.domain.reading import Known, Unknown
from peaker_cli.app import app
from peaker_cli.month.bill import bill
from peaker_cli.month.page import render_page as month_page
from peaker_cli.runs.plan_page import render_page as plan_page
from peaker_cli.runs.receipt_page import render_page as receipt_page
from peaker_cli.status.document import ClusterStatus, cluster_status
from peaker_cli.status.page import render_page as status_page
from peaker_cli.status.week import PUBLISHED, Week
from typer.testing import CliRunner

from peaker_contract.metrics import Metric
from tests.support.simulated_month import simulated
from tests.unit.cli.test_receipt import receipt
from tests.unit.cli.test_status_document import NOON, gathered

ROOT = Path(__file__).resolve().parents[3]
REFUSED = Unknown("AccessDenied: arn:aws:iam::111111111111:user/someone may not call ec2:DescribeInstances")
LONG = "a-cluster-with-the-longest-name-that-anybody-gave-to-one"


def week() -> Week:
    """A peak a day, with a gap in what was measured; a forecast of it, and replicas that follow."""
    times = [NOON - timedelta(minutes=15 * back) for back in range(672, 0, -1)]
    load = [(at, 900.0 if 16 <= at.hour < 20 else 200.0) for at in times]
    published = {metric: [(at, 1.0) for at in times] for metric in PUBLISHED}
    published[Metric.FORECAST_LOAD_P50] = load
    published[Metric.FORECAST_LOAD_P95] = [(at, 1.2 * value) for at, value in load]
    published[Metric.LEAD_TIME_SECONDS] = [(at, 3600.0) for at in times]
    return Week(NOON, [*load[:300], *load[330:]], published)


def usual() -> ClusterStatus:
    return cluster_status(gathered())


def unknown() -> ClusterStatus:
    status = usual()
    capacity = replace(
        status.capacity, load=REFUSED, forecast=REFUSED, forecast_for_seconds=REFUSED, capacity=REFUSED,
        serving=REFUSED, required=REFUSED,
    )  # fmt: skip
    return replace(
        status, cluster="dark", source=REFUSED, replicas=REFUSED, run=REFUSED, decision=REFUSED, alarms=REFUSED,
        last_run=REFUSED, paused_rules=REFUSED, kept_snapshots=REFUSED, capacity=capacity,
    )  # fmt: skip


def crowded() -> ClusterStatus:
    status = usual()
    assert not isinstance(status.replicas, Unknown)
    many = tuple(
        replace(status.replicas[0], instance_id=f"i-{number:017x}", lag_seconds=Known(1234.5 * number))
        for number in range(20)
    )
    return replace(status, cluster=LONG, replicas=many)


def plan(**changes: Any) -> dict[str, Any]:
    option = {"action": "build", "p50_seconds": 4000, "p90_seconds": 6000, "usd": 1.25, "replica": None,
              "rate_mib_per_s": None, "why_not": None}  # fmt: skip
    options = [option, option | {"rate_mib_per_s": 300, "usd": None, "p90_seconds": 5000},
               option | {"action": "return", "replica": "i-0123456789abcdef", "why_not": "too long"}]  # fmt: skip
    return {
        "cluster": "orders", "planned_at": "2026-11-29T13:13:29Z", "count": 1, "serving": 1, "building": 0,
        "max_replicas": 3, "donor": "i-1", "donor_reasons": [], "zones": ["us-east-1a"], "instance_type": "r6i.large",
        "volumes": [], "lead_time": {"seconds": 4000, "parts": {"ramp": 900}, "p90_seconds": 6000, "p90_parts": {}},
        "ready_at": "2026-11-29T14:20:00Z", "refusals": [], "lifted": ["budget: $9 above $8"],
        "price": {"hourly": 0.12, "once": 0.0, "per_month_if_kept": 92.0, "source": "table"},
        "choice": {"options": options, "index": 0, "reason": "cheapest", "ready_by": "2026-11-29T15:30:00Z",
                   "in_time": True},
        "checks": [{"name": "memory", "verdict": "unknown", "detail": "not known yet", "remedy": "ask", "numbers": {}}],
        **changes,
    }  # fmt: skip


def proven() -> dict[str, Any]:
    volumes = [{"name": "data", "await_cold_ms": 30.26, "await_first_ms": 0.91, "await_second_ms": None}]
    windows = [{"share": 0.3, "action": "advance", "reason": "as its peers", "mean_ms": 0.4, "peers_mean_ms": None,
                "measured_ratio": 0.31, "expected_ratio": 0.3}]  # fmt: skip
    at = "2026-11-24T17:{}:00+00:00"
    steps = [
        {"step": "VerifyStorage", "started_at": at.format("10"), "seconds": 9.0,
         "numbers": {"verdict": "warm", "reason": "none was slow", "volumes": volumes}},
        {"step": "RampTraffic", "started_at": at.format("20"), "seconds": 700.0, "numbers": {"windows": windows}},
    ]  # fmt: skip
    return receipt(steps=steps)


def failed() -> dict[str, Any]:
    failure = {"failed_step": "VerifyStorage", "error": "StorageCold", "cause": "cold " * 60}
    steps = [
        {"step": "VerifyStorage", "started_at": "2026-11-24T17:10:00+00:00", "seconds": None, "numbers": {}}
    ]
    return receipt(outcome="rolled_back", failure=failure, steps=steps, cost=None, forecast_lead=None)


@cache
def pages() -> dict[str, str]:
    month = simulated(1).as_month()
    empty = replace(month, stretches=[], parked=[], load=[])
    bare = plan(choice=None, checks=[], lead_time=None, ready_at=None, lifted=[],
                refusals=[{"code": "budget", "reason": "above the budget " * 12}],
                price={"hourly": None, "once": None, "source": "table"})  # fmt: skip
    return {
        "status": status_page([usual()], {"orders": week()}),
        "fleet": status_page(
            [unknown(), crowded()], {"dark": Week(NOON, REFUSED, REFUSED), LONG: Week(NOON, [], {})}
        ),
        "plan": plan_page(plan()),
        "refused plan": plan_page(bare),
        "receipt": receipt_page(proven()),
        "failed": receipt_page(failed()),
        "month": month_page(month, bill(month)),
        "empty month": month_page(empty, bill(empty)),
    }


class Seen(HTMLParser):
    """Each element of a page with its attributes, and the text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [given for name, given in self.elements if name == tag]


@pytest.mark.parametrize("name", list(pages()))
def test_a_page_can_be_read_by_everybody_and_fetches_nothing(name: str) -> None:
    page = pages()[name]
    seen = Seen(page)
    assert seen.all("html") == [{"lang": "en"}]
    assert len(seen.all("main")) == len(seen.all("h1")) == len(seen.all("title")) == 1
    assert all(one.get("scope") for one in seen.all("th"))
    assert all(one.get("aria-label") or one.get("aria-hidden") for one in seen.all("svg"))
    assert "default-src 'none'" in str(seen.all("meta"))
    assert not re.search(r"https?://|@import|url\(|<script", page)


def test_what_is_unknown_is_said_with_its_reason_and_is_no_number() -> None:
    status = unknown()
    text = Seen(status_page([status], {"dark": Week(NOON, REFUSED, REFUSED)})).text
    assert text.count("unknown") > 8
    assert f"load unknown: {REFUSED.why}" in text
    assert not re.search(
        r"(?<![\d.])0(\.0)?(?![\d.])", text.partition("load now")[2].partition("Replicas")[0]
    )


def test_the_status_has_the_verdict_the_replicas_and_the_week() -> None:
    page = pages()["status"]
    assert page.index('class="verdict') < page.index("share of reads") < page.index("The week")
    assert "forecast one lead time before" in page


def test_a_gap_in_what_was_measured_is_a_gap_in_the_line() -> None:
    [line] = re.findall(r'd="([^"]+)" stroke="var\(--load\)"', pages()["status"])
    assert line.count("M") == 2


def test_the_month_says_what_was_saved_against_what_and_since_when() -> None:
    assert re.search(
        r"\$[\d,.]+ \(\d+%\) saved against 2 peak replicas always on since 01 Nov", pages()["month"]
    )
    assert "nothing is compared" in pages()["empty month"]


def test_a_receipt_has_await_before_and_after_the_ramp_and_the_step_that_failed() -> None:
    for words in ("data, cold", "30.26 ms", "not measured", "31%", "initialization and other one-time costs"):
        assert words in pages()["receipt"]
    assert "Failed at VerifyStorage: StorageCold" in pages()["failed"]


@pytest.mark.parametrize(
    "command", ["status", "plan orders", "receipt last", "month orders", "backtest a.csv"]
)
def test_a_page_is_a_file_and_not_standard_output(command: str) -> None:
    typed = [*command.split(), "--html", "-"]
    refused = CliRunner().invoke(app, typed, terminal_width=200)
    assert refused.exit_code == 2
    assert "'--html': give a file: this is not written to standard output" in refused.output


def test_a_hostile_name_is_text() -> None:
    name = "</style><script>alert(1)</script>"
    page = receipt_page(receipt(cluster=name, reason=name, notes=[name]))
    assert "<script" not in page
    assert page.count("&lt;script&gt;") >= 3


def schemes() -> Iterator[tuple[str, dict[str, str]]]:
    style = (ROOT / "cli" / "peaker_pages" / "page.css").read_text(encoding="utf-8")
    light, dark = re.findall(r":root \{([^}]+)\}", style)
    colours = dict(re.findall(r"--([\w-]+):(#\w+)", light))
    yield "light", colours
    yield "dark", colours | dict(re.findall(r"--([\w-]+):(#\w+)", dark))


def luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * one for one in colour[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts]
    return sum(weight * one for weight, one in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize(("scheme", "colours"), list(schemes()), ids=["light", "dark"])
def test_letters_stand_out_from_what_is_behind_them(scheme: str, colours: dict[str, str]) -> None:
    """WCAG 2.2, 1.4.3: 4.5 at least."""
    pairs = [
        (text, ground) for text in ("ink", "soft", "good", "warn", "bad") for ground in ("paper", "ground")
    ]
    for text, ground in [*pairs, ("on", "good"), ("on", "warn"), ("on", "bad"), ("on", "soft")]:
        low, high = sorted((luminance(colours[text]), luminance(colours[ground])))
        assert (high + 0.05) / (low + 0.05) >= 4.5, (scheme, text, ground)
