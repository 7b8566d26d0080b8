"""AWS's errors as the domain's, translated in this one place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from botocore.exceptions import BotoCoreError, ClientError, ParamValidationError

from peaker_contract.errors import (
    AwsCallRejected,
    AwsUnavailable,
    CapacityUnavailable,
    PeakerError,
    ResourceNotFound,
    Throttled,
)

THROTTLING = frozenset(
    {
        "BandwidthLimitExceeded",
        "ConcurrentLimitExceededException",
        "EC2ThrottledException",
        "KMSThrottling",
        "PriorRequestNotComplete",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "SlowDown",
        "SnapshotCreationPerVolumeRateExceeded",
        "Throttled",
        "Throttling",
        "ThrottlingException",
        "ThrottledException",
        "TooManyRequestsException",
        "TooManyUpdates",
        "TransactionConflictException",
        "TransactionInProgressException",
        "ProvisionedThroughputExceededException",
    }
)
# Only what another zone, another rate or another time can cure (ec2:RunInstances, ec2:CreateVolume). `Unsupported` is
# EC2's word for a type that a zone does not have, `ReservationCapacityExceeded` for reserved room that is full.
CAPACITY = frozenset(
    {
        "InsufficientCapacity",
        "InsufficientFreeAddressesInSubnet",
        "InsufficientInstanceCapacity",
        "InsufficientVolumeCapacity",
        "InstanceLimitExceeded",
        "MaxIOPSLimitExceeded",
        "ReservationCapacityExceeded",
        "Unsupported",
        "VcpuLimitExceeded",
        "VolumeInitializationRateLimitExceeded",
        "VolumeLimitExceeded",
    }
)
NOT_FOUND = frozenset(
    {
        "InvalidCommandId",
        "InvocationDoesNotExist",
        "NoSuchHealthCheck",
        "NoSuchHostedZone",
        "ParameterNotFound",
        "ResourceNotFound",
    }
)
UNAVAILABLE = frozenset(
    {
        "InternalError",
        "InternalFailure",
        "InternalServerError",
        "RequestTimeout",
        "RequestTimeoutException",
        "Unavailable",
    }
)


@contextmanager
def translated(action: str) -> Iterator[None]:
    """Run one AWS call; `action` (`ec2:RunInstances`) goes into the message."""
    try:
        yield
    except ClientError as error:
        raise domain_error(action, error) from error
    except ParamValidationError as error:
        # Refused before it was sent, and so every time: a defect of ours.
        raise AwsCallRejected(f"{action}: {error}") from error
    except BotoCoreError as error:
        raise AwsUnavailable(f"{action}: no answer: {error}") from error


def error_code(error: ClientError) -> str:
    """AWS's code, e.g. InvalidVolume.NotFound."""
    return str(error.response.get("Error", {}).get("Code", ""))


def domain_error(action: str, error: ClientError) -> PeakerError:
    """The domain error for AWS's answer; its message keeps AWS's code and text."""
    code = error_code(error)
    text = f"{action}: {code}: {error.response.get('Error', {}).get('Message', '')}"
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code in THROTTLING:
        return Throttled(text)
    if code in CAPACITY:
        return CapacityUnavailable(text)
    if code in NOT_FOUND or code.endswith((".NotFound", "NotFoundException")):
        return ResourceNotFound(text)
    if code in UNAVAILABLE or status >= 500:
        return AwsUnavailable(text)
    return AwsCallRejected(text)
