"""What EC2 says that an instance type carries."""

from __future__ import annotations

from peaker.domain.reading import Unknown
from peaker.domain.storage.instance_promise import InstancePromise
from peaker.ports.bundle import Ports
from peaker_contract.errors import PeakerError, Retryable


def instance_promise(ports: Ports, instance_type: str) -> InstancePromise | Unknown:
    """Its bandwidth to EBS and its memory. Raises Retryable errors only."""
    try:
        return ports.compute.ebs_promise(instance_type)
    except Retryable:
        raise
    except PeakerError as error:
        return Unknown(f"EC2 does not say what {instance_type} carries: {error}")
