"""What becomes of a message in a dead-letter queue: sent, dropped or left, and why."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from peaker_cli.replay.dead_letter import Fate, Letter, Rule, verdict
from peaker_cli.replay.target_input import target_input

NOW = datetime(2026, 11, 24, 16, 0, tzinfo=UTC)
SCALE_OUT = "arn:aws:states:us-east-1:1:stateMachine:peaker-prod-scale_out"
ROLL_BACK = "arn:aws:states:us-east-1:1:stateMachine:peaker-prod-roll_back"
FORECAST = "arn:aws:lambda:us-east-1:1:function:peaker-prod-forecast_load"
TRANSFORMER = {
    "InputPathsMap": {"alarm": "$.detail.alarmName", "reason": "$.detail.state.reason", "at": "$.time"},
    "InputTemplate": '{"cluster":"orders","trigger":{"alarm":<alarm>,"reason":<reason>,"at":<at>}}',
}


def target(arn: str, longest_age_seconds: int, **given: Any) -> dict[str, Any]:
    policy = {"MaximumRetryAttempts": 5, "MaximumEventAgeInSeconds": longest_age_seconds}
    return {"Id": "1", "Arn": arn, "RetryPolicy": policy, **given}


def rule(name: str, *targets: dict[str, Any], is_on: bool = True) -> Rule:
    return Rule(name, f"arn:aws:events:us-east-1:1:rule/{name}", is_on, targets)


SHORTAGE = rule("peaker-prod-orders-replica-shortage", target(SCALE_OUT, 3600, InputTransformer=TRANSFORMER))
STOPPED = rule("peaker-prod-execution-stopped", target(ROLL_BACK, 86_400, InputPath="$.detail"))
TICK = rule("peaker-prod-orders-forecast", target(FORECAST, 300, Input='{"cluster":"orders"}'))
RULES = (SHORTAGE, STOPPED, TICK)


def event(source: str, minutes_old: float, **detail: Any) -> dict[str, Any]:
    at = NOW - timedelta(minutes=minutes_old)
    return {
        "id": "0f3c1a2e-6b1d-4a57-9f0e-1d2c3b4a5968",
        "source": source,
        "detail-type": "something",
        "time": at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "detail": detail,
    }


def alarm(minutes_old: float) -> dict[str, Any]:
    state = {"value": "ALARM", "reason": 'short "by" 1'}
    return event("aws.cloudwatch", minutes_old, alarmName=SHORTAGE.name, state=state)


def letter(body: object, rule: Rule = SHORTAGE, **changed: str) -> Letter:
    told = {
        "RULE_ARN": rule.arn,
        "TARGET_ARN": str(rule.targets[0]["Arn"]),
        "ERROR_CODE": "NO_PERMISSIONS",
        "ERROR_MESSAGE": "may not",
    }
    text = body if isinstance(body, str) else json.dumps(body)
    return Letter("queue", "5fea7756-0ea4-451a", "receipt", text, {**told, **changed}, NOW)


def test_a_young_alarm_starts_its_workflow_with_the_input_that_its_rule_makes_of_it() -> None:
    found = verdict(letter(alarm(minutes_old=20)), RULES, NOW)
    assert (found.fate, found.target, found.age_seconds(NOW)) == (Fate.SEND, SCALE_OUT, 1200)
    assert found.name == "replay-0f3c1a2e-6b1d-4a57-9f0e-1d2c3b4a5968"
    trigger = {"alarm": SHORTAGE.name, "reason": 'short "by" 1', "at": "2026-11-24T15:40:00Z"}
    assert json.loads(found.payload) == {"cluster": "orders", "trigger": trigger}
    assert (found.what, found.why) == (
        f"alarm {SHORTAGE.name} is ALARM, for peaker-prod-scale_out",
        "NO_PERMISSIONS: may not",
    )


def test_an_alarm_older_than_its_rule_delivers_is_dropped_because_the_state_is_looked_at_anew() -> None:
    found = verdict(letter(alarm(minutes_old=61)), RULES, NOW)
    assert (found.fate, found.target) == (Fate.DROP, "")
    assert found.reason == "3660 s old, and after 3600 s the state is looked at anew"


def test_the_end_of_a_run_is_never_too_old() -> None:
    ended = event("aws.states", 9 * 24 * 60, name="scale-out-1", status="ABORTED")
    found = verdict(letter(ended, STOPPED), RULES, NOW)
    assert (found.fate, found.target) == (Fate.SEND, ROLL_BACK)
    assert json.loads(found.payload) == {"name": "scale-out-1", "status": "ABORTED"}


@pytest.mark.parametrize(("minutes_old", "fate"), [(4, Fate.SEND), (6, Fate.DROP)])
def test_a_tick_counts_until_the_next_one(minutes_old: float, fate: Fate) -> None:
    found = verdict(letter(event("aws.events", minutes_old), TICK), RULES, NOW)
    assert found.fate is fate
    if fate is Fate.SEND:
        assert (found.target, found.payload) == (FORECAST, '{"cluster":"orders"}')


def failed_call(minutes_old: float, arn: str = FORECAST) -> dict[str, Any]:
    return {
        "timestamp": (NOW - timedelta(minutes=minutes_old)).isoformat(),
        "requestContext": {"functionArn": f"{arn}:$LATEST", "condition": "RetriesExhausted"},
        "requestPayload": {"cluster": "orders"},
        "responsePayload": {"errorType": "AwsUnavailable", "errorMessage": "try later"},
    }


@pytest.mark.parametrize(("minutes_old", "fate"), [(4, Fate.SEND), (6, Fate.DROP)])
def test_a_failed_call_is_made_again_until_the_next_tick(minutes_old: float, fate: Fate) -> None:
    found = verdict(letter(failed_call(minutes_old)), RULES, NOW)
    assert (found.fate, found.why) == (fate, "AwsUnavailable: try later")
    if fate is Fate.SEND:
        assert (found.target, json.loads(found.payload)) == (FORECAST, {"cluster": "orders"})


@pytest.mark.parametrize(
    ("body", "changed", "reason"),
    [
        ("hello", {}, "no event and no record"),
        ('{"cluster": "orders"}', {}, "no event and no record"),
        (alarm(1), {"RULE_ARN": "arn:aws:events:us-east-1:1:rule/other"}, "no rule of this environment is"),
        (alarm(1), {"TARGET_ARN": "arn:aws:lambda:us-east-1:1:function:payroll"}, "no longer sends to"),
        (alarm(1), {"RULE_ARN": TICK.arn}, "no longer sends to"),
        (
            failed_call(1, "arn:aws:lambda:us-east-1:1:function:payroll"),
            {},
            "no rule of this environment calls",
        ),
    ],
)
def test_what_no_rule_of_today_would_send_is_left(body: object, changed: dict[str, str], reason: str) -> None:
    found = verdict(letter(body, **changed), RULES, NOW)
    assert (found.fate, found.target) == (Fate.LEAVE, "")
    assert reason in found.reason


def test_nothing_is_sent_where_a_person_has_paused_the_rule() -> None:
    paused = [rule(one.name, *one.targets, is_on=False) for one in RULES]
    for one in (letter(alarm(1)), letter(failed_call(1))):
        found = verdict(one, paused, NOW)
        assert found.fate is Fate.LEAVE
        assert found.reason.endswith("is paused")


def test_an_id_that_cannot_be_in_a_name_gives_way_to_the_messages() -> None:
    found = verdict(letter({**alarm(1), "id": "../ x" * 40}), RULES, NOW)
    assert found.name == "replay-5fea7756-0ea4-451a"


PAGES = "peaker-prod-operator-alarms-undelivered"
TOLD = {
    "AlarmName": "peaker-prod-roll_back-workflow-failed",
    "NewStateValue": "ALARM",
    "NewStateReason": "1 datapoint was greater",
    "StateChangeTime": "2026-11-24T09:30:00.000+0000",
}


def page(message: object, queue: str = PAGES) -> Letter:
    told = message if isinstance(message, str) else json.dumps(message)
    body = {"Type": "Notification", "Message": told, "Timestamp": "2026-11-24T09:30:01.000Z"}
    return Letter(queue, "5fea7756-0ea4-451a", "receipt", json.dumps(body), {}, NOW)


def test_a_page_that_no_mail_server_took_is_told_and_dropped_however_old() -> None:
    found = verdict(page(TOLD), RULES, NOW)
    assert (found.fate, found.target, found.age_seconds(NOW)) == (Fate.DROP, "", 6.5 * 3600)
    name = "peaker-prod-roll_back-workflow-failed"
    assert found.what == f"a page: {name} is ALARM: 1 datapoint was greater"
    assert found.why == "no mail server took it"


def test_a_question_that_no_mail_server_took_is_told_and_dropped() -> None:
    letter = page("scale_out of orders would build 1 x r7g.4xlarge")
    asked = {**json.loads(letter.body), "Subject": "Peaker prod: scale_out of orders waits for approval"}
    found = verdict(replace(letter, body=json.dumps(asked)), RULES, NOW)
    assert (found.fate, found.what) == (
        Fate.DROP,
        "a question: Peaker prod: scale_out of orders waits for approval",
    )
    assert "`peaker status` says" in found.reason


def test_a_page_is_as_old_as_its_alarm_else_as_its_notification() -> None:
    without = {name: value for name, value in TOLD.items() if name != "StateChangeTime"}
    assert verdict(page(without), RULES, NOW).age_seconds(NOW) == 6.5 * 3600 - 1


@pytest.mark.parametrize("message", ["all is well", {"AlarmName": "x"}, [], "null", "1" * 9])
def test_what_is_no_page_of_an_alarm_is_left(message: object) -> None:
    assert verdict(page(message), RULES, NOW).fate is Fate.LEAVE


def test_a_page_counts_in_the_topics_own_queue_alone() -> None:
    assert verdict(page(TOLD, queue="peaker-prod-prices-undelivered"), RULES, NOW).fate is Fate.LEAVE


@settings(max_examples=50)
@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), lambda one: st.lists(one) | st.dictionaries(
    st.sampled_from(["id", "source", "detail-type", "detail", "time", "requestContext", "timestamp", "state"]), one)
))  # fmt: skip
def test_whatever_lies_there_has_a_verdict(body: object) -> None:
    for one in (
        letter(json.dumps(body)),
        page(json.dumps(body)),
        replace(letter(json.dumps(body)), queue=PAGES),
    ):
        assert verdict(one, RULES, NOW).fate in Fate


@pytest.mark.parametrize(
    ("given_target", "wanted"),
    [
        ({"Input": '{"a": 1}'}, {"a": 1}),
        ({"InputPath": "$.detail.list[1]"}, "b"),
        ({"InputPath": "$.nowhere"}, None),
        ({}, {"id": "e", "detail": {"list": ["a", "b"], "text": 'x", "y": "z'}}),
        (
            {
                "InputTransformer": {
                    "InputPathsMap": {
                        "text": "$.detail.text",
                        "none": "$.detail.none",
                        "all": "$.detail.list",
                    },
                    "InputTemplate": '{"in": "<text> <none>", "out": <text>, "no": <none>, "all": "<all>", "<": 1}',
                }
            },
            {"in": 'x", "y": "z ', "out": 'x", "y": "z', "no": None, "all": '["a", "b"]', "<": 1},
        ),
    ],
)
def test_a_target_gets_what_its_rule_would_give_it(given_target: dict[str, Any], wanted: object) -> None:
    happened = {"id": "e", "detail": {"list": ["a", "b"], "text": 'x", "y": "z'}}
    assert json.loads(target_input(given_target, happened)) == wanted
