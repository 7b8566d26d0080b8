"""Custom resources: a function is asked, and answers at a signed address in S3 (CloudFormation User Guide).

The function is called without waiting. An answer of FAILED, and none within `ServiceTimeout` seconds (an hour without
it), fail the resource.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from localcloud.extensions.cloudformation.resource_type import Made, Request
from localcloud.extensions.cloudformation.template import TemplateError

PREFIX = "Custom::"
GENERIC = "AWS::CloudFormation::CustomResource"
ANSWERS = "cloudformation-custom-resource-response-local"
LONGEST_WAIT_SECONDS = 3600.0
ADDRESS_SECONDS = 7200
LONGEST_ANSWER_BYTES = 4096
LOOK_EVERY_SECONDS = 0.1


def is_custom(kind: str) -> bool:
    """Whether a resource of this type is a template's own."""
    return kind.startswith(PREFIX) or kind == GENERIC


def ask(
    request: Request, kind: str, physical_id: str | None, old: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """What the function answers. Raises TemplateError, with its reason, when it refuses or stays silent."""
    properties = request.properties
    s3, key = request.client("s3"), str(uuid.uuid4())
    s3.create_bucket(Bucket=ANSWERS)
    event = {
        "RequestType": kind,
        "ServiceToken": properties["ServiceToken"],
        "ResponseURL": s3.generate_presigned_url(
            "put_object", Params={"Bucket": ANSWERS, "Key": key}, ExpiresIn=ADDRESS_SECONDS
        ),
        "StackId": request.stack_id,
        "RequestId": key,
        "LogicalResourceId": request.logical_id,
        "ResourceType": request.kind,
        "ResourceProperties": _as_text(properties),
        **({"PhysicalResourceId": physical_id} if physical_id else {}),
        **({"OldResourceProperties": _as_text(old)} if old is not None else {}),
    }
    request.client("lambda").invoke(
        FunctionName=properties["ServiceToken"], InvocationType="Event", Payload=json.dumps(event).encode()
    )
    answer = _answered(request, s3, key, float(properties.get("ServiceTimeout", LONGEST_WAIT_SECONDS)))
    if answer.get("Status") != "SUCCESS":
        raise TemplateError(
            f"Received response status [{answer.get('Status')}] from custom resource. "
            f"Message returned: {answer.get('Reason', '')} (RequestId: {key})"
        )
    echoed = {name: event[name] for name in ("StackId", "RequestId", "LogicalResourceId")}
    if {name: answer.get(name) for name in echoed} != echoed or not answer.get("PhysicalResourceId"):
        raise TemplateError(f"Invalid response object from custom resource: {sorted(answer)}")
    return answer


def _answered(request: Request, s3: Any, key: str, wait_seconds: float) -> dict[str, Any]:
    """Of the machine's time: a function works at its pace, however fast the cloud's clock runs."""
    deadline, asleep = time.monotonic() + wait_seconds, threading.Event()
    while time.monotonic() < deadline and not request.cloud.closing.is_set():
        try:
            text = s3.get_object(Bucket=ANSWERS, Key=key)["Body"].read()
        except ClientError as error:
            if error.response["Error"]["Code"] not in ("NoSuchKey", "404"):
                raise
            asleep.wait(LOOK_EVERY_SECONDS)
            continue
        if len(text) > LONGEST_ANSWER_BYTES:
            raise TemplateError("Response object is too long.")
        answer: dict[str, Any] = json.loads(text)
        return answer
    raise TemplateError(
        "CloudFormation did not receive a response from your Custom Resource. Please check your logs for "
        f"requestId [{key}]."
    )


def _as_text(value: Any) -> Any:
    """Scalars reach the function as text."""
    if isinstance(value, Mapping):
        return {name: _as_text(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_as_text(item) for item in value]
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)


def _made(request: Request, answer: dict[str, Any]) -> Made:
    return Made(str(answer["PhysicalResourceId"]), dict(answer.get("Data") or {}), request.properties)


def create(request: Request) -> Made:
    return _made(request, ask(request, "Create", None))


def update(request: Request, made: Made) -> Made:
    """Another physical id is another resource: the old one is deleted then."""
    answer = ask(request, "Update", made.physical_id, old=made.properties)
    if answer["PhysicalResourceId"] != made.physical_id:
        ask(request, "Delete", made.physical_id)
    return _made(request, answer)


def delete(request: Request, made: Made) -> None:
    ask(request, "Delete", made.physical_id)
