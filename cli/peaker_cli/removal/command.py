"""`peaker allow-removal`: lift the protection of a cluster's stack, where no replica of Peaker's is left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError
from peaker.adapters.dynamodb.items import LedgerTable
from peaker.adapters.dynamodb.lease import DynamoDbLease
from peaker.adapters.dynamodb.ledger import DynamoDbLedger
from peaker.adapters.ec2.compute import Ec2Compute
from peaker.domain.replicas.fleet import ReplicaRow, ReplicaState
from peaker.domain.replicas.inventory import Instance
from peaker.domain.runs.ledger import LeaseRow, RunRow

from peaker_cli.control_plane import ControlPlane
from peaker_cli.deployment import DeploymentOptions
from peaker_cli.failures import ControlPlaneError
from peaker_cli.printing import AsJson, echo, echo_json
from peaker_cli.status.gather import StatusReader
from peaker_contract.names import FAMILY, OWNER_TAG, STARTING_RULES, cluster_stack, of_cluster

_NAMED = 5


@dataclass(frozen=True)
class RemovalSight:
    """`lease` is None where no run is at work; `starting_rules` are the enabled rules that start runs."""

    environment: str
    cluster: str
    rows: Mapping[str, ReplicaRow]
    instances: Sequence[Instance]
    lease: LeaseRow | None
    unfinished: Sequence[RunRow]
    starting_rules: Sequence[str]


def why_not_removed(sight: RemovalSight) -> tuple[str, ...]:
    """Each reason with its remedy; none where the stack may go.

    A parked replica counts, and so does one that only EC2 knows of: both cost money, and nobody would end them.
    """
    by_state = {
        state: sorted(row.instance_id for row in sight.rows.values() if row.state is state)
        for state in ReplicaState
        if state is not ReplicaState.RETIRED
    }
    known = {one for ids in by_state.values() for one in ids}
    unknown = sorted(
        one.instance_id for one in sight.instances if OWNER_TAG in one.tags and one.instance_id not in known
    )
    left = [f"{state.value.replace('_', ' ')}: {_some(ids)}" for state, ids in by_state.items() if ids]
    if unknown:
        left.append(f"known to EC2 alone: {_some(unknown)}")
    at_work = {run.run_id for run in sight.unfinished} | ({sight.lease.run_id} if sight.lease else set())
    pause = f"peaker pause {sight.cluster} --env {sight.environment}"
    reasons = {
        f"replicas that Peaker made are left ({'; '.join(left)}): "
        "retire them (docs/runbooks/retire-replica-now.md)": left,
        f"at work: {_some(sorted(at_work))}: wait until it has ended (peaker status)": at_work,
        f"a run may begin by {_some(sight.starting_rules)}: "
        f"{pause} (docs/runbooks/stop-everything.md)": sight.starting_rules,
    }
    return tuple(text for text, found in reasons.items() if found)


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - _NAMED} more" if len(listed) > _NAMED else ""
    return f"{', '.join(listed[:_NAMED])}{more}"


EPILOG = "Example: peaker allow-removal orders --env prod"


def allow_removal_command(cluster: str, deployment: DeploymentOptions, as_json: AsJson = False) -> None:
    """Let CLUSTER's stack be removed, where no replica that Peaker made is left, no run is at work and none may begin.

    It lifts the stack's protection and removes nothing. The next deployment protects it again.
    """
    control = ControlPlane.of(deployment)
    cloudformation, stack = control.client("cloudformation"), cluster_stack(control.environment, cluster)
    require_stack(control, cloudformation, stack)
    reasons = why_not_removed(look(control, cluster))
    if reasons:
        raise ControlPlaneError(f"{stack} stays protected: {'; '.join(reasons)}")
    cloudformation.update_termination_protection(StackName=stack, EnableTerminationProtection=False)
    destroy = f"npx cdk destroy -c env={control.environment} --exclusively '{FAMILY}-{control.environment}/{cluster}'"
    if as_json:
        echo_json({"stack": stack, "next": destroy})
        return
    echo(
        f"{stack} may be removed: no replica that Peaker made is left, and no run begins by itself. Now: {destroy}"
    )


def require_stack(control: ControlPlane, cloudformation: Any, stack: str) -> None:
    try:
        cloudformation.describe_stacks(StackName=stack)
    except ClientError as error:
        if "does not exist" not in error.response.get("Error", {}).get("Message", ""):
            raise
        raise ControlPlaneError(control.not_deployed(f"no stack {stack}")) from error


def look(control: ControlPlane, cluster: str) -> RemovalSight:
    """Raises PeakerError and ClientError: what cannot be looked at keeps the stack (I4)."""
    table = LedgerTable(control.client("dynamodb"), control.ledger_table)
    ledger = DynamoDbLedger(table)
    with control.reading_ledger():
        # The rules first: what they started before they were paused is at work by then.
        return RemovalSight(
            environment=control.environment,
            cluster=cluster,
            starting_rules=_starting_rules(control, cluster),
            rows=ledger.replicas(cluster),
            instances=Ec2Compute(control.client("ec2"), control.environment).instances_of_cluster(cluster),
            lease=DynamoDbLease(table).current(cluster, control.clock.now()),
            unfinished=ledger.unfinished_runs(cluster),
        )


def _starting_rules(control: ControlPlane, cluster: str) -> list[str]:
    """Those that are enabled; a stack whose creation failed has none."""
    wanted = {of_cluster(control.environment, cluster, one) for one in STARTING_RULES}
    return [name for name, is_on in StatusReader(control).rules(cluster).items() if is_on and name in wanted]
