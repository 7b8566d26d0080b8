"""Which events EventBridge's rules match, what their targets get, and how often."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from peaker_cli.rehearse.named import detail_type, own_events, queue, rule
from peaker_cli.rehearse.resources import EVENT_SOURCE, METRIC_NAMESPACE, Resources

_KIND = "behaviours"
_SENT, _FIRST = 10, 100
_SETTLES_SECONDS = 60.0
# The pattern of an event's detail, and whether the event below matches.
_PATTERNS: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "a pattern of a value": ({"state": ["ALARM"]}, "matches"),
    "a pattern of another value": ({"state": ["OK"]}, "silent"),
    "anything-but another value": ({"state": [{"anything-but": ["OK"]}]}, "matches"),
    "prefix": ({"name": [{"prefix": "orders "}]}, "matches"),
    "numeric > 5, <= 9": ({"lag": [{"numeric": [">", 5, "<=", 9]}]}, "matches"),
    "numeric > 9": ({"lag": [{"numeric": [">", 9]}]}, "silent"),
    "exists: false of what is not there": ({"nowhere": [{"exists": False}]}, "matches"),
    "exists: true of what has parts": ({"map": [{"exists": True}]}, "silent"),
}
# A template, and what it gives.
_TEMPLATES: Mapping[str, tuple[str, Any]] = {
    "template: text without quotes": ("<name>", 'orders "1"'),
    "template: text in quotes": ('"<name>"', 'orders "1"'),
    "template: text in a sentence": ('"<name> is <state>"', 'orders "1" is ALARM'),
    "template: number": ("<lag>", 9),
    "template: number in quotes": ('"<lag>"', "9"),
    "template: object": ("<map>", {"value": "ALARM"}),
    "template: list": ("<list>", ["a", "b"]),
    "template: missing path": ("<missing>", None),
    "template: missing path in quotes": ('"<missing>"', ""),
    "template: text that closes quotes": ('"<break>"', '", "x": "'),
}
_PATHS = ("n", "name", "state", "lag", "map", "list", "break", "missing")
_DETAIL = {
    "state": "ALARM",
    "name": 'orders "1"',
    "lag": 9,
    "map": {"value": "ALARM"},
    "list": ["a", "b"],
    "break": '", "x": "',
}
_ALARM, _ALARM_EVENT = "an alarm: missing data breaches", "its event"
DUPLICATES = f"events that came again, of {_SENT}"
EVENTS: Mapping[str, str] = {
    **{name: verdict for name, (_, verdict) in _PATTERNS.items()},
    **{name: json.dumps(filled) for name, (_, filled) in _TEMPLATES.items()},
    _ALARM: "ALARM",
    _ALARM_EVENT: "ALARM",
}


def ask_eventbridge(resources: Resources) -> dict[str, str]:
    """Makes a rule for each pattern and template, sends the same event ten times, and reads the queue."""
    _make_rules(resources)
    inbox = _Inbox(resources)
    inbox.until_the_rules_act()
    _make_alarm(resources)
    for number in range(_FIRST, _FIRST + _SENT):
        inbox.send(number)
    resources.seconds_until("the events", lambda: len(inbox.read()["all"]) >= _SENT, at_most=600)
    resources.seconds_until("the alarm", lambda: _alarm_state(resources) == "ALARM", at_most=900)
    settled = resources.now() + timedelta(seconds=_SETTLES_SECONDS)
    resources.seconds_until("what comes late", lambda: inbox.read() and resources.now() > settled)
    return {**inbox.verdicts(), _ALARM: _alarm_state(resources), DUPLICATES: str(inbox.came_again())}


class _Inbox:
    """The messages of the queue: by rule, each event's number and what the template gave."""

    def __init__(self, resources: Resources) -> None:
        self._resources, self._url = resources, queue(resources)
        self._messages: dict[str, dict[str, Any]] = {}

    def send(self, number: int) -> None:
        detail = json.dumps({**_DETAIL, "n": number})
        entry = {"Source": EVENT_SOURCE, "DetailType": detail_type(self._resources, _KIND), "Detail": detail}
        self._resources.client("events").put_events(Entries=[entry])

    def until_the_rules_act(self) -> None:
        """Sends an event each half minute until one came: a rule acts some time after it was put."""
        sent: datetime | None = None

        def acts() -> bool:
            nonlocal sent
            if sent is None or self._resources.now() - sent > timedelta(seconds=30):
                sent = self._resources.now()
                self.send(0)
            return bool(self.read(0)["all"])

        self._resources.seconds_until("the first event", acts, at_most=900)
        settled = self._resources.now() + timedelta(seconds=_SETTLES_SECONDS)
        self._resources.seconds_until(
            "the other rules", lambda: self.read(0) and self._resources.now() > settled
        )

    def read(self, least: int = _FIRST) -> dict[str, dict[int, list[Any]]]:
        """Takes what is in the queue and returns all that came from `least` on, by rule and number."""
        sqs = self._resources.client("sqs")
        while batch := sqs.receive_message(QueueUrl=self._url, MaxNumberOfMessages=10).get("Messages", []):
            for one in batch:
                self._messages[one["MessageId"]] = json.loads(one["Body"])
                sqs.delete_message(QueueUrl=self._url, ReceiptHandle=one["ReceiptHandle"])
        found: dict[str, dict[int, list[Any]]] = defaultdict(lambda: defaultdict(list))
        for body in self._messages.values():
            if body.get("n", -1) >= least and isinstance(body.get("rule"), str):
                found[body["rule"]][body["n"]].append(body.get("filled"))
        return found

    def came_again(self) -> int:
        return sum(len(copies) - 1 for copies in self.read()["all"].values())

    def verdicts(self) -> dict[str, str]:
        came = self.read()
        found = {name: _matched(len(came[name])) for name in _PATTERNS}
        for name in _TEMPLATES:
            filled = [one for copies in came[name].values() for one in copies]
            found[name] = json.dumps(filled[0]) if filled else "nothing came"
        alarms = [one for copies in came[_ALARM].values() for one in copies]
        return {**found, _ALARM_EVENT: str(alarms[0]) if alarms else "nothing came"}


def _matched(count: int) -> str:
    return {0: "silent", _SENT: "matches"}.get(count, f"matches {count} of {_SENT}")


def _make_rules(resources: Resources) -> None:
    paths = {name: f"$.detail.{name}" for name in _PATHS}
    whole = own_events(resources, _KIND)

    def into(name: str, filled: str = "0") -> dict[str, Any]:
        template = f'{{"rule": {json.dumps(name)}, "n": <n>, "filled": {filled}}}'
        used = {key: path for key, path in paths.items() if f"<{key}>" in template}
        return {"InputPathsMap": used, "InputTemplate": template}

    for index, (name, (pattern, _)) in enumerate(_PATTERNS.items()):
        rule(resources, f"-p{index}", own_events(resources, _KIND, pattern), InputTransformer=into(name))
    for index, (name, (template, _)) in enumerate(_TEMPLATES.items()):
        rule(resources, f"-t{index}", whole, InputTransformer=into(name, template))
    changes = {
        "source": ["aws.cloudwatch"],
        "detail-type": ["CloudWatch Alarm State Change"],
        "detail": {"alarmName": [resources.own_name], "state": {"value": ["ALARM"]}},
    }
    told = f'{{"rule": {json.dumps(_ALARM)}, "n": {_FIRST}, "filled": <state>}}'
    rule(
        resources,
        "-alarm",
        changes,
        InputTransformer={"InputPathsMap": {"state": "$.detail.state.value"}, "InputTemplate": told},
    )
    rule(resources, "-all", whole, InputTransformer=into("all"))


def _make_alarm(resources: Resources) -> None:
    resources.client("cloudwatch").put_metric_alarm(
        AlarmName=resources.own_name,
        Namespace=METRIC_NAMESPACE,
        MetricName="Never",
        Statistic="Sum",
        Period=60,
        EvaluationPeriods=1,
        Threshold=1.0,
        ComparisonOperator="GreaterThanThreshold",
        TreatMissingData="breaching",
    )


def _alarm_state(resources: Resources) -> str:
    found = resources.client("cloudwatch").describe_alarms(AlarmNames=[resources.own_name])["MetricAlarms"]
    return str(found[0]["StateValue"]) if found else "absent"
