"""What settings are made of: their base, the forms of their texts and numbers, and a rule that is broken.

A pattern carries the words that say what it means: a person is told those, never the regular expression.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictInt, WithJsonSchema

Location = tuple[str | int, ...]
PATTERN_WORDS: dict[str, str] = {}


@dataclass(frozen=True)
class Fault:
    """What is wrong at a place of the file, with its remedy. The place is a path of keys and list indexes."""

    at: Location
    message: str

    def below(self, *parents: str | int) -> Fault:
        return Fault((*parents, *self.at), self.message)


class BrokenRules(ValueError):
    """Settings that are good one by one do not go together; each fault's path starts at the model."""

    def __init__(self, faults: tuple[Fault, ...]) -> None:
        super().__init__("; ".join(fault.message for fault in faults))
        self.faults = faults


def refuse(faults: Iterable[Fault]) -> None:
    """Raises BrokenRules when there is any fault."""
    found = tuple(faults)
    if found:
        raise BrokenRules(found)


@dataclass(frozen=True)
class UnclearWord:
    """An unquoted word that YAML 1.1, YAML 1.2 and people read differently, such as `no` or `012`.

    It is a value of its own, so that the field that it stands in is blamed; a moment is the only field that takes one.
    """

    text: str
    kind: str
    remedy: str

    def __repr__(self) -> str:
        return self.text


class Settings(BaseModel):
    """Base of all settings: immutable, and an unknown field or an infinite number is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def text(pattern: str, words: str, longest: int | None = None) -> Any:
    """A text of this form; `words` goes on after "must be"."""
    PATTERN_WORDS[pattern] = words
    return Field(strict=True, pattern=pattern, max_length=longest)


Number = Annotated[float, Field(strict=True)]
Port = Annotated[StrictInt, Field(ge=1, le=65535)]
SubnetId = Annotated[
    str, text(r"^subnet-([0-9a-f]{8}|[0-9a-f]{17})$", "a subnet id such as subnet-0123456789abcdef0")
]
SecurityGroupId = Annotated[
    str, text(r"^sg-([0-9a-f]{8}|[0-9a-f]{17})$", "a security group id such as sg-0123456789abcdef0")
]
VpcId = Annotated[str, text(r"^vpc-([0-9a-f]{8}|[0-9a-f]{17})$", "a VPC id such as vpc-0123456789abcdef0")]
ImageId = Annotated[
    str, text(r"^ami-([0-9a-f]{8}|[0-9a-f]{17})$", "an image id such as ami-0123456789abcdef0")
]
ZoneName = Annotated[
    str,
    text(
        r"^[a-z]{2,4}(-[a-z]+)+-[0-9]+([a-z]|-[a-z]+-[0-9]+[a-z]|-wl[0-9]+-[a-z]+-wlz-[0-9]+)$",
        "an availability zone such as us-east-1a, a local zone such as us-west-2-lax-1a or a Wavelength zone such as "
        "us-east-1-wl1-bos-wlz-1",
    ),
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

_MOMENT = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?) ?(Z|z|[+-]\d\d(?::?\d\d)?)?", re.ASCII
)
_YEARS = range(2000, 2101)
_MOMENT_FORM = "must be a date and a time such as 2026-11-27T06:00 or 2026-11-27T06:00+01:00"


def _moment(given: object) -> datetime:
    if isinstance(given, datetime):
        moment = given
    else:
        written = given.text if isinstance(given, UnclearWord) else given
        found = _MOMENT.fullmatch(written) if isinstance(written, str) else None
        if found is None:
            kind = ": the time is missing" if type(given) is date or _is_a_day(written) else ""
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


Moment = Annotated[
    datetime,
    BeforeValidator(_moment),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": r"^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d(\.\d{1,6})?)? ?(Z|z|[+-]\d\d(:?\d\d)?)?$",
            "patternErrorMessage": _MOMENT_FORM,
        }
    ),
]
