"""ParkReplica: parks where that is better than to retire: database and instance stopped, the warm volumes kept."""

from __future__ import annotations

from typing import Any

from peaker.domain.document.disposal import Disposal
from peaker.domain.host_results import DatabaseStopped
from peaker.domain.instants import to_iso
from peaker.domain.replicas.fleet import Parking, ReplicaRow, ReplicaState
from peaker.domain.runs.ledger import DatabaseStop, RunReplica
from peaker.domain.runs.run import StepInput, Summary
from peaker.domain.service.parking import parked_until, why_not_worth_parking
from peaker.ports.bundle import Ports
from peaker.usecases.leave.guard_retirement import require_removable
from peaker.usecases.leave.stop_replica import stop_commands, stop_database, stop_owned_instance
from peaker.usecases.plan.disposal import disposal_of
from peaker.usecases.plan.gather_fleet import gather_fleet
from peaker.usecases.run.run_memory import settled
from peaker.usecases.run.tear_down import require_not_source
from peaker_contract.errors import LedgerInconsistent, ParkingInProgress


class Parked(Summary):
    """`parked` False: standing is not worth it, as was chosen or as its stopped database shows; it is to be retired."""

    parked: bool


def park_replica(ports: Ports, step: StepInput) -> Parked:
    """Rechecks I1 to I4 and I8 right before the database and before the instance is stopped.

    Raises ParkingInProgress until the instance has stopped.
    """
    disposal = choose_disposal(ports, step)
    if disposal.action == "retire":
        return Parked(text=f"retire: {disposal.reason}", parked=False, numbers=_compared(disposal))
    settings = ports.clusters.settings(step.cluster)
    chosen = settled(ports, step, RunReplica)
    instance_id = chosen.instance_id
    instance = ports.compute.instance(instance_id)
    require_not_source(instance_id, instance.tags)
    state = instance.state
    if state not in {"stopping", "stopped"}:
        if not stop_commands(ports, step.run_id, step.step):
            require_removable(ports, settings, instance_id)
        parking, objection = _parking(ports, step, stop_database(ports, step, instance_id))
        if objection is not None:
            return Parked(
                text=f"{instance_id} is to be retired: {objection}",
                parked=False,
                numbers={**_compared(disposal), "objection": objection},
            )
        require_removable(ports, settings, instance_id)
        stop_owned_instance(ports, step.holder, instance_id, chosen.builder)
        raise ParkingInProgress(f"{instance_id} stops, to stand until {_until(parking)}")
    if state == "stopping":
        raise ParkingInProgress(f"{instance_id} is stopping")
    parking, _ = _parking(ports, step, stop_database(ports, step, instance_id))
    row = ReplicaRow(
        step.cluster, instance_id, chosen.builder, ReplicaState.PARKED, ports.clock.now(), parking
    )
    ports.ledger.set_replica(step.holder, row)
    return Parked(
        text=f"{instance_id} is parked until {_until(parking)} ({parking.until_reason})",
        parked=True,
        numbers={
            **_compared(disposal),
            "instance_id": instance_id,
            "parked_until": _until(parking),
            "until_reason": parking.until_reason,
            "gtid_set": parking.gtid_set,
            "binlog_expire_seconds": parking.binlog_expire_seconds,
        },
    )


def choose_disposal(ports: Ports, step: StepInput) -> Disposal:
    """Settles the disposal once per run; later calls give the same answer."""
    run = ports.ledger.run(step.run_id)
    before = run.part(Disposal)
    if before is not None:
        return before
    settings = ports.clusters.settings(step.cluster)
    instance_id = run.required(RunReplica, step.step).instance_id
    fleet = gather_fleet(ports, settings, with_volumes=True)
    replica = fleet.replica(instance_id)
    if replica is None:
        raise LedgerInconsistent(f"{instance_id} is not among the replicas of {step.cluster} any more")
    disposal = disposal_of(ports, settings, fleet, replica)
    return ports.ledger.settle_first(step.holder, disposal)


def _compared(disposal: Disposal) -> dict[str, Any]:
    return {"disposal": disposal.action, "reason": disposal.reason, **disposal.figures.model_dump()}


def _parking(ports: Ports, step: StepInput, stopped: DatabaseStopped) -> tuple[Parking, str | None]:
    """What the ledger keeps of it, and why it is not worth parking; the time of the stop is that of the first call."""
    run = ports.ledger.run(step.run_id)
    stop = run.part(DatabaseStop)
    if stop is None:
        stop = ports.ledger.settle_first(step.holder, DatabaseStop(at=ports.clock.now()))
    parked_at = stop.at
    disposal = run.required(Disposal, step.step)
    expire = stopped.binlog_expire_seconds
    expiry = parked_until(disposal.figures, parked_at, expire)
    parking = Parking(parked_at, stopped.gtid_set, expire, expiry.until, expiry.reason)
    return parking, why_not_worth_parking(disposal.policy, expire, expiry, parked_at)


def _until(parking: Parking) -> str:
    return "further notice" if parking.until is None else to_iso(parking.until)
