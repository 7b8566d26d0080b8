"""GuardRemoval: CloudFormation asks before it removes a cluster's stack, and goes on only where the answer is yes.

The stack's other resources stay as long as the guard does (docs/adr/0009-a-stack-per-cluster.md).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

from peaker.domain.runs.run import Summary
from peaker.domain.service.removal import RemovalSight, judge_removal
from peaker.ports import Ports
from peaker_contract.errors import PeakerError

# CloudFormation takes an answer of up to 4,096 bytes (User Guide, "Custom resource response objects").
_LONGEST_REASON = 2_000


class StackAnswers(Protocol):
    """Where CloudFormation waits for what became of a custom resource."""

    def send(self, url: str, answer: dict[str, Any]) -> None:
        """Put the answer to the address of the request. Raises AwsUnavailable, AwsCallRejected."""


class GuardedCluster(BaseModel):
    """The properties of the guard in the cluster's stack."""

    model_config = ConfigDict(frozen=True)

    cluster: Annotated[str, Field(alias="Cluster", min_length=1)]


class RemovalRequest(BaseModel):
    """CloudFormation's request about a custom resource."""

    model_config = ConfigDict(frozen=True)

    kind: Literal["Create", "Update", "Delete"] = Field(alias="RequestType")
    response_url: str = Field(alias="ResponseURL", pattern=r"^https?://")
    stack_id: str = Field(alias="StackId")
    request_id: str = Field(alias="RequestId")
    logical_id: str = Field(alias="LogicalResourceId")
    guarded: GuardedCluster = Field(alias="ResourceProperties")


class RemovalJudged(Summary):
    """`status` as CloudFormation wants it."""

    status: Literal["SUCCESS", "FAILED"]


def guard_removal(ports: Ports, answers: StackAnswers, request: RemovalRequest) -> RemovalJudged:
    """Answers every request; what cannot be looked at keeps the stack (I4). Raises when the answer does not arrive."""
    judged = _judged(ports, request)
    answers.send(
        request.response_url,
        {
            "Status": judged.status,
            "Reason": judged.text[:_LONGEST_REASON],
            # Another id would make CloudFormation delete the guard of the old one.
            "PhysicalResourceId": f"removal-guard-{request.guarded.cluster}",
            "StackId": request.stack_id,
            "RequestId": request.request_id,
            "LogicalResourceId": request.logical_id,
        },
    )
    return judged


def _judged(ports: Ports, request: RemovalRequest) -> RemovalJudged:
    cluster = request.guarded.cluster
    if request.kind != "Delete":
        return RemovalJudged(text=f"{cluster} is guarded", status="SUCCESS")
    try:
        judgement = judge_removal(
            RemovalSight(
                cluster=cluster,
                rows=ports.ledger.replicas(cluster),
                instances=ports.compute.instances_of_cluster(cluster),
                lease=ports.lease.current(cluster, ports.clock.now()),
                unfinished=ports.ledger.unfinished_runs(cluster),
            )
        )
    except PeakerError as error:
        text = f"{cluster} is not removed: whether a replica of Peaker's is left cannot be told: {error.sentence}"
        return RemovalJudged(text=text, status="FAILED")
    return RemovalJudged(text=judgement.text, status="SUCCESS" if judgement.may_go else "FAILED")
