"""RegisterReplica: the proven replica goes behind the read endpoint, into its warming group."""

from __future__ import annotations

from peaker.domain.host_results import MountsChecked, typed
from peaker.domain.runs.batch import Member
from peaker.domain.runs.ledger import ResourceKind, ResourceState, StepRow, of_kind
from peaker.domain.runs.run import StepInput, Summary
from peaker.domain.service.registration import LiveState, changes_since_proof, missing_proofs, mounts_of
from peaker.ports.bundle import Ports
from peaker.usecases.plan.gather_fleet import source_of
from peaker.usecases.run.run_host_command import run_host_command
from peaker.usecases.run.run_memory import builder_of, host_id, intend
from peaker_contract.catalogue import states_passed
from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import RegistrationRefused, ReplicaChanged
from peaker_contract.steps import Method

TARGET_ROW = "read-endpoint"


def register_replica(ports: Ports, step: StepInput) -> Summary:
    """Raises RegistrationRefused and names each proof that is missing (I5); ReplicaChanged, and names what has changed.

    A proof holds for the source that was followed, the start of the instance and the volumes that it was made on, as
    long as its host has them mounted where it was made. Raises HostCommandRunning until the host has said so.
    """
    settings = ports.clusters.settings(step.cluster)
    instance_id = host_id(ports, step, "replica")
    missing = missing_proofs(_proofs(ports, step.run_id), settings)
    if missing:
        raise RegistrationRefused(
            f"{instance_id} is not registered before it is proven (I5): {'; '.join(missing)}"
        )
    changes = _changes(ports, step, settings, instance_id)
    if changes:
        raise ReplicaChanged(
            f"{instance_id} is not what was proven any more, and is not registered (I5): {'; '.join(changes)}"
        )
    row = intend(ports, step, ResourceKind.TARGET, TARGET_ROW, {"instance_id": instance_id})
    ports.ledger.require_lease(step.holder)
    _begin_at_least_share(ports, settings)
    ports.endpoint.register(settings, instance_id)
    ports.ledger.made(step.holder, row, instance_id, ports.clock.now())
    return Summary(text=f"{instance_id} registered", numbers={"target": instance_id})


def _begin_at_least_share(ports: Ports, settings: ClusterSettings) -> None:
    """Set the warming group's share back from the last ramp's, unless another newcomer is in the group."""
    if not ports.endpoint.warming_health(settings).keys() - ports.endpoint.health(settings).keys():
        ports.endpoint.set_share(settings, settings.ramp.shares[0])


def _changes(ports: Ports, step: StepInput, settings: ClusterSettings, instance_id: str) -> list[str]:
    own_steps = {row.step: row for row in ports.ledger.steps(step.run_id)}
    builder = builder_of(ports.ledger.run(step.run_id))
    attachments = [
        row
        for row in of_kind(ports.ledger.resources(builder), ResourceKind.ATTACHMENT)
        if row.state is not ResourceState.UNDONE
    ]
    attached = {str(row.details["volume_id"]): str(row.details["device"]) for row in attachments}
    looked = run_host_command(ports, step, "check_mounts", instance_id, {"RunId": builder})
    live = LiveState(
        source=source_of(ports, settings),
        replica=ports.compute.instance(instance_id),
        volumes=tuple(ports.storage.volumes_of_instance(instance_id)),
        mounts=mounts_of([row.name for row in attachments], typed("check_mounts", MountsChecked, looked)),
    )
    return changes_since_proof(own_steps, attached, live)


def _proofs(ports: Ports, run_id: str) -> dict[str, StepRow]:
    """The run's steps. What a replica that comes back does not pass was proven by the run that built it; its volumes
    never left it."""
    run = ports.ledger.run(run_id)
    builder, member = builder_of(run), run.part(Member)
    method = Method.RETURN if member is None or member.method is None else member.method
    by_builder = states_passed(Method.BUILD) - states_passed(method)
    proven = (
        {}
        if builder == run_id
        else {row.step: row for row in ports.ledger.steps(builder) if row.step in by_builder}
    )
    return {**proven, **{row.step: row for row in ports.ledger.steps(run_id)}}
