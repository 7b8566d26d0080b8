"""WaitForCatchUp: lag under the gate for N samples in a row (I5)."""

from __future__ import annotations

from peaker.domain.runs.run import StepInput, Summary
from peaker.domain.service.registration import LAG_SAMPLES, booted_before_proof, lag_samples
from peaker.ports.bundle import Ports
from peaker.usecases.join.database_control import bring_database_back, catch_up_parameters
from peaker.usecases.run.run_host_command import run_host_command
from peaker.usecases.run.run_memory import builder_of, host_id


def wait_for_catch_up(ports: Ports, step: StepInput) -> Summary:
    """The host samples; both threads must run at every sample.

    The database began before the volumes were proven. Where the proof found nothing mounted, the host booted anew in
    between, which leaves its database down.
    """
    settings = ports.clusters.settings(step.cluster)
    instance_id = host_id(ports, step, "replica")
    if booted_before_proof({row.step: row for row in ports.ledger.steps(step.run_id)}):
        numbers = bring_database_back(ports, step, settings, instance_id, 1)
    else:
        parameters = catch_up_parameters(settings, builder_of(ports.ledger.run(step.run_id)))
        numbers = run_host_command(ports, step, "wait_for_catch_up", instance_id, parameters)
    newest = lag_samples(numbers)[-LAG_SAMPLES:]
    return Summary(text=f"last lag samples {newest} s", numbers=numbers)
