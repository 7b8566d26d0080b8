"""Gather the facts of a plan: the ports are asked once for any number of replicas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from peaker.domain.planning.plan_facts import PlanFacts
from peaker.domain.reading import Known, Reading, Unknown
from peaker.domain.replicas.donor import choose_donor
from peaker.domain.replicas.fleet import FleetState
from peaker.domain.replicas.inventory import InstancePromise
from peaker.domain.runs.run import StepInput
from peaker.ports.bundle import Ports
from peaker.usecases.plan.account_use import account_use, initialization_rate_of_region
from peaker.usecases.plan.lead_time_inputs import lead_time_inputs, snapshot_history
from peaker.usecases.plan.refresh_prices import prices_for_plan
from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import PeakerError, ResourceNotFound, Retryable


def gather_plan_facts(
    ports: Ports,
    step: StepInput,
    settings: ClusterSettings,
    fleet: FleetState,
    taken_donor: str | None = None,
) -> PlanFacts:
    """The ports answer once each. `taken_donor` is the run's own donor, once it has chosen."""
    past = ports.records.past_steps(settings.name)
    donor = choose_donor(fleet, settings, taken_donor)
    promises = {kind: _promise(ports, kind) for kind in settings.instance_types}
    history = snapshot_history(ports, settings, fleet, donor)
    inputs = lead_time_inputs(settings, fleet, past, history, promises[settings.instance_type])
    now = ports.clock.now()
    lease = ports.lease.current(step.cluster, now)
    image_keys, why_no_image = _image_keys(ports, settings)
    keys = {one.kms_key_id for replica in fleet.replicas for one in replica.volumes if one.kms_key_id}
    keys |= set() if isinstance(image_keys, Unknown) else set(image_keys)
    unusable = {key: ports.volume_keys.why_not_usable(key, settings) for key in sorted(keys)}
    return PlanFacts(
        settings=settings,
        fleet=fleet,
        environment=ports.environment,
        now=now,
        lease=None if lease is None or lease.run_id == step.run_id else lease,
        past=past,
        donor=donor,
        promises=promises,
        prices=prices_for_plan(ports, settings),
        # The trigger of the run has passed when it is planned.
        inputs=replace(inputs, trigger_seconds=0.0, paid_mib_per_s=0.0),
        region=initialization_rate_of_region(ports),
        account=account_use(ports, settings, fleet),
        snapshot_sets=ports.ledger.snapshot_sets(settings.name),
        binary_logs_kept=_binary_logs_kept(ports, settings),
        image_keys=image_keys,
        why_no_image=why_no_image,
        image_devices=() if why_no_image else ports.compute.image_devices(settings.image_id),
        why_unusable={key: why for key, why in unusable.items() if why is not None},
    )


def _promise(ports: Ports, instance_type: str) -> InstancePromise | Unknown:
    """The type's bandwidth to EBS and its memory. Raises Retryable errors only."""
    try:
        return ports.compute.ebs_promise(instance_type)
    except Retryable:
        raise
    except PeakerError as error:
        return Unknown(f"EC2 does not say what {instance_type} carries: {error}")


def _image_keys(ports: Ports, settings: ClusterSettings) -> tuple[Sequence[str] | Unknown, str | None]:
    try:
        return ports.compute.image_keys(settings.image_id), None
    except ResourceNotFound as error:
        return (), str(error)


def _binary_logs_kept(ports: Ports, settings: ClusterSettings) -> Reading:
    """The seconds that the source said when a replica was parked last."""
    parked = [row.parking for row in ports.ledger.replicas(settings.name).values() if row.parking is not None]
    known = [one for one in parked if one.binlog_expire_seconds is not None]
    if not known:
        return Unknown("how long the source keeps binary logs is not known before a replica was parked once")
    newest = max(known, key=lambda one: one.parked_at)
    return Known(newest.binlog_expire_seconds or 0.0, newest.parked_at)
