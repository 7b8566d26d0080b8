"""How long an expired parked replica stands for a refill: until that has cost as much as building anew."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from peaker.domain.planning.methods.refilling import (
    StandsExpired,
    standing_for_a_refill,
    stands_expired,
    why_settings_forbid_refills,
)
from peaker.domain.replicas.fleet import REFILL_DID_NOT_END, Parking, Replica, ReplicaState
from peaker.domain.replicas.inventory import TargetHealth, TargetState

from tests.support.builders import figures_of_parking, orders, replica
from tests.support.fakes import NOON

PEAK = "i-00000000000000c01"
GONE = "the source has purged binary logs that it lacks (gtid_purged)"
HOUR = timedelta(hours=1)
# Parked nine hours ago, expired an hour ago; five dollars at a quarter an hour: 20 hours.
PARKED = Parking(NOON - 9 * HOUR, "uuid:1-9", 86_400.0, NOON - HOUR, "8.0 h: a limit")


def parked(state: str = "stopped", **changes: Any) -> Replica:
    absent = TargetHealth(TargetState.ABSENT)
    one = replica(PEAK, peak_of="run-1", row_state=ReplicaState.PARKED, health=absent, state=state)
    assert one.ledger_row is not None
    parking = replace(standing_for_a_refill(PARKED, figures_of_parking()), **changes)
    return replace(one, ledger_row=replace(one.ledger_row, parking=parking))


def judged(one: Replica, hours: float = 0, base_is_kept: bool = True) -> StandsExpired | None:
    return stands_expired(one, "local", base_is_kept, NOON + hours * HOUR)


def test_it_stands_until_that_has_cost_as_much_as_a_build() -> None:
    found = standing_for_a_refill(PARKED, figures_of_parking())
    assert found.stands_until == PARKED.parked_at + 20 * HOUR
    assert (found.standing_hourly_usd, found.rebuild_usd) == (0.25, 5.0)
    assert replace(found, stands_until=None, standing_hourly_usd=None, rebuild_usd=None) == PARKED


@pytest.mark.parametrize("unknown", ["parked_hourly_usd", "rebuild_usd"])
def test_where_a_price_is_unknown_it_stands_no_longer_than_it_can_return(unknown: str) -> None:
    assert standing_for_a_refill(PARKED, figures_of_parking(**{unknown: None})) == PARKED


def test_what_stands_says_until_when_why_and_at_what_price() -> None:
    found = judged(parked())
    assert found is not None
    assert found.reason == (
        "parked, expired at 2026-11-21T11:00:00.000Z: 8.0 h: a limit; stands until 2026-11-21T23:00:00.000Z: it may "
        "come back by its changed blocks; standing costs $0.2500 an hour, a build $5.00"
    )
    assert found.numbers == {
        "stands_until": "2026-11-21T23:00:00.000Z",
        "standing_hourly_usd": 0.25,
        "rebuild_usd": 5.0,
    }


STANDS = {
    "its time is over": parked(),
    "its binary logs are gone": parked(spent=GONE, until=NOON + HOUR),
    "a return of it found them gone": parked(
        spent=GONE, failed_return="run-7, StartReplication: BinlogsGone"
    ),
}


@pytest.mark.parametrize("situation", STANDS)
def test_what_has_only_expired_stands_up_to_that_hour(situation: str) -> None:
    assert judged(STANDS[situation], hours=10.9) is not None
    assert judged(STANDS[situation], hours=11) is None


GOES = {
    "a refill of it did not end": parked(spent=f"{REFILL_DID_NOT_END}: run-9"),
    "a return of it failed for another reason": parked(
        failed_return="run-7, StartDatabase: HostCommandFailed"
    ),
    "a volume of it is missing": parked(incomplete_since=NOON),
    "it runs": parked(state="running"),
    "it was parked where no run could refill it": parked(stands_until=None),
    "it has not expired": parked(until=NOON + HOUR),
    "it serves": replica(PEAK, peak_of="run-1"),
}


@pytest.mark.parametrize("situation", GOES)
def test_nothing_else_stands_for_a_refill(situation: str) -> None:
    assert judged(GOES[situation]) is None


def test_without_the_snapshots_that_it_was_made_from_it_does_not_stand() -> None:
    assert judged(parked(), base_is_kept=False) is None


def test_the_settings_say_whether_any_is_refilled() -> None:
    refills = {"idle_seconds": 600, "park": "always", "refill_expired": True}
    assert "refill_expired is false" in str(why_settings_forbid_refills(orders()))
    settings = orders(retirement=refills, prewarm={"direct_fill": True})
    assert why_settings_forbid_refills(settings) is None
