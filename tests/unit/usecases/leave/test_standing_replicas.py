"""An expired parked replica that a run may refill stands until that has cost as much as a build; then it goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from peaker.domain.replicas.fleet import REFILL_DID_NOT_END, Parking, ReplicaState
from peaker.domain.runs.batch import Member
from peaker.domain.runs.execution_input import Trigger
from peaker.domain.runs.run import RecordStep, SelectStep, SurplusStep
from peaker.domain.storage.snapshot_sets import SnapshotSet
from peaker.usecases.leave.check_surplus import SurplusChecked, check_surplus
from peaker.usecases.leave.select_idle_replicas import Selected, select_idle_replicas
from peaker.usecases.run.held_lease import holder_of
from peaker.usecases.run.kept_snapshots import bases_of_refills
from peaker.usecases.run.record_receipt import record_receipt
from peaker.usecases.run.release_lease import release_lease

from peaker_contract.errors import NoIdleReplica
from peaker_contract.steps import Method
from tests.support.builders import BASE, RUN_ID, data_volumes_of, leased, orders
from tests.support.fakes import NOON, FakePorts, fake_ports
from tests.support.peak import IN_RUN, PEAK, step, with_peak
from tests.unit.usecases.leave.test_parking_steps import LARGE_GIB, parked

REFILLS = {"idle_seconds": 600, "park": "always", "refill_expired": True}
FILL = {"direct_fill": True}


def made(**changes: Any) -> FakePorts:
    """A large peak replica that was built from a set which is kept, and that nobody needs."""
    settings = orders(**{"retirement": REFILLS, "prewarm": FILL, **changes})
    ports = with_peak(fake_ports(settings), size_gib=LARGE_GIB)
    given = leased(ports, "RecordReceipt")
    names = [str(one.name) for one in data_volumes_of(BASE)]
    ids, sources = ({name: f"{kind}-{name}" for name in names} for kind in ("snap", "vol"))
    ports.ledger.keep_snapshots(holder_of(given), SnapshotSet("orders", RUN_ID, BASE, NOON, ids, sources))
    release_lease(ports, given)
    return ports


def parking_of(ports: FakePorts) -> Parking:
    parking = ports.ledger.replicas("orders")[PEAK].parking
    assert parking is not None
    return parking


def stands_until(ports: FakePorts) -> datetime:
    until = parking_of(ports).stands_until
    assert until is not None
    return until


def expired(ports: FakePorts) -> FakePorts:
    """Parked, and its source has forgotten what it lacks; its standing has not yet cost what a build would."""
    parked(ports, binlog_expire_seconds=7200)
    release_lease(ports, step(ports, "ReleaseLease"))
    until = parking_of(ports).until
    assert until is not None
    assert until < stands_until(ports)
    ports.clock.advance(seconds=(until - ports.clock.now()).total_seconds() + 1)
    return ports


def asked_by_the_schedule(ports: FakePorts) -> SurplusChecked:
    trigger = Trigger(kind="schedule")
    given = SurplusStep(
        run_id=IN_RUN, cluster="orders", operation="scale_in", step="CheckSurplus", trigger=trigger
    )
    return check_surplus(ports, given)


def selected(ports: FakePorts, replica: str | None = None) -> Selected:
    later = leased(ports, "SelectIdleReplicas", "scale_in", "scale-in-orders-later")
    return select_idle_replicas(ports, SelectStep(**later.model_dump(), replica=replica))


def now(ports: FakePorts, **changes: Any) -> None:
    given = leased(ports, "Changed")
    row = ports.ledger.replicas("orders")[PEAK]
    ports.ledger.set_replica(holder_of(given), replace(row, parking=replace(parking_of(ports), **changes)))
    release_lease(ports, given)


def forget_the_set(ports: FakePorts) -> None:
    given = leased(ports, "Changed")
    [kept] = ports.ledger.snapshot_sets("orders")
    ports.ledger.forget_snapshots(holder_of(given), kept, NOON)
    release_lease(ports, given)


def made_by_a_direct_fill(ports: FakePorts) -> None:
    given = leased(ports, "Changed")
    member = Member(batch=RUN_ID, number=1, method=Method.BUILD, fills=True)
    ports.ledger.settle(holder_of(given), member)
    release_lease(ports, given)


def settings_are_now(ports: FakePorts, **changes: Any) -> None:
    ports.clusters.by_name["orders"] = orders(**{"retirement": REFILLS, "prewarm": FILL, **changes})


def test_one_that_was_parked_stands_until_that_has_cost_as_much_as_a_build() -> None:
    ports = made()
    found = parked(ports)
    parking = parking_of(ports)
    hourly, build = parking.standing_hourly_usd, parking.rebuild_usd
    assert hourly is not None
    assert build is not None
    assert stands_until(ports) == parking.parked_at + timedelta(hours=build / hourly)
    assert "to be refilled after that, until 2026" in found.text
    record_receipt(ports, RecordStep(**step(ports, "RecordReceipt").model_dump(), outcome="succeeded"))
    receipt = ports.ledger.receipt(IN_RUN)
    assert receipt is not None
    assert receipt["replica"]["stands_until"].startswith(f"{stands_until(ports):%Y-%m-%dT%H:%M}")


def test_without_refills_it_stands_no_longer_than_it_can_return() -> None:
    ports = made(retirement={**REFILLS, "refill_expired": False})
    found = parked(ports)
    assert parking_of(ports).stands_until is None
    assert "refilled" not in found.text


def test_one_whose_volumes_were_made_empty_is_never_refilled_and_stands_for_none() -> None:
    ports = made()
    made_by_a_direct_fill(ports)
    parked(ports)
    assert parking_of(ports).stands_until is None
    assert bases_of_refills(ports, ports.clusters.settings("orders")) == frozenset()


def test_neither_the_hourly_check_nor_a_run_takes_it_while_it_stands() -> None:
    ports = expired(made())
    text = asked_by_the_schedule(ports).text
    assert not asked_by_the_schedule(ports).surplus, text
    assert "it may come back by its changed blocks; standing costs $" in text
    with pytest.raises(NoIdleReplica, match="stands until"):
        selected(ports)


def test_once_that_has_cost_as_much_as_a_build_it_goes() -> None:
    ports = expired(made())
    ports.clock.advance(seconds=(stands_until(ports) - ports.clock.now()).total_seconds())
    assert asked_by_the_schedule(ports).surplus
    assert selected(ports).replicas == (PEAK,)


def test_by_name_it_goes_at_once() -> None:
    assert selected(expired(made()), PEAK).replicas == (PEAK,)


def test_one_whose_binary_logs_are_gone_stands_too() -> None:
    ports = expired(made())
    now(ports, spent="the source has purged binary logs that it lacks", failed_return="run-9, X: BinlogsGone")
    assert not asked_by_the_schedule(ports).surplus


GOES: dict[str, Callable[[FakePorts], object]] = {
    "a refill of it did not end": lambda ports: now(ports, spent=f"{REFILL_DID_NOT_END}: run-9"),
    "its snapshot set is gone": forget_the_set,
    "a volume of it is missing": lambda ports: now(ports, incomplete_since=NOON),
    "the settings refill none any more": lambda ports: settings_are_now(ports, retirement={"park": "always"}),
    "it was parked before any could be refilled": lambda ports: now(ports, stands_until=None),
}


@pytest.mark.parametrize("change", GOES)
def test_what_no_run_can_refill_goes_as_soon_as_it_has_expired(change: str) -> None:
    ports = expired(made())
    GOES[change](ports)
    assert asked_by_the_schedule(ports).surplus, asked_by_the_schedule(ports).text


def test_the_set_is_a_base_until_its_replica_is_retired_or_a_refill_of_it_did_not_end() -> None:
    ports = expired(made())
    settings = ports.clusters.settings("orders")
    assert bases_of_refills(ports, settings) == {RUN_ID}
    now(ports, spent=f"{REFILL_DID_NOT_END}: run-9")
    assert bases_of_refills(ports, settings) == frozenset()
    now(ports, spent=None)
    given = leased(ports, "RetireReplica")
    row = ports.ledger.replicas("orders")[PEAK]
    ports.ledger.set_replica(holder_of(given), replace(row, state=ReplicaState.RETIRED))
    assert bases_of_refills(ports, settings) == frozenset()
