"""Launch attempts name the launch of a run that an instance came from. Pure.

A run has a row for each zone that it asked. Whoever launches more like a replica copies its tags; nobody copies the
ClientToken of the launch, which is made of run, step and zone.
"""

from __future__ import annotations

from collections.abc import Sequence

from peaker.domain.replicas.inventory import Instance
from peaker.domain.runs.ledger import ResourceRow


def attempt_of(rows: Sequence[ResourceRow], instance: Instance) -> ResourceRow | None:
    """Returns the launch of an instance by its id, or by the ClientToken where the answer was lost; None for an
    instance that no launch of the run made."""
    lost = [row for row in rows if row.resource_id is None]
    by_id = [row for row in rows if row.resource_id == instance.instance_id]
    by_token = [row for row in lost if row.details.get("client_token") in _tokens(instance)]
    return next(iter((*by_id, *by_token)), None)


def _tokens(instance: Instance) -> tuple[str, ...]:
    return () if instance.client_token is None else (instance.client_token,)
