"""Field types are the base of settings, the forms of their texts and numbers, and the fault of a broken rule.

A pattern carries the words that say what it means: a person is told those, never the regular expression.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Annotated, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StrictInt, WithJsonSchema

Location = tuple[str | int, ...]
PATTERN_WORDS: dict[str, str] = {}


@dataclass(frozen=True)
class Fault:
    """A fault at a place of the file, with its remedy. The place is a path of keys and list indexes."""

    at: Location
    message: str

    def __str__(self) -> str:
        place = ".".join(str(part) for part in self.at)
        return f"{place}: {self.message}" if place else self.message

    def below(self, *parents: str | int) -> Fault:
        return Fault((*parents, *self.at), self.message)


class BrokenRules(ValueError):
    """Settings that are good one by one do not go together; each fault's path starts at the model."""

    def __init__(self, faults: tuple[Fault, ...]) -> None:
        super().__init__("; ".join(str(fault) for fault in faults))
        self.faults = faults


def refuse(faults: Iterable[Fault]) -> None:
    """Raises BrokenRules when there is any fault."""
    found = tuple(faults)
    if found:
        raise BrokenRules(found)


class Settings(BaseModel):
    """Base of all settings: immutable, and an unknown field or an infinite number is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def text(pattern: str, words: str, longest: int | None = None) -> Any:
    """A text of this form; `words` goes on after "must be"."""
    PATTERN_WORDS[pattern] = words
    return Field(strict=True, pattern=pattern, max_length=longest)


# Route 53 holds so many weighted records of one name and type (botocore, route53:ResourceRecordSet$Weight). It is far
# above what one source feeds, and so the bound of every kind of endpoint: a figure above it is a slip of the keyboard.
MOST_REPLICAS = 100

Number = Annotated[float, Field(strict=True)]
Port = Annotated[StrictInt, Field(ge=1, le=65535)]
SubnetId = Annotated[
    str, text(r"^subnet-([0-9a-f]{8}|[0-9a-f]{17})$", "a subnet id such as subnet-0123456789abcdef0")
]
SecurityGroupId = Annotated[
    str, text(r"^sg-([0-9a-f]{8}|[0-9a-f]{17})$", "a security group id such as sg-0123456789abcdef0")
]
ImageId = Annotated[
    str, text(r"^ami-([0-9a-f]{8}|[0-9a-f]{17})$", "an image id such as ami-0123456789abcdef0")
]
InstanceTypeName = Annotated[
    str, text(r"^[a-z][a-z0-9-]*\.[a-z0-9-]+$", "an instance type such as r7g.4xlarge", 40)
]
ZoneName = Annotated[
    str,
    text(
        r"^[a-z]{2,4}(-[a-z]+)+-[0-9]+([a-z]|-[a-z]+-[0-9]+[a-z]|-wl[0-9]+-[a-z]+-wlz-[0-9]+)$",
        "an availability zone such as us-east-1a, a local zone such as us-west-2-lax-1a or a Wavelength zone such as "
        "us-east-1-wl1-bos-wlz-1",
    ),
]
ClusterName = Annotated[
    str,
    text(
        r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$",
        "small letters, digits and single hyphens between them, with a letter first, such as orders",
        20,
    ),
]
EnvironmentName = Annotated[
    str,
    text(r"^[a-z][a-z0-9]{0,9}$", "1 to 10 small letters and digits with a letter first, such as prod"),
]
RegionName = Annotated[str, text(r"^[a-z]{2,4}(-[a-z]+)+-[0-9]+$", "a region such as us-east-1", 30)]
# CDK's own; of its bootstrap's names, which hold it, a bucket's are the narrowest (CDK guide, "Customize AWS CDK
# bootstrapping").
DEFAULT_BOOTSTRAP_QUALIFIER = "hnb659fds"
BootstrapQualifier = Annotated[
    str, text(r"^[a-z0-9-]{1,10}$", "1 to 10 small letters, digits and hyphens, such as acme", 10)
]
# CloudWatch: printable ASCII, at least one character that is no blank (botocore, cloudwatch:PutMetricData).
MetricText = Annotated[
    str,
    text(
        r"^[!-9;-~]([ -~]*[!-~])?$",
        "printable ASCII that starts with no colon and neither starts nor ends with a blank",
    ),
]
Remark = Annotated[
    str,
    text(r"^\S([^\x00-\x1f\x7f]*\S)?$", "one line of text that neither starts nor ends with a blank"),
]


def zone_name(name: str) -> str:
    """The name of an IANA zone. Raises ValueError that names the nearest."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        import difflib  # the functions never come here

        near = difflib.get_close_matches(
            name, sorted(one for one in available_timezones() if "/" in one), n=1
        )
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ValueError(f"must be an IANA zone such as Europe/London, got {name!r}{hint}") from None
    return name


TimeZoneName = Annotated[str, Field(strict=True, min_length=1, max_length=64), AfterValidator(zone_name)]

_MOMENT = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?) ?(Z|z|[+-]\d\d(?::?\d\d)?)?", re.ASCII
)
_YEARS = range(2000, 2101)
_MOMENT_FORM = "must be a date and a time such as 2026-11-27T06:00 or 2026-11-27T06:00+01:00"


def moment(given: object) -> datetime:
    """A time as people write it, with or without an offset. Raises ValueError that says which form is right."""
    if isinstance(given, datetime):
        moment = given
    else:
        found = _MOMENT.fullmatch(given) if isinstance(given, str) else None
        if found is None:
            kind = ": the time is missing" if type(given) is date or _is_a_day(given) else ""
            raise ValueError(f"{_MOMENT_FORM}{kind}")
        try:
            moment = datetime.fromisoformat(f"{found[1]}T{found[2]}{(found[3] or '').upper()}")
        except ValueError as error:
            raise ValueError(f"is in no calendar ({error}); it {_MOMENT_FORM}") from None
    if moment.year not in _YEARS:
        raise ValueError(f"must be in the years {_YEARS.start} to {_YEARS.stop - 1}")
    return moment


def _is_a_day(written: object) -> bool:
    return isinstance(written, str) and re.fullmatch(r"\d{4}-\d\d?-\d\d?", written, re.ASCII) is not None


def _in_utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError(f"must have an offset such as Z or +01:00, got {moment:%Y-%m-%dT%H:%M}")
    return moment.astimezone(UTC)


Moment = Annotated[
    datetime,
    BeforeValidator(moment),
    AfterValidator(_in_utc),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": r"^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d(\.\d{1,6})?)? ?(Z|z|[+-]\d\d(:?\d\d)?)?$",
            "patternErrorMessage": _MOMENT_FORM,
        }
    ),
]
