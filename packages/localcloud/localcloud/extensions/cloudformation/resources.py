"""The CloudFormation resource types that the local cloud makes, each through the service's own API.

A type that is not here is refused before anything is created. INERT types are accepted and do nothing, because
nothing on one machine follows from them.
"""

from __future__ import annotations

from localcloud.extensions.cloudformation import (
    balancer_resources,
    event_resources,
    iam_resources,
    storage_resources,
    workflow_resources,
)
from localcloud.extensions.cloudformation.resource_type import Made, ResourceType

INERT = frozenset(
    {
        "AWS::CDK::Metadata",
        "AWS::CloudFormation::WaitConditionHandle",
        "AWS::Logs::MetricFilter",
        "AWS::Logs::QueryDefinition",
    }
)


RESOURCE_TYPES: dict[str, ResourceType] = {
    **balancer_resources.TYPES,
    **event_resources.TYPES,
    **iam_resources.TYPES,
    **storage_resources.TYPES,
    **workflow_resources.TYPES,
}
for _name in INERT:
    RESOURCE_TYPES[_name] = ResourceType(
        lambda request: Made(f"{request.logical_id}-{request.random}"),
        lambda request, made: None,
        lambda request, made: made,
    )
