"""WaitForCatchUp: lag under the gate for N samples in a row (I5)."""

from __future__ import annotations

from peaker.domain.registration import lag_samples
from peaker.domain.run import StepInput, Summary
from peaker.ports import Ports
from peaker.usecases.run_facts import host_id
from peaker.usecases.run_host_command import run_host_command

# A replica that is not there after this long will not be in time for the peak that asked for it.
TIMEOUT_SECONDS = 6 * 3600


def wait_for_catch_up(ports: Ports, step: StepInput) -> Summary:
    """The host samples; both threads must run at every sample. Its gate is in whole seconds: rounded down."""
    gates = ports.clusters.settings(step.cluster).gates
    instance_id = host_id(ports, step.run_id, "replica")
    parameters = {
        "RunId": step.run_id,
        "LagGateSeconds": str(int(gates.lag_seconds)),
        "LagSamples": str(gates.lag_samples),
        "TimeoutSeconds": str(TIMEOUT_SECONDS),
    }
    numbers = run_host_command(ports, step, "wait_for_catch_up", instance_id, parameters)
    return Summary(text=f"last lag samples {lag_samples(numbers)[-gates.lag_samples :]} s", numbers=numbers)
