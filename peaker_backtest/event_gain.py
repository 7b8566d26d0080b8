"""Events that repeat, as a command line names them, and what knowing them beforehand would have come to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo

import numpy as np
from numpy.typing import NDArray
from peaker.domain.contract import misfits
from peaker.domain.forecasting.record import pinball
from peaker.domain.known_events import RepeatingEvent
from pydantic import ValidationError

from peaker_backtest.errors import BadInput, shown, shown_whole
from peaker_backtest.replay.simulation import Outcome, Scenario
from peaker_contract import load_settings
from peaker_contract.field_types import moment

Floats = NDArray[np.float64]
_EVENT = re.compile(r"(?P<name>.+)=(?P<start>[^=/]+)/(?P<minutes>[0-9]{1,5})", re.ASCII)
_FORM = "give it as NAME=START/MINUTES, e.g. 'cup match=2026-10-03T18:00Z/180', once for each day"


@dataclass(frozen=True)
class Seen:
    """One replay: what it came to, p95 one lead time before each step, and what the forecasts said of events."""

    outcome: Outcome
    lead_p95: Floats
    said: tuple[str, ...] = ()


@dataclass(frozen=True)
class EventGain:
    """What knowing the events came to, over `steps` compared steps within events, one lead time ahead.

    Coverage and loss are None where nothing was compared there. `without` is the replay that knew of none.
    """

    names: tuple[str, ...]
    learned: tuple[str, ...]
    steps: int
    coverage95: float | None
    coverage95_without: float | None
    pinball95_to_without: float | None
    without: Outcome


def parse_events(texts: Sequence[str], zone: tzinfo) -> tuple[RepeatingEvent, ...]:
    """The events that were named, each with all of its days; times without an offset are in `zone`. Raises BadInput."""
    days: dict[str, list[str]] = {}
    lengths: dict[str, str] = {}
    for text in texts:
        found = _EVENT.fullmatch(text)
        if found is None:
            raise BadInput(f"--event is {shown(text)}; {_FORM}", field="--event")
        name, minutes = found["name"].strip(), found["minutes"]
        if lengths.setdefault(name, minutes) != minutes:
            raise BadInput(
                f"--event {shown(name)} lasts {lengths[name]} and {minutes} min: give one length",
                field="--event",
            )
        days.setdefault(name, []).append(found["start"].strip())
    return tuple(_event(name, starts, lengths[name], zone) for name, starts in days.items())


def _event(name: str, starts: Sequence[str], minutes: str, zone: tzinfo) -> RepeatingEvent:
    try:
        moments = [moment(start) for start in starts]
        aware = sorted(one if one.tzinfo else one.replace(tzinfo=zone) for one in moments)
        checked = load_settings.RepeatingEvent(name=name, starts=tuple(aware), minutes=int(minutes))
    except ValidationError as error:
        raise BadInput(f"--event {shown(name)}: {shown_whole(misfits(error))}", field="--event") from None
    except (ValueError, OverflowError) as error:
        raise BadInput(f"--event {shown(name)}: {shown_whole(str(error))}", field="--event") from None
    return known(checked)


def known(event: load_settings.RepeatingEvent) -> RepeatingEvent:
    """A setting's event, as the forecast knows it."""
    return RepeatingEvent(
        event.name, tuple(start.timestamp() for start in event.starts), 60.0 * event.minutes
    )


def event_gain(scenario: Scenario, events: Sequence[RepeatingEvent], aware: Seen, unaware: Seen) -> EventGain:
    """The two replays held against each other, within these events' days of the compared steps."""
    inside = np.zeros(scenario.last, dtype=bool)
    for event in events:
        for first, end in event.steps(scenario.series):
            inside[max(0, first) : max(0, end)] = True
    inside[: scenario.compared_from] = False
    load = scenario.load()
    good = inside[scenario.first :] & np.isfinite(load) & np.isfinite(aware.lead_p95 + unaware.lead_p95)
    actual, ours, theirs = load[good], aware.lead_p95[good], unaware.lead_p95[good]
    loss = float(pinball(actual, theirs, 0.95).mean()) if len(actual) else 0.0
    return EventGain(
        names=tuple(dict.fromkeys(event.name for event in events)),
        learned=aware.said,
        steps=len(actual),
        coverage95=float((actual <= ours).mean()) if len(actual) else None,
        coverage95_without=float((actual <= theirs).mean()) if len(actual) else None,
        pinball95_to_without=float(pinball(actual, ours, 0.95).mean()) / loss if loss > 0 else None,
        without=unaware.outcome,
    )
