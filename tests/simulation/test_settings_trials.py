"""Other settings on the same weeks: what `peaker backtest` tries, proposes and shows, and what it never does."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from peaker.domain.forecasting import LoadSeries
from peaker.domain.forecasting.forecaster import rolling_forecasts
from peaker_backtest.replay.simulation import Figures, Scenario, simulate_forecasts, simulate_policies
from peaker_backtest.replay.trials import (
    REACTIVE,
    Answer,
    Choice,
    Trial,
    Trials,
    choice_of,
    judge_worth,
    other_choices,
    policy_of,
    remembered,
)
from peaker_cli.backtest.command import backtest_command
from peaker_cli.deployment import takes_deployment
from typer.testing import CliRunner

from tests.unit.domain.forecasting.loads import START, daily

app = typer.Typer()
app.command()(takes_deployment(backtest_command))
HOUR = 3600
DAYS = 31


def scenario(**changes: Any) -> Scenario:
    given: dict[str, Any] = {
        "series": LoadSeries(START, HOUR, daily(DAYS, HOUR)),
        "first": 17 * 24,
        "last": DAYS * 24,
        "lead_steps": 2,
        "capacity_per_replica": 20.0,
    }
    return Scenario(**{**given, **changes})


def forecasts(scene: Scenario):  # type: ignore[no-untyped-def]
    rolling = rolling_forecasts(scene.series, list(scene.decision_steps()), [scene.lead_seconds], 24)
    return [(step, one) for step, (one,) in rolling]


def test_policies_side_by_side_come_to_what_each_comes_to_alone() -> None:
    scene = scenario()
    issued = forecasts(scene)
    choices = other_choices(scene)[::4]
    together = simulate_policies(
        scene, remembered(issued), [(str(each), policy_of(scene, each)) for each in choices]
    )
    for choice, one in zip(choices, together, strict=True):
        alone = simulate_forecasts("alone", scene, issued, policy_of(scene, choice))
        assert np.array_equal(one.paid, alone.paid)
        assert np.array_equal(one.serving, alone.serving)
        assert one.events == alone.events


def test_the_settings_of_now_are_not_tried_twice() -> None:
    scene = scenario(quantile=0.95, headroom=0.0)
    assert choice_of(scene) not in other_choices(scene)
    assert len(other_choices(scenario(quantile=0.93))) == len(other_choices(scene)) + 1


def trial(hours: float, short: float, choice: Choice) -> Trial:
    return Trial(choice, Figures(60 * short, 0.0, short, hours, 0, 0))


NOW = trial(100, 1, Choice(0.95, 0.0))


def test_the_cheapest_counts_a_replica_hour_short_as_the_quantile_weighs_it() -> None:
    lean, safe = trial(80, 3, Choice(0.9, 0.0)), trial(110, 0, Choice(0.99, 0.0))
    found = Trials((NOW, lean, safe), short_weight=19)
    assert found.cheapest is safe
    assert [found.weighted(one) for one in found.every] == [119, 137, 110]


def test_of_equal_settings_the_present_ones_stay() -> None:
    found = Trials((NOW, trial(100, 1, Choice(0.9, 0.0))), short_weight=19)
    assert found.cheapest is NOW


def test_the_best_of_each_rule_is_shown_the_cheaper_rule_first() -> None:
    dear, reactive = trial(120, 1, Choice(0.99, 0.1)), trial(90, 1, Choice(0.95, 0.2, REACTIVE))
    assert Trials((NOW, dear, reactive), short_weight=19).best_of_each_rule == (reactive, NOW)


@pytest.fixture(scope="module")
def load_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = [f"{START + HOUR * at:.0f},{value:.2f}" for at, value in enumerate(daily(DAYS, HOUR))]
    path = tmp_path_factory.mktemp("load") / "reads.csv"
    path.write_text("\n".join(["timestamp,value", *rows]), encoding="utf-8")
    return path


def shown(load_file: Path, *more: str) -> tuple[str, dict[str, Any], str]:
    page, document = load_file.with_suffix(".html"), load_file.with_suffix(".json")
    arguments = [
        "--capacity",
        "20",
        "--replica-hour-usd",
        "0.5",
        "--json",
        str(document),
        "--html",
        str(page),
    ]
    result = CliRunner().invoke(app, [str(load_file), *arguments, *more])
    assert result.exit_code == 0, result.output
    return result.output, json.loads(document.read_text()), page.read_text()


def test_the_line_of_the_cheapest_settings_is_said_everywhere_and_stays_once_it_is_set(
    load_file: Path,
) -> None:
    output, document, page = shown(load_file, "--quantile", "0.9", "--headroom", "0.5")
    settings = document["settings"]
    cheapest = settings["cheapest"]
    assert cheapest != settings["now"]
    assert settings["line"] in output
    for said in settings["said"]:
        assert said in output
        assert said in html.unescape(page)
    assert "Nothing is changed." in output
    assert len(settings["tried"]) == 17
    least = min(settings["tried"], key=lambda one: one["weighted_replica_hours"])
    assert {name: least[name] for name in cheapest} == cheapest
    given = ["--quantile", str(cheapest["quantile"]), "--headroom", str(cheapest["headroom"])]
    again = shown(load_file, *given)[1]["settings"]
    assert again["now"] == again["cheapest"] == cheapest
    assert "stay" in again["said"][-1]


def test_within_a_hundredth_it_makes_no_difference() -> None:
    assert judge_worth("Peaker", {"Peaker": 100.9, "static peak": 100.0}).answer is Answer.EVEN
    assert judge_worth("Peaker", {"Peaker": 101.1, "static peak": 100.0}).answer is Answer.DOES_NOT_PAY
