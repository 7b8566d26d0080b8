"""Rules that fire at a rate on the cloud clock."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cloud_rig.control import Control, control, eventually, unique
from localcloud.extensions.events import eventbridge
from localcloud.extensions.events.schedules import MOST_DELIVERIES_AT_WORK, InvalidSchedule, next_after, parse
from localcloud.server import LocalCloud

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)  # a Saturday


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Control]:
    with control(Path(tmp_path_factory.mktemp("cloud")), clock_scale=600) as opened:
        yield opened


@pytest.mark.parametrize(
    "expression", ["rate(0 minutes)", "rate(1 minutes)", "rate(5 minute)", "cron(0 9 * * ? *)", "daily"]
)
def test_an_expression_that_aws_refuses_or_that_is_not_here_is_refused(expression: str) -> None:
    with pytest.raises(InvalidSchedule):
        parse(expression)


def test_a_rate_counts_from_when_the_rule_was_made() -> None:
    made = NOON - timedelta(minutes=7)
    assert next_after(NOON, made, parse("rate(5 minutes)")) == made + timedelta(minutes=10)


def test_a_rule_fires_every_five_cloud_minutes(aws: Control) -> None:
    url, arn = aws.queue()
    name = unique("rule")
    aws.events.put_rule(Name=name, ScheduleExpression="rate(5 minutes)")
    aws.events.put_targets(Rule=name, Targets=[{"Id": "1", "Arn": arn}])
    times: list[datetime] = []

    def thrice() -> bool:
        times.extend(datetime.fromisoformat(event["time"]) for event in aws.messages(url))
        return len(times) >= 3

    eventually(thrice)
    aws.events.disable_rule(Name=name)
    steps = {
        (later - earlier).total_seconds()
        for earlier, later in zip(sorted(times), sorted(times)[1:], strict=False)
    }
    assert min(steps) >= 299  # times are whole seconds
    assert all(step % 300 in (0, 1, 299) for step in steps)


def test_a_jump_of_the_clock_fires_a_schedule_once(aws: Control) -> None:
    url, arn = aws.queue()
    name = unique("rule")
    aws.events.put_rule(Name=name, ScheduleExpression="rate(7 days)")
    aws.events.put_targets(Rule=name, Targets=[{"Id": "1", "Arn": arn, "Input": "1"}])
    scheduled = unique("seen")
    aws.events.put_rule(Name=scheduled, ScheduleExpression="rate(1 minute)")
    seen_url, seen_arn = aws.queue()
    aws.events.put_targets(Rule=scheduled, Targets=[{"Id": "1", "Arn": seen_arn}])
    eventually(lambda: aws.messages(seen_url))  # both rules are known to the scheduler by now
    aws.cloud.clock.set(now=aws.cloud.clock.now() + timedelta(days=30))
    eventually(lambda: aws.messages(url))
    aws.messages(seen_url)
    eventually(lambda: aws.messages(seen_url))
    assert not aws.messages(url)
    for rule in (name, scheduled):
        aws.events.disable_rule(Name=rule)


def test_a_schedule_does_not_fire_faster_than_the_machine_delivers(
    aws: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    delivered, may_go_on = eventbridge._send, threading.Event()
    most = 0

    def slow(cloud: LocalCloud, delivery: eventbridge.Delivery) -> None:
        nonlocal most
        most = max(most, cloud.deliveries.count)
        may_go_on.wait()
        delivered(cloud, delivery)

    monkeypatch.setattr(eventbridge, "_send", slow)
    name, (url, arn) = unique("rule"), aws.queue()
    aws.events.put_rule(Name=name, ScheduleExpression="rate(1 minute)")
    aws.events.put_targets(Rule=name, Targets=[{"Id": "1", "Arn": arn}])
    try:
        eventually(lambda: aws.cloud.deliveries.count >= MOST_DELIVERIES_AT_WORK)
        begun = aws.cloud.clock.now()
        eventually(lambda: aws.cloud.clock.now() - begun > timedelta(minutes=5))
    finally:
        may_go_on.set()
    eventually(lambda: aws.messages(url))
    aws.events.disable_rule(Name=name)
    eventually(lambda: aws.cloud.deliveries.count == 0)
    assert most <= MOST_DELIVERIES_AT_WORK
