"""Schedules on the cloud clock: rules with a ScheduleExpression, and EventBridge Scheduler (rate, cron, at)."""

from __future__ import annotations

import calendar
import logging
import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from localcloud.extensions.events.eventbridge import Delivery, deliver, iso_time, send_to_targets

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud

log = logging.getLogger(__name__)

RATE = re.compile(r"^rate\((\d+) (minutes?|hours?|days?)\)$")
CRON = re.compile(r"^cron\((\S+) (\S+) (\S+) (\S+) (\S+) (\S+)\)$")
AT = re.compile(r"^at\((\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2})\)$")
UNIT_SECONDS = {"minute": 60, "hour": 3600, "day": 86400}
MONTHS = {name.upper(): number for number, name in enumerate(calendar.month_abbr) if name}
WEEKDAYS = {
    name: number for number, name in enumerate(("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"), start=1)
}
LONGEST_SEARCH_DAYS = 366 * 8
LONGEST_PAUSE_REAL_SECONDS = 0.25
# With a fast clock on a busy machine, schedules would else fire faster than their deliveries end, and ever more slowly.
MOST_DELIVERIES_AT_WORK = 16
SCHEDULER = "scheduler.amazonaws.com"


class InvalidSchedule(ValueError):
    """A schedule expression that AWS would refuse."""


@dataclass(frozen=True)
class Expression:
    """A parsed schedule expression."""

    text: str
    next_after: Callable[[datetime, datetime], datetime | None]  # (moment, when the schedule was made)


def parse(text: str, zone: tzinfo = UTC) -> Expression:
    """Understand rate(...), cron(...) and at(...). Raises InvalidSchedule."""
    rate = RATE.match(text)
    if rate:
        count, unit = int(rate.group(1)), rate.group(2)
        if count < 1 or (count == 1) == unit.endswith("s"):
            raise InvalidSchedule(f"{text}: write rate(1 minute) or rate(5 minutes)")
        seconds = count * UNIT_SECONDS[unit.rstrip("s")]
        return Expression(text, lambda moment, made: _next_rate(moment, made, seconds))
    at = AT.match(text)
    if at:
        instant = datetime.fromisoformat(at.group(1)).replace(tzinfo=zone)
        return Expression(text, lambda moment, made: instant if instant > moment else None)
    cron = CRON.match(text)
    if cron:
        fields = _CronFields.parse(cron.groups(), text)
        return Expression(text, lambda moment, made: fields.next_after(moment, zone))
    raise InvalidSchedule(f"{text}: not rate(...), cron(...) or at(yyyy-mm-ddThh:mm:ss)")


def _next_rate(moment: datetime, made: datetime, seconds: int) -> datetime:
    elapsed = max(0.0, (moment - made).total_seconds())
    return made + timedelta(seconds=(elapsed // seconds + 1) * seconds)


@dataclass(frozen=True)
class _CronFields:
    """cron(minutes hours day-of-month month day-of-week year), AWS's dialect."""

    minutes: frozenset[int]
    hours: frozenset[int]
    month_days: str
    months: frozenset[int]
    week_days: str
    years: frozenset[int]

    @classmethod
    def parse(cls, fields: tuple[str, ...], text: str) -> _CronFields:
        minutes, hours, month_days, months, week_days, years = fields
        if (month_days == "?") == (week_days == "?"):
            raise InvalidSchedule(f"{text}: exactly one of day-of-month and day-of-week must be ?")
        return cls(
            _values(minutes, 0, 59, text),
            _values(hours, 0, 23, text),
            month_days,
            _values(months, 1, 12, text, MONTHS),
            week_days.upper(),
            _values(years, 1970, 2199, text),
        )

    def next_after(self, moment: datetime, zone: tzinfo) -> datetime | None:
        local = moment.astimezone(zone)
        for offset in range(LONGEST_SEARCH_DAYS):
            day = local.date() + timedelta(days=offset)
            if day.year not in self.years or day.month not in self.months or not self._matches(day):
                continue
            for hour in sorted(self.hours):
                for minute in sorted(self.minutes):
                    candidate = datetime(day.year, day.month, day.day, hour, minute, tzinfo=zone)
                    if candidate > moment:
                        return candidate
        return None

    def _matches(self, day: date) -> bool:
        if self.week_days == "?":
            return day.day in _month_days(self.month_days, day)
        return _is_week_day(self.week_days, day)


def _values(
    field: str, low: int, high: int, text: str, names: dict[str, int] | None = None
) -> frozenset[int]:
    found: set[int] = set()
    for part in field.upper().split(","):
        span, _, step_text = part.partition("/")
        first_text, _, last_text = span.partition("-")
        try:
            step = int(step_text) if step_text else 1
            first = low if first_text == "*" else _number(first_text, names)
            last = high if first_text == "*" or (step_text and not last_text) else first
            last = _number(last_text, names) if last_text else last
        except ValueError as error:
            raise InvalidSchedule(f"{text}: cannot read {part!r}") from error
        if not (low <= first <= high and low <= last <= high and step > 0):
            raise InvalidSchedule(f"{text}: {part!r} is not within {low}-{high}")
        found.update(range(first, last + 1, step))
    return frozenset(found)


def _number(text: str, names: dict[str, int] | None) -> int:
    return names[text] if names and text in names else int(text)


def _month_days(field: str, day: date) -> set[int]:
    last = calendar.monthrange(day.year, day.month)[1]
    if field == "L":
        return {last}
    if field.endswith("W"):
        return {_nearest_week_day(day, min(int(field[:-1]), last), last)}
    return set(_values(field, 1, 31, field))


def _nearest_week_day(day: date, wanted: int, last: int) -> int:
    weekday = day.replace(day=wanted).weekday()
    if weekday == 5:
        return wanted - 1 if wanted > 1 else wanted + 2
    if weekday == 6:
        return wanted + 1 if wanted < last else wanted - 2
    return wanted


def _is_week_day(field: str, day: date) -> bool:
    number = (day.weekday() + 1) % 7 + 1  # 1 is Sunday
    if field.endswith("L") and len(field) > 1:
        last = calendar.monthrange(day.year, day.month)[1]
        return number == _number(field[:-1], WEEKDAYS) and day.day > last - 7
    if "#" in field:
        weekday, _, nth = field.partition("#")
        return number == _number(weekday, WEEKDAYS) and (day.day - 1) // 7 + 1 == int(nth)
    return number in _values(field, 1, 7, field, WEEKDAYS)


# -- running them -------------------------------------------------------------------------------------------


@dataclass
class _Entry:
    """A schedule as it was when we last looked, and when it is due next."""

    signature: tuple[Any, ...]
    made: datetime
    expression: Expression
    due: datetime | None
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
            dues = [entry.due for entry in self._entries.values() if entry.due is not None]
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
            if entry.due is not None and entry.due <= now:
                due = entry.due
                entry.due = entry.expression.next_after(now, entry.made)
                with self._cloud.errors_logged(f"schedule {entry.signature}"):
                    entry.fire(due)

    def _current(self, now: datetime) -> Iterator[tuple[str, _Entry]]:
        for arn, signature, text, zone, fire in (*self._rules(), *self._schedules(now)):
            known = self._entries.get(arn)
            if known is not None and known.signature == signature:
                yield arn, known
                continue
            try:
                expression = parse(text, zone)
            except InvalidSchedule as error:
                log.error("%s never fires: %s", arn, error)
                continue
            yield arn, _Entry(signature, now, expression, expression.next_after(now, now), fire)

    def _rules(self) -> Iterator[tuple[str, tuple[Any, ...], str, tzinfo, Callable[[datetime], None]]]:
        from moto.events.models import events_backends

        backend = events_backends[self._cloud.settings.account_id][self._cloud.settings.region]
        for bus in list(backend.event_buses.values()):
            for rule in list(bus.rules.values()):
                if rule.scheduled_expression and rule.state == "ENABLED":
                    signature = (rule.scheduled_expression, id(rule))
                    fire = _rule_firing(self._cloud, rule)
                    yield rule.arn, signature, rule.scheduled_expression, UTC, fire

    def _schedules(
        self, now: datetime
    ) -> Iterator[tuple[str, tuple[Any, ...], str, tzinfo, Callable[[datetime], None]]]:
        from moto.scheduler.models import scheduler_backends

        backend = scheduler_backends[self._cloud.settings.account_id][self._cloud.settings.region]
        for group in list(backend.schedule_groups.values()):
            for schedule in list(group.schedules.values()):
                if schedule.state != "ENABLED" or not _within(schedule, now):
                    continue
                zone = ZoneInfo(schedule.schedule_expression_timezone)
                signature = (
                    schedule.schedule_expression,
                    str(zone),
                    id(schedule),
                    schedule.last_modified_date,
                )
                fire = _schedule_firing(self._cloud, group, schedule)
                yield schedule.arn, signature, schedule.schedule_expression, zone, fire


def _within(schedule: Any, now: datetime) -> bool:
    start, end = _moment(schedule.start_date), _moment(schedule.end_date)
    return (start is None or now >= start) and (end is None or now <= end)


def _moment(value: Any) -> datetime | None:
    if value is None:
        return None
    if isinstance(value, int | float):
        return datetime.fromtimestamp(value, UTC)
    parsed = datetime.fromisoformat(value) if isinstance(value, str) else value
    aware: datetime = parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
    return aware


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


def _schedule_firing(cloud: OpenCloud, group: Any, schedule: Any) -> Callable[[datetime], None]:
    def fire(due: datetime) -> None:
        payload = schedule.target.get("Input") or "{}"
        context = {
            "<aws.scheduler.schedule-arn>": schedule.arn,
            "<aws.scheduler.scheduled-time>": iso_time(due.timestamp()),
            "<aws.scheduler.execution-id>": uuid.uuid4().hex,
            "<aws.scheduler.attempt-number>": "1",
        }
        for name, value in context.items():
            payload = payload.replace(name, value)
        delivery = Delivery(schedule.arn, schedule.target["Arn"], payload, schedule.target, SCHEDULER)
        deliver(cloud, delivery, f"scheduler:{schedule.name}")
        is_last = parse(schedule.schedule_expression).next_after(due, due) is None
        if is_last and schedule.action_after_completion == "DELETE":
            group.delete_schedule(schedule.name)

    return fire


def install(cloud: OpenCloud) -> None:
    """Start firing schedules."""
    scheduler = Scheduler(cloud)
    cloud.when_ready(lambda: cloud.background("scheduler", scheduler.run))
