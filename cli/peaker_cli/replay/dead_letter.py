"""What lies in a dead-letter queue, and what is to become of it: a pure decision, with its reason and its numbers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from peaker.domain.decoding import parsed_json
from peaker.domain.instants import from_iso, seconds_between
from peaker.domain.report.approval_question import ASKS

from peaker_cli.replay.target_input import target_input
from peaker_contract.names import OPERATOR_ALARMS, undelivered

# What a stopped run left costs money until it is undone, however late that is.
NEVER_TOO_OLD = "aws.states"
# What an execution's name may hold; it has 80 characters at most.
_ID = re.compile(r"[A-Za-z0-9_-]{1,70}")
# Ends the name of the queue of the operators' topic.
_PAGES = undelivered(f"-{OPERATOR_ALARMS}")
_EVENT_KEYS = frozenset({"id", "source", "detail-type", "detail", "time"})


class Fate(StrEnum):
    """What becomes of a letter: sent again and deleted, deleted alone, or left where it is."""

    SEND = "send"
    DROP = "drop"
    LEAVE = "leave"


@dataclass(frozen=True)
class Letter:
    """A message as it was received. `attributes` are the sender's; `sent_at` is when it came into the queue."""

    queue: str
    message_id: str
    receipt: str
    body: str
    attributes: Mapping[str, str]
    sent_at: datetime


@dataclass(frozen=True)
class Rule:
    """A rule of this environment and its targets, as `events:ListTargetsByRule` describes them."""

    name: str
    arn: str
    is_on: bool
    targets: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Verdict:
    """`target` and `payload` are what is sent, `name` the execution's, where a workflow is started."""

    fate: Fate
    reason: str
    what: str
    why: str
    at: datetime
    target: str = ""
    payload: str = ""
    name: str = ""

    def age_seconds(self, now: datetime) -> float:
        """Since the event happened, or the function was called."""
        return max(0.0, seconds_between(self.at, now))


def verdict(letter: Letter, rules: Sequence[Rule], now: datetime) -> Verdict:
    """Nothing in a letter is trusted: it is sent only where a rule of this environment sends it today."""
    try:
        content = parsed_json(letter.body)
    except ValueError:
        content = None
    if letter.queue.endswith(_PAGES):
        return _undelivered_page(letter, content)
    if isinstance(content, dict) and "requestContext" in content:
        return _failed_invocation(letter, content, rules, now)
    if isinstance(content, dict) and content.keys() >= _EVENT_KEYS:
        return _undelivered_event(letter, content, rules, now)
    return _left(letter, "it is no event and no record of an invocation", "unknown")


def _undelivered_event(
    letter: Letter, event: Mapping[str, Any], rules: Sequence[Rule], now: datetime
) -> Verdict:
    told = letter.attributes
    why = f"{told.get('ERROR_CODE', 'unknown')}: {told.get('ERROR_MESSAGE', 'no message')}"
    arn, target_arn = told.get("RULE_ARN", ""), told.get("TARGET_ARN", "")
    rule = next((one for one in rules if one.arn == arn), None)
    what = _what(event)
    if rule is None:
        return _left(letter, f"no rule of this environment is {arn or 'named in it'}", what, why)
    target = next((one for one in rule.targets if one["Arn"] == target_arn), None)
    what = f"{what}, for {_short(target_arn)}"
    if target is None:
        return _left(letter, f"{rule.name} no longer sends to {target_arn or 'any target'}", what, why)
    if not rule.is_on:
        return _left(letter, f"{rule.name} is paused", what, why)
    at = _instant(event.get("time"), letter.sent_at)
    try:
        payload = target_input(target, event)
    except ValueError as error:
        return _left(letter, f"the rule's input cannot be made of it: {error}", what, why)
    name = f"replay-{event['id'] if _ID.fullmatch(str(event['id'])) else letter.message_id}"
    if event.get("source") == NEVER_TOO_OLD:
        return Verdict(
            Fate.SEND, "what a run left is undone however late", what, why, at, target_arn, payload, name
        )
    return _by_age(Verdict(Fate.SEND, "", what, why, at, target_arn, payload, name), [target], now)


def _failed_invocation(
    letter: Letter, record: Mapping[str, Any], rules: Sequence[Rule], now: datetime
) -> Verdict:
    context = record["requestContext"] if isinstance(record["requestContext"], dict) else {}
    arn = str(context.get("functionArn", "")).removesuffix(":$LATEST")
    answer = record.get("responsePayload")
    error = answer if isinstance(answer, dict) else {}
    why = f"{error.get('errorType', context.get('condition', 'unknown'))}: {error.get('errorMessage', '')}"
    what = f"a call of {_short(arn)}"
    calling = [rule for rule in rules if any(one["Arn"] == arn for one in rule.targets)]
    targets = [one for rule in calling for one in rule.targets if one["Arn"] == arn]
    if not any(rule.is_on for rule in calling):
        if calling:
            return _left(letter, f"{', '.join(rule.name for rule in calling)} is paused", what, why)
        return _left(letter, f"no rule of this environment calls {arn or 'its function'}", what, why)
    payload = json.dumps(record.get("requestPayload"))
    at = _instant(record.get("timestamp"), letter.sent_at)
    return _by_age(Verdict(Fate.SEND, "", what, why, at, arn, payload), targets, now)


def _undelivered_page(letter: Letter, content: object) -> Verdict:
    """SNS's notification around an alarm's message or a question. Nobody at a desk may publish: none is sent again."""
    notification = content if isinstance(content, dict) else {}
    subject = notification.get("Subject")
    if isinstance(subject, str) and subject.endswith(ASKS):
        at = _instant(notification.get("Timestamp"), letter.sent_at)
        why = letter.attributes.get("ErrorMessage", "no mail server took it")
        reason = "read here; whether it still waits, `peaker status` says"
        return Verdict(Fate.DROP, reason, f"a question: {subject}", why, at)
    told = _message_of(notification)
    if told is None:
        return _left(letter, "it is no page of an alarm", "unknown")
    what = (
        f"a page: {told['AlarmName']} is {told['NewStateValue']}: {told.get('NewStateReason', 'no reason')}"
    )
    why = letter.attributes.get("ErrorMessage", "no mail server took it")
    at = _instant(told.get("StateChangeTime"), _instant(notification.get("Timestamp"), letter.sent_at))
    return Verdict(Fate.DROP, "read here; whether it still holds, the alarm itself says", what, why, at)


def _message_of(notification: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What the alarm told, as CloudWatch writes it; None where it is not that."""
    try:
        told = parsed_json(str(notification.get("Message")))
    except ValueError:
        return None
    return told if isinstance(told, dict) and told.keys() >= {"AlarmName", "NewStateValue"} else None


def _by_age(sent: Verdict, targets: Sequence[Mapping[str, Any]], now: datetime) -> Verdict:
    """Older than its rule delivers at all is dropped: by then the rule has had another look, or will have."""
    policies = [one.get("RetryPolicy", {}) for one in targets]
    limits = [int(one["MaximumEventAgeInSeconds"]) for one in policies if "MaximumEventAgeInSeconds" in one]
    age = sent.age_seconds(now)
    if limits and age > max(limits):
        reason = f"{age:.0f} s old, and after {max(limits)} s the state is looked at anew"
        return Verdict(Fate.DROP, reason, sent.what, sent.why, sent.at)
    bound = f", which its rule delivers up to {max(limits)} s" if limits else ""
    reason = f"{age:.0f} s old{bound}"
    return Verdict(Fate.SEND, reason, sent.what, sent.why, sent.at, sent.target, sent.payload, sent.name)


def _left(letter: Letter, reason: str, what: str, why: str = "unknown") -> Verdict:
    return Verdict(Fate.LEAVE, reason, what, why, letter.sent_at)


def _what(event: Mapping[str, Any]) -> str:
    """`alarm peaker-prod-orders-replica-shortage is ALARM`, `a tick of the schedule`, `the end of NAME: ABORTED`."""
    detail = event["detail"] if isinstance(event["detail"], dict) else {}
    match event["source"]:
        case "aws.cloudwatch":
            state = detail.get("state")
            value = state.get("value", "unknown") if isinstance(state, dict) else "unknown"
            return f"alarm {detail.get('alarmName', 'unknown')} is {value}"
        case "aws.states":
            return f"the end of {detail.get('name', 'an execution')}: {detail.get('status', 'unknown')}"
        case "aws.events":
            return "a tick of the schedule"
        case other:
            return f"an event of {other}"


def _short(arn: str) -> str:
    return arn.rsplit(":", 1)[-1] or "no target"


def _instant(text: object, otherwise: datetime) -> datetime:
    try:
        found = from_iso(str(text))
    except ValueError:
        return otherwise
    return found if found.tzinfo is not None else otherwise
