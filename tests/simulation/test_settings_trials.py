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
from peaker_backtest.replay.settings_proposal import FORECAST
from peaker_backtest.replay.simulation import Scenario, simulate_forecasts, simulate_policies
from peaker_backtest.replay.trials import choice_of, other_choices, policy_of, remembered, weeks_of
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


def test_more_headroom_and_a_higher_quantile_cost_more_and_are_short_less() -> None:
    scene = scenario()
    issued = forecasts(scene)
    choices = {(each.quantile, each.headroom): each for each in other_choices(scene) if each.rule == FORECAST}
    wanted = [choices[0.9, 0.0], choices[0.9, 0.1], choices[0.99, 0.1]]
    found = simulate_policies(
        scene, remembered(issued), [(str(one), policy_of(scene, one)) for one in wanted]
    )
    hours, short = [one.replica_hours for one in found], [one.short_minutes for one in found]
    assert hours == sorted(hours)
    assert hours[0] < hours[-1]
    assert short == sorted(short, reverse=True)


def test_the_settings_of_now_are_not_tried_twice() -> None:
    scene = scenario(quantile=0.95, headroom=0.0)
    assert choice_of(scene) not in other_choices(scene)
    assert len(other_choices(scenario(quantile=0.93))) == len(other_choices(scene)) + 1


def test_weeks_are_whole_and_end_with_the_load() -> None:
    scene = scenario(compare_from=19 * 24)
    (ours,) = simulate_policies(scene, forecasts(scene), [("now", scene.policy())])
    (week,) = weeks_of(scene, ours)
    assert week.replica_hours == float(ours.paid[-7 * 24 :].sum())
    short = (scene.required() > ours.serving)[-7 * 24 :]
    assert week.short_minutes == 60.0 * float(short.sum())


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


@pytest.fixture(scope="module")
def accepting(load_file: Path) -> tuple[str, dict[str, Any], str]:
    """Served at p99 by a person to whom ten hours a week may be short."""
    return shown(load_file, "--quantile", "0.99", "--accept-short-minutes", "600")


def test_an_operator_who_accepts_shortage_sees_what_it_saves_everywhere(
    accepting: tuple[str, dict[str, Any], str],
) -> None:
    output, document, page = accepting
    settings = document["settings"]
    assert settings["advice"] == "change"
    assert settings["proposed"]["quantile"] < 0.99
    assert settings["saved_usd"] == pytest.approx(0.5 * settings["saved_replica_hours"], abs=0.01)
    assert settings["saved_usd"] > 0
    for said in settings["said"]:
        assert said in output
        assert html.escape(said) in page
    assert "Nothing is changed." in output
    assert len(settings["tried"]) == 16


def test_the_saving_can_be_computed_again_from_the_weeks(accepting: tuple[str, dict[str, Any], str]) -> None:
    settings = accepting[1]["settings"]

    def a_week(choice: dict[str, float], figure: str) -> float:
        (one,) = [each for each in settings["tried"] if all(each[name] == choice[name] for name in choice)]
        return float(np.mean([week[figure] for week in one["weeks"]]))

    now, proposed = settings["now"], settings["proposed"]
    saved = a_week(now, "replica_hours") - a_week(proposed, "replica_hours")
    assert saved == pytest.approx(settings["saved_replica_hours"], abs=0.01)
    assert a_week(proposed, "short_minutes") <= 600


def test_the_settings_that_were_proposed_stay_once_they_are_set(
    load_file: Path, accepting: tuple[str, dict[str, Any], str]
) -> None:
    proposed = accepting[1]["settings"]["proposed"]
    given = [
        *("--quantile", str(proposed["quantile"]), "--headroom", str(proposed["headroom"])),
        *("--accept-short-minutes", "600"),
    ]
    output, document, _ = shown(load_file, *given)
    assert document["settings"]["advice"] == "stay"
    assert document["settings"]["now"] == proposed
    assert "Settings: quantile" in output


def test_one_compared_week_proposes_nothing(load_file: Path) -> None:
    output, document, _ = shown(load_file, "--days", "8")
    assert document["settings"]["advice"] == "unknown"
    assert "Settings: nothing is proposed; 1 whole week was compared" in output
