"""Rules with a ScheduleExpression, fired on the cloud clock. rate(...) is here; cron(...) is not."""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from localcloud.extensions.events.eventbridge import iso_time, send_to_targets

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud

log = logging.getLogger(__name__)

RATE = re.compile(r"^rate\((\d+) (minutes?|hours?|days?)\)$")
UNIT_SECONDS = {"minute": 60, "hour": 3600, "day": 86400}
LONGEST_PAUSE_REAL_SECONDS = 0.25
# With a fast clock on a busy machine, schedules would else fire faster than their deliveries end, and ever more slowly.
MOST_DELIVERIES_AT_WORK = 16


class InvalidSchedule(ValueError):
    """A schedule expression that AWS would refuse, or that is not here."""


def parse(text: str) -> timedelta:
    """The time between two firings of rate(...). Raises InvalidSchedule."""
    rate = RATE.match(text)
    if not rate:
        raise InvalidSchedule(f"{text}: the local cloud has rate(...) alone")
    count, unit = int(rate.group(1)), rate.group(2)
    if count < 1 or (count == 1) == unit.endswith("s"):
        raise InvalidSchedule(f"{text}: write rate(1 minute) or rate(5 minutes)")
    return timedelta(seconds=count * UNIT_SECONDS[unit.rstrip("s")])


def next_after(moment: datetime, made: datetime, every: timedelta) -> datetime:
    """A rate counts from when its rule was made."""
    return made + (max(timedelta(0), moment - made) // every + 1) * every


@dataclass
class _Entry:
    """A schedule as it was when we last looked, and when it is due next."""

    signature: tuple[Any, ...]
    made: datetime
    every: timedelta
    due: datetime
    fire: Callable[[datetime], None]


class Scheduler:
    """Looks at every schedule of the cloud and fires what is due.

    Times that a jump of the clock skipped fire once, and so do times at which the machine was behind with deliveries.
    """

    def __init__(self, cloud: OpenCloud) -> None:
        self._cloud = cloud
        self._entries: dict[str, _Entry] = {}

    def run(self) -> None:
        while not self._cloud.closing.is_set():
            if self._cloud.deliveries.count < MOST_DELIVERIES_AT_WORK:
                with self._cloud.errors_logged("a look at the schedules"):
                    self.tick()
            dues = [entry.due for entry in self._entries.values()]
            wait = LONGEST_PAUSE_REAL_SECONDS
            if dues:
                until = (min(dues) - self._cloud.clock.now()).total_seconds()
                wait = min(wait, max(0.01, self._cloud.clock.real_seconds(until)))
            self._cloud.closing.wait(wait)

    def tick(self) -> None:
        """Fire what is due now."""
        now = self._cloud.clock.now()
        found = dict(self._current(now))
        self._entries = found
        for entry in found.values():
            if entry.due <= now:
                due = entry.due
                entry.due = next_after(now, entry.made, entry.every)
                with self._cloud.errors_logged(f"schedule {entry.signature}"):
                    entry.fire(due)

    def _current(self, now: datetime) -> Iterator[tuple[str, _Entry]]:
        for arn, signature, text, fire in self._rules():
            known = self._entries.get(arn)
            if known is not None and known.signature == signature:
                yield arn, known
                continue
            try:
                every = parse(text)
            except InvalidSchedule as error:
                log.error("%s never fires: %s", arn, error)
                continue
            yield arn, _Entry(signature, now, every, next_after(now, now, every), fire)

    def _rules(self) -> Iterator[tuple[str, tuple[Any, ...], str, Callable[[datetime], None]]]:
        from moto.events.models import events_backends

        backend = events_backends[self._cloud.settings.account_id][self._cloud.settings.region]
        for bus in list(backend.event_buses.values()):
            for rule in list(bus.rules.values()):
                if rule.scheduled_expression and rule.state == "ENABLED":
                    signature = (rule.scheduled_expression, id(rule))
                    fire = _rule_firing(self._cloud, rule)
                    yield rule.arn, signature, rule.scheduled_expression, fire


def _rule_firing(cloud: OpenCloud, rule: Any) -> Callable[[datetime], None]:
    def fire(due: datetime) -> None:
        event = {
            "version": "0",
            "id": str(uuid.uuid4()),
            "detail-type": "Scheduled Event",
            "source": "aws.events",
            "account": cloud.settings.account_id,
            "time": iso_time(due.timestamp()),
            "region": cloud.settings.region,
            "resources": [rule.arn],
            "detail": {},
        }
        send_to_targets(cloud, rule, event)

    return fire


def install(cloud: OpenCloud) -> None:
    """Start firing schedules."""
    scheduler = Scheduler(cloud)
    cloud.when_ready(lambda: cloud.background("scheduler", scheduler.run))
