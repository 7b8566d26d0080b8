"""EventBridge: rules that start state machines, invoke functions and fill queues, as AWS delivers.

Delivery is asynchronous and at least once: a target that fails is tried again with growing pauses (cloud time)
within the target's RetryPolicy, then the event goes to the dead-letter queue if there is one: the event itself, not
what the target's Input made of it, with EventBridge's own error codes (user guide, "Using dead-letter queues").
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from localcloud.extensions.events.target_payload import target_payload
from localcloud.extensions.sqs import send_to_queue
from localcloud.iam.access import Refused
from localcloud.iam.identities import CannotAssume
from localcloud.iam.service_needs import DELIVERED, delivery_needs

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud

log = logging.getLogger(__name__)

SESSION_NAME = "delivery"
DEFAULT_RETRIES = 185
DEFAULT_AGE_SECONDS = 86_400
LONGEST_PAUSE_SECONDS = 300
# Of a call of PutEvents (botocore, events:PutEvents).
MOST_PUT_BYTES = 1024 * 1024
# What EventBridge calls them in a dead letter. Others are the target's own.
DEAD_LETTER_CODES = {
    **dict.fromkeys(("AccessDenied", "AccessDeniedException"), "NO_PERMISSIONS"),
    **dict.fromkeys(
        (
            "ResourceNotFoundException",
            "StateMachineDoesNotExist",
            "NotFound",
            "NotFoundException",
            "QueueDoesNotExist",
            "AWS.SimpleQueueService.NonExistentQueue",
        ),
        "NO_RESOURCE",
    ),
    **dict.fromkeys(
        ("ThrottlingException", "Throttling", "TooManyRequestsException", "RequestLimitExceeded"),
        "THROTTLING",
    ),
    **dict.fromkeys(
        ("InvalidExecutionInput", "InvalidArn", "InvalidRequestContentException", "InvalidTarget"),
        "SDK_CLIENT_ERROR",
    ),
}
# AWS does not try these again: the target is not there, or the event does not fit it.
FINAL_ERRORS = frozenset(code for code, letter in DEAD_LETTER_CODES.items() if letter != "THROTTLING")
EVENTBRIDGE = "events.amazonaws.com"


class InvalidTarget(Exception):
    """This target cannot be delivered to: says why."""


@dataclass(frozen=True)
class Delivery:
    """One event on its way to one target. `event` is what a dead letter holds."""

    source_arn: str
    target_arn: str
    payload: str
    options: Mapping[str, Any] = field(default_factory=dict)
    service: str = EVENTBRIDGE
    event: str = ""

    @property
    def role(self) -> str | None:
        """The role that the service acts as; without one it acts as itself, and the target's policy decides."""
        role = self.options.get("RoleArn")
        return str(role) if role else None

    @property
    def retries(self) -> int:
        return int(self.options.get("RetryPolicy", {}).get("MaximumRetryAttempts", DEFAULT_RETRIES))

    @property
    def age_seconds(self) -> float:
        return float(self.options.get("RetryPolicy", {}).get("MaximumEventAgeInSeconds", DEFAULT_AGE_SECONDS))


def deliver(cloud: OpenCloud, delivery: Delivery, fault_target: str = "") -> None:
    """Deliver in the background, with retries and dead-letter queue."""

    def work() -> None:
        try:
            _deliver(cloud, delivery, fault_target)
        finally:
            cloud.deliveries.end()

    cloud.deliveries.begin()
    cloud.background(f"deliver-{fault_target or delivery.target_arn}", work)


def _deliver(cloud: OpenCloud, delivery: Delivery, fault_target: str) -> None:
    expires = cloud.clock.epoch() + delivery.age_seconds
    pause = 1.0
    for attempt in range(delivery.retries + 1):
        try:
            _send_once(cloud, delivery, fault_target)
            return
        except (ClientError, BotoCoreError, InvalidTarget) as error:
            code = _code(error)
            if cloud.closing.is_set():
                return
            if code in FINAL_ERRORS:
                _give_up(cloud, delivery, code, str(error), attempt)
                return
            told = str(error)
            if attempt == delivery.retries:
                _give_up(cloud, delivery, code, told, attempt, "MaximumRetryAttempts")
                return
        if cloud.clock.epoch() + pause > expires or not _pause(cloud, pause):
            _give_up(cloud, delivery, code, told, attempt, "MaximumEventAgeInSeconds")
            return
        pause = min(pause * 2, LONGEST_PAUSE_SECONDS)


def _pause(cloud: OpenCloud, seconds: float) -> bool:
    """False when the cloud closes meanwhile."""
    with cloud.deliveries.paused():
        return cloud.clock.sleep(seconds, stop=cloud.closing.is_set)


def _send_once(cloud: OpenCloud, delivery: Delivery, fault_target: str) -> None:
    authorize(cloud, delivery)
    fault = cloud.faults.take(fault_target) if fault_target else None
    if fault is not None and fault.when == "before":
        raise _refused(fault.error, fault.message)
    _send(cloud, delivery)
    if fault is not None and fault.when == "duplicate":
        _send(cloud, delivery)
    if fault is not None and fault.when == "after":
        raise _refused(fault.error, fault.message)


def _refused(code: str, message: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}}, "Deliver")


def authorize(cloud: OpenCloud, delivery: Delivery) -> None:
    """Whether the sender may reach its target. Raises ClientError and InvalidTarget."""
    _authorize(cloud, delivery, delivery.target_arn, delivery.role)


def _authorize(cloud: OpenCloud, delivery: Delivery, arn: str, role: str | None) -> None:
    """By the role, else by the policy of the target itself."""
    service = arn.split(":")[2]
    if service not in DELIVERED:
        raise InvalidTarget(f"the local cloud cannot deliver to {arn}")
    if role is None and service == "states":  # it has no policies of its resources
        raise InvalidTarget(f"RoleArn is required for target {arn}.")
    try:
        for need in delivery_needs(service, arn, cloud.access.account):
            if role is not None:
                cloud.access.check_role(role, SESSION_NAME, delivery.service, need)
            else:
                cloud.access.check_service(delivery.service, delivery.source_arn, need)
    except (Refused, CannotAssume) as error:
        raise _refused("AccessDenied", str(error)) from error


def _send(cloud: OpenCloud, delivery: Delivery) -> None:
    arn, payload = delivery.target_arn, delivery.payload
    service = arn.split(":")[2]
    if service == "states":
        cloud.client("stepfunctions").start_execution(stateMachineArn=arn, input=payload)
    elif service == "lambda":
        cloud.client("lambda").invoke(FunctionName=arn, InvocationType="Event", Payload=payload.encode())
    elif service == "sns":
        cloud.client("sns").publish(TopicArn=arn, Message=payload)
    else:
        send_to_queue(cloud, arn, payload)


def _code(error: Exception) -> str:
    return str(error.response["Error"]["Code"]) if isinstance(error, ClientError) else type(error).__name__


def _give_up(
    cloud: OpenCloud, delivery: Delivery, code: str, message: str, retries: int, exhausted: str | None = None
) -> None:
    log.warning("%s could not deliver to %s: %s %s", delivery.source_arn, delivery.target_arn, code, message)
    queue_arn = delivery.options.get("DeadLetterConfig", {}).get("Arn")
    if not queue_arn:
        return
    try:
        _authorize(cloud, delivery, queue_arn, None)  # as itself
    except ClientError as error:
        log.error("the event is lost, its dead-letter queue %s refuses it: %s", queue_arn, error)
        return
    attributes = {
        "RULE_ARN": delivery.source_arn,
        "TARGET_ARN": delivery.target_arn,
        "ERROR_CODE": DEAD_LETTER_CODES.get(code, "ERROR_FROM_TARGET"),
        "ERROR_MESSAGE": message or code,
        "RETRY_ATTEMPTS": str(retries),
        **({"EXHAUSTED_RETRY_CONDITION": exhausted} if exhausted else {}),
    }
    texts = {key: {"DataType": "String", "StringValue": value} for key, value in attributes.items()}
    send_to_queue(cloud, queue_arn, delivery.event, MessageAttributes=texts)


def iso_time(epoch: float) -> str:
    """A time as events carry it, e.g. 2026-11-21T08:00:00Z."""
    return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def send_to_targets(cloud: OpenCloud, rule: Any, event: Mapping[str, Any]) -> None:
    """Deliver an event to each target of a rule."""
    whole = json.dumps(event)
    for target in rule.targets:
        payload = target_payload(target, event, rule.arn)
        delivery = Delivery(rule.arn, target["Arn"], payload, target, event=whole)
        deliver(cloud, delivery, f"events:{rule.name}")


def entry_bytes(entry: Mapping[str, Any]) -> int:
    """The size that PutEvents counts: 14 bytes for a time, and the UTF-8 of the texts (user guide, "Calculating
    PutEvents event entry size")."""
    texts = (entry.get("Source", ""), entry.get("DetailType", ""), entry.get("Detail", ""))
    resources = entry.get("Resources") or ()
    return 14 * ("Time" in entry) + sum(len(str(one).encode()) for one in (*texts, *resources))


def _install_put_events(cloud: OpenCloud) -> None:
    """PutEvents with its limit of size, and with entries that fail alone: those of a source of AWS's own, and those of
    the fault `events:entry`."""
    from moto.core.exceptions import JsonRESTError
    from moto.events.responses import EventsHandler

    original = EventsHandler.put_events

    def refusal(entry: Mapping[str, Any]) -> dict[str, str] | None:
        if str(entry.get("Source", "")).startswith("aws."):
            said = "Not authorized for the source."
            return {"ErrorCode": "NotAuthorizedForSourceException", "ErrorMessage": said}
        fault = cloud.faults.take("events:entry")
        return None if fault is None else {"ErrorCode": fault.error, "ErrorMessage": fault.message}

    def put_events(self: Any) -> str:
        entries = self._get_param("Entries")
        if sum(entry_bytes(one) for one in entries) > MOST_PUT_BYTES:
            raise JsonRESTError(
                "ValidationException", "Total size of the entries in the request is over the limit."
            )
        refused = {at: said for at, one in enumerate(entries) if (said := refusal(one)) is not None}
        if not refused:
            return str(original(self))
        taken = iter(
            self.events_backend.put_events([one for at, one in enumerate(entries) if at not in refused])
        )
        told = [refused[at] if at in refused else next(taken) for at in range(len(entries))]
        failed = sum("ErrorCode" in one for one in told)
        return json.dumps({"FailedEntryCount": failed, "Entries": told})

    cloud.patch(EventsHandler, "put_events", put_events)


def install(cloud: OpenCloud) -> None:
    """Deliver what rules match, and give AWS services' own events (`put_event`) to the default bus."""
    from moto.events.models import Rule, events_backends

    def send(self: Any, original_event: dict[str, Any], transform_input: bool = True) -> None:
        if self.state != "ENABLED" or not self.event_pattern.get_pattern():
            return  # a rule with a schedule only matches no event
        if not self.event_pattern.matches_event(original_event):
            return
        event = {key: value for key, value in original_event.items() if key != "ingestion-time"}
        if isinstance(event["time"], int | float):
            event["time"] = iso_time(event["time"])
        send_to_targets(cloud, self, event)

    def put_event(source: str, detail_type: str, detail: Mapping[str, Any], resources: Sequence[str]) -> None:
        backend = events_backends[cloud.settings.account_id][cloud.settings.region]
        entry = {
            "Source": source,
            "DetailType": detail_type,
            "Detail": json.dumps(detail, default=str),
            "Resources": list(resources),
            "Time": cloud.clock.epoch(),
        }
        backend.put_events([entry])

    cloud.patch(Rule, "send_to_targets", send)
    _install_put_events(cloud)
    cloud.deliver_events_with(put_event)
