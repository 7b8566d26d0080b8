"""StartPrewarm: the engine reads what the snapshot holds, detached from the command that starts it."""

from __future__ import annotations

from peaker.domain.run import StepInput, Summary
from peaker.ports import Ports
from peaker.usecases.run_facts import host_id
from peaker.usecases.run_host_command import run_host_command

# Hot blocks first, then all that the filesystems hold. A host without a readable map falls back to the whole
# device, one without a page list to the plain order, both by themselves.
METHOD = "hot"
UNLIMITED_MIB_PER_S = "0"


def start_prewarm(ports: Ports, step: StepInput) -> Summary:
    """Starting an engine that runs changes nothing; one that died starts again where its journal ends."""
    prewarm = ports.clusters.settings(step.cluster).prewarm
    background = prewarm.background_rate_mib_per_s if prewarm.serve_when == "hot" else 0
    parameters = {
        "RunId": step.run_id,
        "Method": METHOD,
        "RateLimitMibPerS": UNLIMITED_MIB_PER_S,
        "BlockListUrl": "",
        "BackgroundRateMibPerS": str(background),
    }
    instance_id = host_id(ports, step.run_id, "replica")
    numbers = run_host_command(ports, step, "start_prewarm", instance_id, parameters, repeat=True)
    return Summary(text=f"prewarm engine on {instance_id}, method {METHOD}", numbers=numbers)
