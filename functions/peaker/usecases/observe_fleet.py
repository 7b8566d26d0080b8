"""Gather a cluster's fleet from EC2, the read endpoint and the ledger."""

from __future__ import annotations

from peaker.domain.cluster import ClusterSettings
from peaker.domain.fleet import Observation, Replica
from peaker.domain.inventory import ROLE_TAG, Instance, TargetHealth, TargetState
from peaker.domain.reading import Unknown
from peaker.ports import Ports

_LEAVING = {"shutting-down", "terminated"}


def observe_fleet(ports: Ports, settings: ClusterSettings, *, with_volumes: bool = False) -> Observation:
    """The fleet now. Volumes cost one call per replica and are read only when asked for.

    No metric carries the lag of a replica, so it is Unknown here; PrepareDonor measures it on the host.
    """
    instances = [
        one for one in ports.compute.instances_of_cluster(settings.name) if one.state not in _LEAVING
    ]
    health = ports.endpoint.health(settings)
    rows = ports.ledger.replicas(settings.name)
    replicas = [
        Replica(
            instance=instance,
            volumes=tuple(ports.storage.volumes_of_instance(instance.instance_id)) if with_volumes else (),
            health=_known(health.get(instance.instance_id, TargetHealth(TargetState.ABSENT))),
            lag_seconds=Unknown("not measured yet"),
            ledger_row=rows.get(instance.instance_id),
        )
        for instance in instances
        if instance.tags.get(ROLE_TAG) == "replica"
    ]
    return Observation(
        cluster=settings.name,
        observed_at=ports.clock.now(),
        source=_source(instances),
        replicas=tuple(sorted(replicas, key=lambda replica: replica.instance_id)),
    )


def _known(health: TargetHealth) -> TargetHealth | Unknown:
    if health.state is TargetState.UNAVAILABLE:
        return Unknown(health.reason or "the read endpoint cannot say")
    return health


def _source(instances: list[Instance]) -> Instance | Unknown:
    sources = [one for one in instances if one.tags.get(ROLE_TAG) == "source"]
    if len(sources) == 1:
        return sources[0]
    ids = ", ".join(one.instance_id for one in sources) or "none"
    return Unknown(f"expected one instance tagged {ROLE_TAG}=source, found {ids}")
