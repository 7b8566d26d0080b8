"""Bring a replica's database back, by the same host documents as in a build."""

from __future__ import annotations

from peaker.domain.reading import Unknown
from peaker.domain.replicas.inventory import Numbers
from peaker.domain.replicas.parked import CATCH_UP_WITHIN_SECONDS
from peaker.domain.runs.run import StepInput
from peaker.domain.service.registration import LAG_SAMPLES
from peaker.ports.bundle import Ports
from peaker.usecases.join.start_database import start_parameters
from peaker.usecases.plan.gather_fleet import gather_fleet
from peaker.usecases.run.run_host_command import run_host_command
from peaker.usecases.run.run_memory import builder_of
from peaker.usecases.run.tear_down import require_not_source
from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import LedgerInconsistent


def bring_database_back(
    ports: Ports, step: StepInput, settings: ClusterSettings, instance_id: str, times: int
) -> Numbers:
    """Start the database, follow the source, catch up: three commands under steps of their own, each of the `times`.

    After a failover on the way the last two are sent again, with the new source.
    Raises HostCommandRunning between them, HostCommandFailed and BinlogsGone when one fails, NotOwned for the source.
    """
    builder = builder_of(ports.ledger.run(step.run_id))
    source = gather_fleet(ports, settings).source
    if isinstance(source, Unknown):
        raise LedgerInconsistent(f"{instance_id} cannot follow the source: {source.why}")
    if source.instance_id == instance_id:
        require_not_source(instance_id, source.tags)
    follow = {"RunId": builder, "SourceHost": source.private_ip}
    documents = (
        ("start_database", "", start_parameters(ports, step, instance_id)),
        ("start_replication", f".{source.private_ip}", follow),
        ("wait_for_catch_up", f".{source.private_ip}", catch_up_parameters(settings, builder)),
    )
    numbers: Numbers = {}
    for document, of_source, parameters in documents:
        part = step.model_copy(update={"step": f"{database_step(step, document, times)}{of_source}"})
        numbers = run_host_command(ports, part, document, instance_id, parameters)
    return numbers


def database_step(step: StepInput, document: str, times: int) -> str:
    """The name under which a step of a database that is brought back is recorded; `times` counts from 1."""
    return f"{step.step}.{document}" if times == 1 else f"{step.step}.{times}.{document}"


def catch_up_parameters(settings: ClusterSettings, run_id: str) -> dict[str, str]:
    """Returns the parameters of wait_for_catch_up. Its gate is in whole seconds: rounded down."""
    return {
        "RunId": run_id,
        "LagGateSeconds": str(int(settings.gates.lag_seconds)),
        "LagSamples": str(LAG_SAMPLES),
        "TimeoutSeconds": str(CATCH_UP_WITHIN_SECONDS),
    }
