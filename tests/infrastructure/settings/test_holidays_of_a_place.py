"""Public holidays of a place, as the settings name them and as they are deployed."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Template
from peaker.usecases.forecast.load_ahead import holiday_calendar

from environments.public_holidays import PublicHolidays, deployed_holidays
from environments.settings import Environment
from peaker_contract.cluster import ClusterSettings, deployed_document
from peaker_contract.load_settings import DeployedPublicHolidays
from peaker_holidays import Place, public_holidays, weekday_of_rest
from stacks.cluster_stack import ClusterStack
from stacks.naming import Names
from tests.infrastructure.settings.test_environment_files import changed, shop

ARNS = {
    name: f"arn:aws:elasticloadbalancing:{name}"
    for name in ("target_group_arn", "warming_target_group_arn", "listener_arn")
}
BAVARIA = {"country": "DE", "subdivision": "BY", "time_zone": "Europe/Berlin"}
BERLIN = ZoneInfo("Europe/Berlin")


def test_days_are_deployed_with_their_midnights_from_the_remembered_ones_to_the_end_of_two_years_ahead() -> (
    None
):
    days = deployed_holidays(PublicHolidays(**BAVARIA), 2026)
    assert days is not None
    assert (days["last_year"], days["day_of_rest"]) == (2028, "sunday")
    assert days["days"]["Christmas Day"] == [
        "2025-12-25+01:00", "2026-12-25+01:00", "2027-12-25+01:00", "2028-12-25+01:00",
    ]  # fmt: skip
    assert days["days"]["Ascension Day"][0] == "2026-05-14+02:00"
    assert "2025-10-03+02:00" not in days["days"]["German Unity Day"], "no forecast of the year remembers it"


def test_the_functions_get_local_weekdays_and_moments() -> None:
    document = changed(shop(), {"c.public_holidays": BAVARIA})
    block = Environment.parse(document, "shop.yaml").clusters[0]
    written = json.dumps(
        deployed_document(
            block, environment="shop", region="eu-west-1", endpoint=ARNS,
            holidays=deployed_holidays(block.public_holidays, 2026),
        )
    )  # fmt: skip
    calendar = holiday_calendar(ClusterSettings.model_validate_json(written))
    assert calendar is not None
    christmas = next(one for one in calendar.holidays if one.name == "Christmas Day" and one.weekday == 4)
    assert christmas.start_seconds == datetime(2026, 12, 24, 23, tzinfo=UTC).timestamp()
    assert calendar.day_of_rest == 6
    assert calendar.known_until_seconds == datetime(2029, 1, 1, tzinfo=UTC).timestamp()
    starts = [one.start_seconds for one in calendar.holidays]
    assert starts == sorted(starts)


def test_a_cluster_s_stack_writes_the_days_of_the_year_of_its_synth() -> None:
    environment = Environment.parse(changed(shop(), {"c.public_holidays": BAVARIA}), "shop.yaml")
    app = cdk.App()
    place = cdk.Environment(account=environment.account, region=environment.region)
    for cluster in environment.clusters:
        ClusterStack(app, cluster.name, names=Names(environment), cluster=cluster, year=2027, env=place)
    template = Template.from_stack(app.node.find_child(environment.clusters[0].name))
    written = json.dumps(template.find_resources("AWS::SSM::Parameter"))
    assert "2029-12-25+01:00" in written
    assert "2026-12-25+01:00" in written
    assert "2025-12-25" not in written
    other = Template.from_stack(app.node.find_child(environment.clusters[1].name))
    assert "public_holidays" not in json.dumps(other.find_resources("AWS::SSM::Parameter"))


@pytest.mark.parametrize(("year", "same"), [(2026, True), (2027, False)])
def test_a_template_changes_with_the_year_alone(year: int, same: bool) -> None:
    settings = PublicHolidays(**BAVARIA)
    assert (deployed_holidays(settings, year) == deployed_holidays(settings, 2026)) is same


def test_ordinary_days_are_left_out_whether_observed_or_not() -> None:
    place = Place("US")
    names = {one.name for one in public_holidays(place, BERLIN, [2023], ["Veterans Day", "Columbus Day"])}
    assert {"Thanksgiving Day", "Christmas Day"} <= names
    assert not any("Veterans" in name or "Columbus" in name for name in names)
    every = {one.name for one in public_holidays(place, BERLIN, [2023])}
    assert every - names == {"Columbus Day", "Veterans Day", "Veterans Day (observed)"}


@pytest.mark.parametrize(("country", "rest"), [("DE", 6), ("US", 6), ("JP", 6), ("SA", 4), ("EG", 4)])
def test_the_day_of_rest_is_a_sunday_where_people_rest_then(country: str, rest: int) -> None:
    assert weekday_of_rest(Place(country)) == rest


@pytest.mark.parametrize(
    "day", ["2026-02-30+01:00", "2026-12-25+25:00", "2026-12-25", "2026-12-25Z", "26-12-25+01:00"]
)
def test_a_deployed_day_that_is_none_is_refused(day: str) -> None:
    with pytest.raises(ValueError, match="days"):
        DeployedPublicHolidays.model_validate({**BAVARIA, "days": {"Christmas Day": [day]}})
