"""The snapshots of a refill's own volumes: taken once, waited for, told apart from the donor's set."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from peaker.domain.replicas.inventory import Snapshot
from peaker.domain.runs.ledger import ResourceKind, of_kind
from peaker.usecases.create.await_snapshots import await_snapshots
from peaker.usecases.create.create_snapshots import create_snapshots
from peaker.usecases.run.lost_answers import LOST_ANSWER_GRACE

from peaker_contract import errors
from peaker_contract.tags import DONOR_TAG, RUN_TAG
from tests.support.fakes import FakePorts
from tests.support.refills import (
    REFILL,
    SECOND,
    VOLUMES,
    of_replica,
    of_run,
    of_second,
    refilling,
    with_expired_replica,
)


@pytest.fixture
def ports() -> FakePorts:
    ports = with_expired_replica()
    refilling(ports)
    return ports


def take(ports: FakePorts) -> dict[str, str]:
    summary = create_snapshots(ports, of_replica(of_run(ports, "SnapshotOwnVolumes")))
    return dict(summary.numbers["snapshots"])


def own(ports: FakePorts, run_id: str = REFILL) -> list[Snapshot]:
    return [one for one in ports.storage.snapshots_of_run(run_id) if one.source_volume_id in VOLUMES]


def lose_the_answer(ports: FakePorts, monkeypatch: pytest.MonkeyPatch, reaches_ec2: bool) -> None:
    """The first call ends without an answer."""
    create = ports.storage.create_snapshots

    def lost(*given: Any) -> list[Snapshot]:
        if reaches_ec2:
            create(*given)
        raise errors.AwsUnavailable("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(ports.storage, "create_snapshots", lost)
        with pytest.raises(errors.AwsUnavailable):
            take(ports)


def test_they_are_of_the_replicas_volumes_in_rows_and_tags_of_the_run(ports: FakePorts) -> None:
    ids = take(ports)
    rows = of_kind(ports.ledger.resources(REFILL), ResourceKind.OWN_SNAPSHOT)
    assert {row.name: row.resource_id for row in rows} == ids
    assert {one.snapshot_id for one in own(ports)} == set(ids.values())
    assert {one.tags[RUN_TAG] for one in own(ports)} == {REFILL}
    assert not any(DONOR_TAG in one.tags for one in own(ports)), "nobody is to keep them as a donor's"


def test_a_second_call_takes_none(ports: FakePorts) -> None:
    calls = ports.storage.snapshot_calls
    assert take(ports) == take(ports)
    assert ports.storage.snapshot_calls == calls + 1


def test_those_of_a_call_whose_answer_was_lost_are_found_and_none_is_taken_again(
    ports: FakePorts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The donor's set has the same run tag: it is not taken for them."""
    lose_the_answer(ports, monkeypatch, reaches_ec2=True)
    calls = ports.storage.snapshot_calls
    assert set(take(ports).values()) == {one.snapshot_id for one in own(ports)}
    assert ports.storage.snapshot_calls == calls


def test_a_call_whose_answer_was_lost_may_still_show_and_is_then_made_again(
    ports: FakePorts, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_the_answer(ports, monkeypatch, reaches_ec2=False)
    calls = ports.storage.snapshot_calls
    with pytest.raises(errors.SnapshotsPending, match="may still show"):
        take(ports)
    assert ports.storage.snapshot_calls == calls
    ports.clock.advance(seconds=LOST_ANSWER_GRACE.total_seconds())
    assert len(take(ports)) == 2
    assert ports.storage.snapshot_calls == calls + 1


def waited(ports: FakePorts) -> str:
    return await_snapshots(ports, of_replica(of_run(ports, "AwaitBothSnapshots"))).text


def complete(ports: FakePorts, *ones: Snapshot) -> None:
    for one in ones:
        done = replace(one, state="completed", progress_percent=100.0, full_size_bytes=2**30)
        ports.storage.snapshots[one.snapshot_id] = done


def test_both_sets_are_waited_for(ports: FakePorts) -> None:
    take(ports)
    donors = [one for one in ports.storage.snapshots_of_run(REFILL) if one.source_volume_id not in VOLUMES]
    complete(ports, *donors)
    with pytest.raises(errors.SnapshotsPending, match=own(ports)[0].snapshot_id):
        waited(ports)
    complete(ports, *own(ports))
    assert waited(ports).startswith("4 snapshots complete")


def test_the_donors_set_is_waited_for_when_the_own_ones_are_complete(ports: FakePorts) -> None:
    take(ports)
    complete(ports, *own(ports))
    with pytest.raises(errors.SnapshotsPending):
        waited(ports)


def test_those_that_do_not_show_yet_are_waited_for(ports: FakePorts) -> None:
    take(ports)
    ports.storage.complete()
    ports.storage.hidden = True
    with pytest.raises(errors.SnapshotsPending, match="do not show yet"):
        waited(ports)


def test_one_that_ended_in_error_fails_the_refill(ports: FakePorts) -> None:
    take(ports)
    ports.storage.complete()
    [first, _] = own(ports)
    ports.storage.snapshots[first.snapshot_id] = replace(first, state="error")
    with pytest.raises(errors.SnapshotFailed, match=first.snapshot_id):
        waited(ports)


def test_those_of_the_first_member_are_nobody_elses_to_wait_for(ports: FakePorts) -> None:
    """A member that is built beside it waits for the set that all share; rows of the first are the batch's."""
    take(ports)
    donors = [one for one in ports.storage.snapshots_of_run(REFILL) if one.source_volume_id not in VOLUMES]
    complete(ports, *donors)
    assert await_snapshots(ports, of_run(ports, "AwaitSnapshots")).text.startswith("2 snapshots complete")  # type: ignore[arg-type]


def test_a_second_member_takes_its_own_under_its_own_name_and_waits_for_the_batchs_set() -> None:
    ports = with_expired_replica(max_replicas=4)
    refilling(ports, second=True)
    create_snapshots(ports, of_replica(of_second(ports, "SnapshotOwnVolumes")))
    assert (len(own(ports, SECOND)), own(ports, REFILL)) == (2, [])
    complete(ports, *own(ports, SECOND))
    step = of_replica(of_second(ports, "AwaitBothSnapshots"))
    with pytest.raises(errors.SnapshotsPending):
        await_snapshots(ports, step)
    ports.storage.complete()
    assert await_snapshots(ports, step).text.startswith("4 snapshots complete")
