"""The tags that everything carries from the moment it is made (I7)."""

from __future__ import annotations

from peaker.domain.runs.run import StepInput
from peaker.ports.bundle import Ports
from peaker_contract.names import (
    CLUSTER_TAG,
    ENVIRONMENT_TAG,
    LOAD_TAG,
    OWNER_TAG,
    ROLE_TAG,
    RUN_TAG,
)


def resource_tags(ports: Ports, step: StepInput) -> dict[str, str]:
    """Owner, run, environment, cluster, role and load; the name of a volume comes on top."""
    return {
        OWNER_TAG: ports.environment,
        RUN_TAG: step.run_id,
        ENVIRONMENT_TAG: ports.environment,
        CLUSTER_TAG: step.cluster,
        ROLE_TAG: "replica",
        LOAD_TAG: "peak",
    }
