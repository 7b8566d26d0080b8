"""The dates. The library takes 0.8 s and 43 MB the first time, so it is imported where it is asked."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, time, tzinfo
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holidays import HolidayBase

# Names are told in English where the library has them so, and in the country's language where it has not.
_LANGUAGE = "en_US"
_OBSERVED = " (observed)"
_SUNDAY, _FRIDAY = 6, 4


class UnknownPlace(ValueError):
    """A country, a subdivision or a holiday that the library does not know.

    `field` is `country`, `subdivision` or `ordinary`; the message names the nearest that are known.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True)
class Place:
    """An ISO 3166 country, such as DE, and where it matters a subdivision as the library has it, such as BY."""

    country: str
    subdivision: str | None = None

    def __str__(self) -> str:
        return self.country if self.subdivision is None else f"{self.country}-{self.subdivision}"


@dataclass(frozen=True)
class Holiday:
    """One public holiday; `midnight` is the beginning of the day, with the offset of its place on that day."""

    name: str
    midnight: datetime


def public_holidays(
    place: Place, zone: tzinfo, years: Iterable[int], ordinary: Sequence[str] = ()
) -> list[Holiday]:
    """The place's public holidays of these years in order, without those whose names are `ordinary`.

    Observed days count beside the days themselves. Two holidays on one day are one, with both names; it is left out
    where both are ordinary. Raises UnknownPlace.
    """
    return [
        Holiday(names, datetime.combine(day, time(), zone))
        for day, names in sorted(_calendar(place, years).items())
        if not all(name in ordinary for name in _names(names))
    ]


def check_place(place: Place, ordinary: Sequence[str], years: Iterable[int]) -> None:
    """Raises UnknownPlace; also for an ordinary name that no holiday of these years has."""
    known = sorted({name for names in _calendar(place, years).values() for name in _names(names)})
    for name in ordinary:
        if name not in known:
            near = ", ".join(difflib.get_close_matches(name, known, n=3, cutoff=0.3) or known[:40])
            raise UnknownPlace("ordinary", f"{name!r} is no public holiday of {place}; there are {near}")


def _names(names: str) -> list[str]:
    """Of a day that may be several, observed or not."""
    return [name.removesuffix(_OBSERVED) for name in names.split("; ")]


def weekday_of_rest(place: Place) -> int:
    """Sunday (6) where it is part of the weekend, else Friday (4). Raises UnknownPlace."""
    return _SUNDAY if _SUNDAY in _calendar(place, ()).weekend else _FRIDAY


def _calendar(place: Place, years: Iterable[int]) -> HolidayBase:
    from holidays import country_holidays, list_supported_countries

    countries = list_supported_countries()
    # The library takes names and three letters as well; the settings have the two.
    if len(place.country) != 2 or place.country not in countries:
        raise UnknownPlace("country", _unknown_country(place.country, sorted(countries)))
    parts = countries[place.country]
    if place.subdivision is not None and place.subdivision not in parts:
        raise UnknownPlace("subdivision", _unknown_part(place.country, place.subdivision, parts))
    return country_holidays(place.country, subdiv=place.subdivision, years=years, language=_LANGUAGE)


def _unknown_country(given: str, known: Sequence[str]) -> str:
    from holidays import registry

    names = {entry[0]: entry[1] for entry in registry.COUNTRIES.values()}
    by_name = difflib.get_close_matches(given.title(), list(names), n=2)
    near = [f"{names[name]} ({name})" for name in by_name]
    near += [
        code for code in difflib.get_close_matches(given.upper(), known, n=3, cutoff=0.4) if code not in near
    ]
    hint = f"; did you mean {', '.join(near)}?" if near else ""
    return f"must be a country by its two letters, such as DE, got {given!r}{hint}"


def _unknown_part(country: str, given: str, known: Sequence[str]) -> str:
    if not known:
        return f"must be left out: {country} has the same holidays everywhere, got {given!r}"
    near = difflib.get_close_matches(given.upper(), known, n=3, cutoff=0.4)
    listed = ", ".join(known[:60])
    hint = f"; did you mean {', '.join(near)}?" if near else ""
    return f"must be one of {listed}, got {given!r}{hint}"
