"""What public holidays do to a load, learned from the few that lie in the kept history.

Nine weeks hold two or three holidays, no two of them alike, on other weekdays. So they are taken together, and held
against a day that comes every week: on a holiday the load goes from that of its weekday towards that of the day of
rest (a Sunday), as far as the earlier holidays went. On a Thursday that is much, on a Saturday little, on a Sunday
nothing. Where holidays are like each other but not like a day of rest, they are learned as an event that repeats.

It counts only where it would have helped:
- each earlier holiday is foretold without itself, and the error must be a fifth smaller than that of a usual day;
- the holidays must lean to the day of rest as ordinary days do not, by three standard errors.

`python -m bench.forecast --part holidays` counts how often holidays without an effect pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np

from peaker.domain.forecasting.days_ahead import LONGEST_REACH_DAYS
from peaker.domain.forecasting.series import DAY_SECONDS, Floats, LoadSeries
from peaker.domain.forecasting.windows import all_missing_is_nan

from .learning import (
    LEAST_STANDARD_ERRORS,
    MOST_ERROR_SHARE,
    Excess,
    LearnedEvent,
    RepeatingEvent,
    learned_from,
    spread_of,
)

# What holidays are called together, in reasons.
HOLIDAYS = "public holidays"
# How far towards the day of rest a holiday goes before one was seen; it weighs as much as one that was.
USUAL_LIKENESS = 0.75
# A product of two days has longer tails than a day: at three standard errors 1.9 % of pairs without an effect pass.
LEAST_STANDARD_ERRORS_AS_EVENT = 4.0
_WEEKS_AROUND = 4
_LEAST_WEEKS = 2
_LEAST_ORDINARY_DAYS = 7


@dataclass(frozen=True)
class PublicHoliday:
    """One public holiday: its name, its weekday (0 is Monday), and its local midnight in epoch seconds."""

    name: str
    weekday: int
    start_seconds: float

    def event(self) -> RepeatingEvent:
        """The day as an event; where the clock is changed on it, an hour off."""
        return RepeatingEvent(self.name, (self.start_seconds,), float(DAY_SECONDS))


@dataclass(frozen=True)
class HolidayCalendar:
    """The public holidays of one place in order of time, and the weekday that they are held against (0 is Monday).

    What comes after known_until_seconds is unknown, not free of holidays.
    """

    holidays: tuple[PublicHoliday, ...]
    day_of_rest: int
    known_until_seconds: float


@dataclass(frozen=True)
class _Lesson:
    """Earlier holidays [day, step]: how far above a usual day, and how far a day of rest would have been."""

    days: Floats
    toward: Floats

    def likeness(self, without: int | None = None) -> float:
        """How far holidays go towards the day of rest, from 0 to 1; `without` leaves one of them out."""
        kept = np.arange(len(self.days)) != (-1 if without is None else without)
        size = float((self.toward**2).sum()) / len(self.toward)
        if size <= 0:
            return 0.0
        products = float((self.days[kept] * self.toward[kept]).sum()) + USUAL_LIKENESS * size
        return min(1.0, max(0.0, products / (float((self.toward[kept] ** 2).sum()) + size)))

    def errors(self) -> Floats:
        """Each day's error when it is foretold without itself."""
        foretold = [self.likeness(without=at) * row for at, row in enumerate(self.toward)]
        return np.asarray(self.days - np.stack(foretold), dtype=float)

    def error_share(self) -> float:
        """That error over the error of a usual day."""
        usual = float(np.abs(self.days).sum())
        return float(np.abs(self.errors()).sum()) / usual if usual > 0 else 1.0

    def lean(self) -> Floats:
        """How far each day goes in the direction of the day of rest, whatever that direction is."""
        length = np.sqrt((self.toward**2).sum(axis=1))
        return np.asarray(
            (self.days * self.toward).sum(axis=1) / np.where(length > 0, length, np.inf), dtype=float
        )


def learn_holidays(
    series: LoadSeries, calendar: HolidayCalendar, events: Sequence[RepeatingEvent] = ()
) -> tuple[LearnedEvent, ...]:
    """An entry for each holiday from the series' beginning to two weeks after its end: what it is expected to do.

    Where holidays are not reckoned with, one entry that says why. Steps within `events` teach nothing.
    """
    until = series.end_seconds + LONGEST_REACH_DAYS * DAY_SECONDS
    near = [one for one in calendar.holidays if series.start_seconds <= one.start_seconds < until]
    found = _Weeks(series, replace(calendar, holidays=tuple(near)), events).learned()
    if until <= calendar.known_until_seconds:
        return found
    last = datetime.fromtimestamp(calendar.known_until_seconds, UTC)
    end = f"the deployed ones end on {last:%Y-%m-%d}: deploy again"
    return tuple(replace(one, reason=f"{one.reason}; {end}") for one in found)


def likeness_by_day(series: LoadSeries, calendar: HolidayCalendar) -> list[tuple[PublicHoliday, float]]:
    """How far each holiday of the series went from its weekday to the day of rest: 0 not at all, 1 all the way.

    Not bounded: an opposite day is below 0. Days of rest and days that cannot be compared are left out.
    """
    weeks = _Weeks(series, calendar, ())
    found = []
    for holiday in calendar.holidays:
        pair = weeks.pair(holiday)
        size = 0.0 if pair is None else float((pair[1] ** 2).sum())
        if pair is not None and size > 0:
            found.append((holiday, float((pair[0] * pair[1]).sum()) / size))
    return found


class _Weeks:
    """A load as it is around its holidays."""

    def __init__(
        self, series: LoadSeries, calendar: HolidayCalendar, events: Sequence[RepeatingEvent]
    ) -> None:
        self.series, self.calendar, self.day = series, calendar, series.steps_per_day
        self.excess = Excess(series, [*(one.event() for one in calendar.holidays), *events])
        for event in events:
            for first, end in event.steps(series):
                self.excess.deviation[max(0, first) : max(0, end)] = np.nan

    def learned(self) -> tuple[LearnedEvent, ...]:
        """By the day of rest or as an event, whichever foretells the earlier holidays better; or why by neither."""
        resting, alike = self._by_the_day_of_rest(), self._as_an_event()
        used = [one for one in (resting, alike) if one and one[0].used]
        return min(used, key=lambda one: one[0].error_share or 0.0) if used else resting

    def first(self, holiday: PublicHoliday) -> int:
        """The step that the holiday begins in; it may lie beyond the end."""
        return holiday.event().steps(self.series)[0][0]

    def move(self, weekday: int, first: int) -> Floats | None:
        """From that weekday to the day of rest, by the weeks around; None where too little was seen."""
        rest = [
            days for days in range(-7 * _WEEKS_AROUND, 7 * _WEEKS_AROUND + 1)
            if (weekday + days - self.calendar.day_of_rest) % 7 == 0
        ]  # fmt: skip
        same = [7 * week for week in range(-_WEEKS_AROUND, _WEEKS_AROUND + 1) if week]
        resting, usual = (self._median([first + days * self.day for days in one]) for one in (rest, same))
        return None if resting is None or usual is None else resting - usual

    def _median(self, firsts: Sequence[int]) -> Floats | None:
        load = self.excess.ordinary_load
        rows = [load[at : at + self.day] for at in firsts if 0 <= at <= len(load) - self.day]
        if len(rows) < _LEAST_WEEKS or (np.isfinite(np.stack(rows)).sum(axis=0) < _LEAST_WEEKS).any():
            return None
        with all_missing_is_nan():
            return np.asarray(np.nanmedian(np.stack(rows), axis=0), dtype=float)

    def pair(self, holiday: PublicHoliday) -> tuple[Floats, Floats] | None:
        """The holiday's excess, and the move to the day of rest; None where it cannot be told, or is such a day."""
        return self._pair(holiday.weekday, self.first(holiday))

    def _pair(self, weekday: int, first: int) -> tuple[Floats, Floats] | None:
        if weekday == self.calendar.day_of_rest:
            return None
        row = self.excess.of(first, first + self.day)
        move = None if row is None else self.move(weekday, first)
        if row is None or move is None:
            return None
        seen = np.isfinite(row)
        return np.where(seen, row, 0.0), np.where(seen, move, 0.0)

    def _by_the_day_of_rest(self) -> tuple[LearnedEvent, ...]:
        pairs = [pair for one in self.calendar.holidays if (pair := self.pair(one)) is not None]
        if not pairs:
            return (self._left_out("none of the kept weeks can be compared with usual days", 0),)
        lesson = _Lesson(*(np.stack(part) for part in zip(*pairs, strict=True)))
        count, share = len(pairs), lesson.error_share()
        if share > MOST_ERROR_SHARE:
            why = f"{_earlier(count)} no nearer to a day of rest than to a usual day"
            return (self._left_out(why, count, share),)
        lean, usual = float(lesson.lean().mean()) * float(np.sqrt(count)), self._usual_lean()
        if usual is None or lean < LEAST_STANDARD_ERRORS * usual:
            why = f"{_earlier(count)} lean to a day of rest no more than ordinary days may"
            return (self._left_out(why, count, share),)
        why = f"{_earlier(count)}, each foretold from days of rest with {share:.0%} of the error"
        likeness, spread = lesson.likeness(), spread_of(lesson.errors())
        return tuple(
            LearnedEvent(one.event(), count, likeness * move, spread, share, True, why, HOLIDAYS)
            for one in self.calendar.holidays
            if one.weekday != self.calendar.day_of_rest
            and (move := self.move(one.weekday, self.first(one))) is not None
        )

    def _usual_lean(self) -> float | None:
        """How far ordinary days lean to the day of rest (root mean square); None where there are few.

        The weekday of a step follows from any holiday of known weekday.
        """
        known = self.calendar.holidays[0]
        begin, rows = self.first(known), []
        for first in range(begin % self.day, len(self.excess.deviation) - self.day + 1, self.day):
            if self.excess.inside[first : first + self.day].any():
                continue
            pair = self._pair((known.weekday + (first - begin) // self.day) % 7, first)
            if pair is not None:
                rows.append(pair)
        if len(rows) < _LEAST_ORDINARY_DAYS:
            return None
        lean = _Lesson(*(np.stack(part) for part in zip(*rows, strict=True))).lean()
        return float(np.sqrt((lean**2).mean()))

    def _as_an_event(self) -> tuple[LearnedEvent, ...]:
        days = [one for one in self.calendar.holidays if one.weekday != self.calendar.day_of_rest]
        if not days:
            return ()
        together = RepeatingEvent(HOLIDAYS, tuple(one.start_seconds for one in days), float(DAY_SECONDS))
        found = learned_from(self.excess, together, LEAST_STANDARD_ERRORS_AS_EVENT)
        return tuple(replace(found, event=one.event(), told_as=HOLIDAYS) for one in days)

    def _left_out(self, why: str, days: int, share: float | None = None) -> LearnedEvent:
        nothing = RepeatingEvent(HOLIDAYS, (), float(DAY_SECONDS))
        return LearnedEvent(nothing, days, np.zeros(0), 0.0, share, False, why, HOLIDAYS)


def _earlier(count: int) -> str:
    return f"{count} earlier one{'' if count == 1 else 's'}"
