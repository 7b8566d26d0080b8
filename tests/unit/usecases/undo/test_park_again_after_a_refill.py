"""The undo of a refill: the replica stands as it was where nothing was written, and is never trusted again else."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from peaker.domain.planning.parking import why_not_refilled, why_not_returned
from peaker.domain.replicas.fleet import REFILL_DID_NOT_END, WROTE_NOTHING, Parking, ReplicaState
from peaker.domain.replicas.inventory import CommandOutcome, CommandStatus
from peaker.domain.runs.failure import Failure
from peaker.domain.runs.run import FailedStep, PrewarmStep
from peaker.usecases.create.create_snapshots import create_snapshots
from peaker.usecases.plan.gather_fleet import gather_fleet
from peaker.usecases.run.held_lease import holder_of, lease_end
from peaker.usecases.run.release_lease import release_lease
from peaker.usecases.undo.undo_run import undo_run
from peaker.usecases.warm.report_prewarm import report_prewarm
from peaker.usecases.warm.start_prewarm import start_prewarm

from peaker_contract import errors
from tests.support.fakes import FakePorts
from tests.support.peak import PEAK, answers
from tests.support.refills import (
    PARKING,
    REFILL,
    SPENT,
    of_replica,
    of_run,
    refilling,
    with_expired_replica,
)

REFUSED = "ValidationException (UNRELATED_SNAPSHOTS)"
AT_THE_FILL = Failure(failed_step="FillVolumes/ReportPrewarm", error="PrewarmFailed", cause=REFUSED)


@pytest.fixture
def ports() -> FakePorts:
    """A refill whose own snapshots are taken; its host takes commands."""
    ports = with_expired_replica()
    refilling(ports)
    create_snapshots(ports, of_replica(of_run(ports, "SnapshotOwnVolumes")))
    ports.storage.complete()
    ports.commands.online.add(PEAK)
    answers(ports, "stop_database", stopped_seconds=0.0)
    return ports


def begin(ports: FakePorts) -> None:
    """StartPrewarm, as the handler calls it."""
    given = of_run(ports, "StartPrewarm")
    ports.ledger.start_step(holder_of(given), given.step, ports.clock.now(), lease_end(ports.clock.now()))
    start_prewarm(ports, given)


def report(ports: FakePorts, **numbers: Any) -> None:
    answers(ports, "report_prewarm", **numbers)
    report_prewarm(ports, PrewarmStep(**of_run(ports, "ReportPrewarm").model_dump(), until="filled"))


def filling(ports: FakePorts) -> None:
    answers(ports, "start_fill", pid=1)
    begin(ports)


def parked_again(ports: FakePorts, failure: Failure = AT_THE_FILL) -> Parking:
    given = FailedStep(**of_run(ports, "UndoScaleOut").model_dump(), failure=failure)
    for _ in range(6):
        try:
            undo_run(ports, given)
            break
        except errors.UndoInProgress:
            ports.clock.advance(minutes=2)
            ports.compute.finish_stopping()
    row = ports.ledger.replicas("orders")[PEAK]
    assert row.state is ReplicaState.PARKED
    assert row.parking is not None
    return row.parking


def test_a_refusal_before_the_first_write_leaves_it_as_it_was(ports: FakePorts) -> None:
    filling(ports)
    with pytest.raises(errors.PrewarmFailed, match="UNRELATED_SNAPSHOTS"):
        report(ports, state="failed", message=REFUSED, written=False)
    parking = parked_again(ports)
    assert (parking.spent, parking.gtid_set) == (SPENT, PARKING.gtid_set)
    assert parking.failed_return == f"{REFILL}, FillVolumes/ReportPrewarm: PrewarmFailed; {WROTE_NOTHING}"
    assert ports.storage.snapshots_of_run(REFILL) != [], "the donor's set is the batch's"
    own = {one.source_volume_id for one in ports.storage.snapshots_of_run(REFILL)}
    assert not own & {one.volume_id for one in ports.storage.volumes_of_instance(PEAK)}


@pytest.mark.parametrize("told", [{"written": True}, {}])
def test_one_that_wrote_or_may_have_written_is_never_trusted_again(
    ports: FakePorts, told: dict[str, Any]
) -> None:
    filling(ports)
    with pytest.raises(errors.PrewarmFailed):
        report(ports, state="failed", message="disk full", **told)
    parking = parked_again(ports)
    assert parking.spent == f"{REFILL_DID_NOT_END}: {REFILL} failed at FillVolumes/ReportPrewarm"
    assert parking.mixed
    assert not parking.untouched


def test_a_host_that_tells_nonsense_tells_nothing(ports: FakePorts) -> None:
    filling(ports)
    with pytest.raises(errors.HostCommandFailed, match="written"):
        report(ports, state="failed", message="disk full", written="no")
    assert parked_again(ports).mixed


def test_an_engine_that_died_untouched_and_began_again_may_have_written_since(ports: FakePorts) -> None:
    filling(ports)
    report(ports, state="dead", message="killed", written=False)
    begin(ports)
    assert parked_again(ports).mixed


def test_a_run_that_is_stopped_while_the_engine_runs_may_have_written(ports: FakePorts) -> None:
    filling(ports)
    report(ports, state="running", written=False, blocks_done=0, blocks_total=9)
    assert parked_again(ports, Failure(failed_step="FillVolumes", error="Stopped", cause="by hand")).mixed


def test_a_command_that_its_host_refused_may_have_been_obeyed(ports: FakePorts) -> None:
    """Its engine may have begun behind the time in which the command looked for it."""
    said = json.dumps({"version": 1, "ok": False, "error": "PrewarmNotStarted", "message": "in 10 s"})
    ports.commands.results["start_fill"] = CommandOutcome(CommandStatus.FAILED, stdout=said)
    with pytest.raises(errors.HostCommandFailed):
        begin(ports)
    assert parked_again(ports).mixed


def test_a_command_that_systems_manager_refused_came_to_no_host(ports: FakePorts) -> None:
    ports.commands.silent.add(PEAK)
    with pytest.raises(errors.AwsUnavailable):
        begin(ports)
    ports.commands.silent.clear()
    assert parked_again(ports).spent == SPENT


def test_a_command_whose_answer_was_lost_and_that_shows_later_may_have_come_to_its_host(
    ports: FakePorts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The undo finds and cancels it, and its row has no id all the same."""
    send = ports.commands.send

    def lost(*given: Any) -> str:
        send(*given)
        raise errors.AwsUnavailable("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(ports.commands, "send", lost)
        with pytest.raises(errors.AwsUnavailable):
            begin(ports)
    parking = parked_again(ports)
    assert ports.commands.cancelled
    assert parking.mixed


def test_one_whose_base_is_gone_sends_nothing_and_writes_nothing(ports: FakePorts) -> None:
    [kept] = ports.ledger.snapshot_sets("orders")
    ports.ledger.forget_snapshots(holder_of(of_run(ports, "Forget")), kept, ports.clock.now())
    with pytest.raises(errors.PrewarmFailed, match="are gone"):
        begin(ports)
    parking = parked_again(
        ports, Failure(failed_step="FillVolumes/StartPrewarm", error="PrewarmFailed", cause="gone")
    )
    assert (parking.spent, parking.untouched) == (SPENT, True)


def test_one_that_failed_before_the_fill_stays_as_it_was_and_is_not_tried_again(ports: FakePorts) -> None:
    """Nothing else would hold it back: the next run would meet the same."""
    parking = parked_again(
        ports, Failure(failed_step="AwaitBothSnapshots", error="SnapshotFailed", cause="error")
    )
    assert (parking.spent, parking.untouched) == (SPENT, False)


@pytest.mark.parametrize(("written", "why"), [(False, None), (True, REFILL_DID_NOT_END)])
def test_a_later_run_may_refill_only_what_was_not_written_and_return_neither(
    ports: FakePorts, written: bool, why: str | None
) -> None:
    filling(ports)
    with pytest.raises(errors.PrewarmFailed):
        report(ports, state="failed", message=REFUSED, written=written)
    parked_again(ports)
    release_lease(ports, of_run(ports, "ReleaseLease"))
    replica = gather_fleet(ports, ports.clusters.settings("orders"), with_volumes=True).replica(PEAK)
    assert replica is not None
    said = why_not_refilled(replica, "local", ports.clock.now())
    assert (said is None) if why is None else why in str(said)
    assert "an earlier return failed" in str(why_not_returned(replica, "local", ports.clock.now()))


def test_an_own_snapshot_that_stays_keeps_no_instance_running_and_is_told(ports: FakePorts) -> None:
    volumes = {one.volume_id for one in ports.storage.volumes_of_instance(PEAK)}
    own = [one for one in ports.storage.snapshots_of_run(REFILL) if one.source_volume_id in volumes]
    first = own[0].snapshot_id
    ports.storage.undeletable[first] = errors.AwsCallRejected(f"{first}: InvalidSnapshot.InUse")
    with pytest.raises(errors.AwsCallRejected, match=first):
        parked_again(ports)
    assert ports.compute.instances[PEAK].state == "stopped"
    ports.storage.undeletable.clear()
    parked_again(ports)


def test_of_one_that_ec2_has_ended_meanwhile_its_own_snapshots_go_too(ports: FakePorts) -> None:
    volumes = {one.volume_id for one in ports.storage.volumes_of_instance(PEAK)}
    ports.compute.terminate(PEAK)
    ports.storage.detach_all(PEAK)
    given = FailedStep(**of_run(ports, "UndoScaleOut").model_dump(), failure=AT_THE_FILL)
    for _ in range(6):
        with suppress(errors.UndoInProgress):
            undo_run(ports, given)
        ports.clock.advance(minutes=10)
    assert ports.ledger.replicas("orders")[PEAK].state is ReplicaState.RETIRED
    assert not volumes & {one.source_volume_id for one in ports.storage.snapshots.values()}
