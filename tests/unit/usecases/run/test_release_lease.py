"""ReleaseLease: the lease goes back, whatever the run had come to."""

from __future__ import annotations

from peaker.domain.runs.run import StepInput
from peaker.usecases.run.held_lease import lease_end
from peaker.usecases.run.release_lease import release_lease

from sim.calm import calm_ports
from sim.workflows.virtual_time import START as NOON
from tests.support.builders import RUN_ID, orders


def test_a_run_that_was_never_opened_gives_its_lease_back_and_starts_nothing() -> None:
    """AcquireLease had taken the lease and was killed before it opened the run; its answer never came."""
    ports = calm_ports(orders())
    ports.lease.acquire("orders", RUN_ID, "scale_out", NOON, lease_end(NOON))
    step = StepInput(run_id=RUN_ID, cluster="orders", operation="scale_out", step="ReleaseUnseenLease")
    assert release_lease(ports, step).text == f"{RUN_ID} released the lease of orders"
    assert ports.lease.current("orders", NOON) is None
    assert ports.done("executions.start_scale_out") == []
