"""What the lead time of a cluster depends on, gathered from its settings, its volumes and its past runs."""

from __future__ import annotations

from peaker.domain.cluster import ClusterSettings
from peaker.domain.fleet import Observation
from peaker.domain.lead_time import MIB, Hydration, LeadTimeInputs, PastSteps, VolumeToHydrate

GIB = 1024.0**3
HEALTH_CHECKS_SECONDS = 60.0


def lead_time_inputs(
    settings: ClusterSettings, observed: Observation | None, past: PastSteps
) -> LeadTimeInputs:
    """What the lead time depends on: the bytes of the last prewarm, else the sizes of a replica's volumes."""
    rate = settings.initialization_rate_mib_per_s
    sizes = volume_bytes(settings, observed)
    newest = past.hydrated_bytes[-1] if past.hydrated_bytes else None
    whole = sum(sizes.values())
    share = min(1.0, newest / whole) if newest is not None and whole > 0 else 1.0
    volumes = tuple(
        VolumeToHydrate(
            volume.name,
            sizes.get(volume.name, 0.0) * share,
            # Without a provisioned rate the prewarm reads as fast as the volume gives.
            float(rate or volume.throughput_mib_per_s) * MIB,
        )
        for volume in settings.volumes
    )
    late = float(settings.read_endpoint.clients_follow_within_seconds)
    return LeadTimeInputs(
        volumes=volumes,
        hydration=Hydration.PROVISIONED_RATE if rate else Hydration.DEFAULT,
        trigger_seconds=60.0 * (settings.forecast.schedule_minutes + 1),
        register_seconds=HEALTH_CHECKS_SECONDS + late,
        # After the last share the replica is registered once more, with those that serve.
        ramp_seconds=len(settings.ramp.shares) * (settings.ramp_step_seconds + settings.ramp.window_seconds) + late,
    )


def volume_bytes(settings: ClusterSettings, observed: Observation | None) -> dict[str, float]:
    """Bytes per volume name, from the replica that has the most of them."""
    sizes: dict[str, float] = {}
    for replica in observed.replicas if observed else ():
        for volume in replica.volumes:
            if volume.name is not None:
                sizes[volume.name] = max(sizes.get(volume.name, 0.0), volume.size_gib * GIB)
    return sizes
