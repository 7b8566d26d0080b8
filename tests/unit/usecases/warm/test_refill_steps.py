"""What a host is told of an expired copy that it brings up to date: pairs that name all that can differ, or nothing."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from peaker.domain.runs.ledger import ResourceKind, of_kind
from peaker.usecases.run.held_lease import holder_of
from peaker.usecases.warm.start_prewarm import start_prewarm

from peaker_contract import errors
from tests.support.builders import RUN_ID, data_volumes_of
from tests.support.fakes import FakePorts
from tests.support.peak import PEAK, answers
from tests.support.refills import (
    REFILL,
    SECOND,
    of_run,
    of_second,
    refilling,
    with_expired_replica,
    with_own_snapshots,
)


def made(second: bool = False) -> FakePorts:
    """Both sets of snapshots are complete."""
    ports = with_own_snapshots(second)
    answers(ports, "start_fill", pid=1)
    return ports


def ids(ports: FakePorts, run_id: str, kind: ResourceKind) -> dict[str, str]:
    return {row.name: str(row.resource_id) for row in of_kind(ports.ledger.resources(run_id), kind)}


@pytest.mark.parametrize("second", [False, True])
def test_by_volume_it_is_what_the_donor_changed_and_what_the_copy_wrote_since_both_were_equal(
    second: bool,
) -> None:
    ports = made(second)
    start_prewarm(ports, of_second(ports, "StartPrewarm") if second else of_run(ports, "StartPrewarm"))
    sent = ports.commands.parameters[-1]
    [base] = ports.ledger.snapshot_sets("orders")
    newest = ids(ports, REFILL, ResourceKind.SNAPSHOT)
    mine = ids(ports, SECOND if second else REFILL, ResourceKind.OWN_SNAPSHOT)
    assert json.loads(sent["Changed"]) == {
        name: [[base.snapshots[name], newest[name]], [base.snapshots[name], mine[name]]]
        for name in ("data", "log")
    }
    assert json.loads(sent["Snapshots"]) == newest
    assert sent["RunId"] == (SECOND if second else REFILL)
    volumes = {one["name"]: one["volume_id"] for one in json.loads(sent["Volumes"])}
    assert volumes == {one.name: one.volume_id for one in data_volumes_of(PEAK)}


def forget(ports: FakePorts) -> None:
    [kept] = ports.ledger.snapshot_sets("orders")
    ports.ledger.forget_snapshots(holder_of(of_run(ports, "Forget")), kept, ports.clock.now())


def test_without_the_set_that_it_was_made_from_nothing_is_sent() -> None:
    ports = made()
    forget(ports)
    with pytest.raises(
        errors.PrewarmFailed, match=f"of data, log that {RUN_ID} made its replica from are gone"
    ):
        start_prewarm(ports, of_run(ports, "StartPrewarm"))
    assert ports.commands.sent == []


def test_without_one_volume_of_that_set_nothing_is_sent() -> None:
    ports = made()
    [kept] = ports.ledger.snapshot_sets("orders")
    holder = holder_of(of_run(ports, "Changed"))
    ports.ledger.keep_snapshots(holder, kept.without([kept.snapshots["log"]]))
    with pytest.raises(errors.PrewarmFailed, match=f"the snapshots of log that {RUN_ID} made"):
        start_prewarm(ports, of_run(ports, "StartPrewarm"))
    assert ports.commands.sent == []


def test_a_newer_set_of_the_donor_is_no_base() -> None:
    """Against it the blocks that both changed before would not show."""
    ports = made()
    [kept] = ports.ledger.snapshot_sets("orders")
    forget(ports)
    newer = replace(kept, run_id="scale-out-orders-newer")
    ports.ledger.keep_snapshots(holder_of(of_run(ports, "Changed")), newer)
    with pytest.raises(errors.PrewarmFailed, match="are gone"):
        start_prewarm(ports, of_run(ports, "StartPrewarm"))


def test_without_its_own_snapshots_nothing_is_sent() -> None:
    ports = with_expired_replica()
    refilling(ports)
    ports.storage.complete()
    with pytest.raises(errors.LedgerInconsistent, match="no id of own_snapshot data"):
        start_prewarm(ports, of_run(ports, "StartPrewarm"))
    assert ports.commands.sent == []
