"""Which price holds for a cluster, where it comes from, and what is said where there is none."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from peaker.domain.document.plan import Price, ScaleOutPlan, Way
from peaker.domain.planning.plan_decision import plan_scale_out
from peaker.domain.prices.fetched_prices import kept, price_table, why_due
from peaker.domain.prices.price_table import EbsPrices, FetchedPrices, PriceTable
from peaker.domain.reading import Known, Unknown

from sim.workflows.virtual_time import START as NOON
from tests.support.builders import fleet_with, orders, plan_facts, replica

BASE = "i-00000000000000b01"
NOT_ASKED = Unknown("the AWS Price List was not asked yet")
IRISH = {"region": "eu-west-1", "subnets": {"eu-west-1a": "subnet-0a77000000000001a"}}
NO_BUDGET = {"limits": {"minimum_lifetime_minutes": 0, "prewarm_deadline_minutes": 15}}
IN_IRELAND = FetchedPrices(
    region="eu-west-1",
    fetched_at=NOON - timedelta(days=2),
    instance_hourly_usd={"r6i.large": 0.141, "x9.huge": None},
    ebs=EbsPrices(
        gp3_gib_month=0.088, gp3_iops_month=0.0055, gp3_mib_per_s_month=0.044, snapshot_gib_month=0.053
    ),
)


def table(prices: FetchedPrices | Unknown = NOT_ASKED, **settings: Any) -> PriceTable:
    return price_table(orders(**settings), prices, NOON)


def plan(prices: FetchedPrices | Unknown = NOT_ASKED, **settings: Any) -> ScaleOutPlan:
    facts = plan_facts(fleet_with(replica(BASE)), orders(**settings), prices=table(prices, **settings))
    return plan_scale_out(facts, [Way(rate_mib_per_s=settings.get("initialization_rate_mib_per_s"))])


def price(prices: FetchedPrices | Unknown = NOT_ASKED, **settings: Any) -> Price:
    return plan(prices, **settings).price


def test_what_an_hour_costs_you_wins_over_the_price_list() -> None:
    found = price(IN_IRELAND, **IRISH, instance_hourly_usd=0.09)
    assert found.instance_hourly == 0.09
    assert found.source.startswith("instance_hourly_usd in the settings; AWS Price List, eu-west-1")


def test_what_the_price_list_does_not_sell_is_unknown_also_where_the_shipped_table_has_it() -> None:
    withdrawn = FetchedPrices(region="us-east-1", fetched_at=NOON, instance_hourly_usd={"r6i.large": None})
    assert isinstance(table(withdrawn).instance_hour("r6i.large"), Unknown)


def test_a_local_zone_has_prices_of_its_own() -> None:
    boston = table(subnets={"us-east-1-bos-1a": "subnet-0a77000000000001a"})
    hour = boston.instance_hour("r6i.large")
    assert isinstance(hour, Unknown)
    assert "us-east-1-bos-1a" in hour.why


def test_old_prices_are_used_and_called_old_with_the_reason() -> None:
    old = kept("eu-west-1", IN_IRELAND.model_copy(update={"fetched_at": NOON - timedelta(weeks=5)}),
               "pricing:GetProducts: AccessDeniedException", NOON)  # fmt: skip
    found = price(old, **IRISH)
    assert found.instance_hourly == 0.141
    assert "OLD, not refreshed for 5 weeks: pricing:GetProducts: AccessDeniedException" in found.source


@pytest.mark.parametrize("limits", [NO_BUDGET, {}], ids=["no-budget", "budget"])
def test_an_unknown_price_refuses_only_where_a_budget_is_set(limits: dict[str, Any]) -> None:
    found = plan(**IRISH, **limits)
    assert [one.code for one in found.refusals] == ([] if limits else ["price_unknown"])
    assert found.price.hourly is None


def test_the_initialization_rates_price_is_unknown_outside_us_east_1_unless_it_is_given() -> None:
    rate = {**IRISH, "initialization_rate_mib_per_s": 300}
    found = price(IN_IRELAND, **rate)
    assert found.once is None
    assert found.hourly is not None
    assert "unknown price of the initialization rate in eu-west-1" in found.unknown[0]
    assert price(IN_IRELAND, **rate, initialization_usd_per_gib=0.004).once == pytest.approx(8 * 0.004)


def test_a_unit_of_which_nothing_is_bought_needs_no_price() -> None:
    storage_only = PriceTable("eu-west-1", "", "", {}, EbsPrices(gp3_gib_month=0.088))
    assert storage_only.volume_hour("gp3", 730, 3000, 125) == Known(pytest.approx(0.088))
    assert isinstance(storage_only.volume_hour("gp3", 730, 3001, 125), Unknown)


def test_iops_of_io2_are_sold_in_tiers() -> None:
    tiers = EbsPrices(
        io2_gib_month=0.1,
        io2_iops_month=0.07,
        io2_iops_month_above_32000=0.05,
        io2_iops_month_above_64000=0.03,
    )
    hour = PriceTable("us-east-1", "", "", {}, tiers).volume_hour("io2", 100, 70_000, 0)
    assert hour == Known(pytest.approx((10 + 32_000 * 0.07 + 32_000 * 0.05 + 6_000 * 0.03) / 730))


DUE: dict[str, tuple[FetchedPrices | Unknown, str | None]] = {
    "never-asked": (NOT_ASKED, "no prices were fetched yet"),
    "failed-so-far": (kept("eu-west-1", NOT_ASKED, "refused", NOON), "no prices were fetched yet"),
    "another-region": (IN_IRELAND.model_copy(update={"region": "eu-west-2"}), "no prices were fetched yet"),
    "a-new-type": (
        IN_IRELAND.model_copy(update={"instance_hourly_usd": {"x9.huge": None}}), "r6i.large was never asked for"
    ),
    "complete": (IN_IRELAND, None),
    "a-week-old": (IN_IRELAND.model_copy(update={"fetched_at": NOON - timedelta(days=7)}), "the prices are 7 days old"),
}  # fmt: skip


@pytest.mark.parametrize("situation", DUE)
def test_the_price_list_is_asked_once_a_week_and_for_what_is_missing(situation: str) -> None:
    prices, why = DUE[situation]
    assert why_due(prices, "eu-west-1", ["r6i.large"], NOON) == why


def test_all_an_environment_can_ask_for_fits_a_standard_parameter() -> None:
    kinds = {f"u7inh-32tb.480xlarge{number:018}": 1234.567891 for number in range(9)}
    ebs = EbsPrices(**dict.fromkeys(EbsPrices.model_fields, 0.123456789))
    prices = FetchedPrices(region="us-gov-west-1", fetched_at=NOON, instance_hourly_usd=kinds, ebs=ebs)
    whole = kept("us-gov-west-1", prices, "x" * 5_000, NOON)
    assert len(whole.model_dump_json().encode()) < 4_096
