"""Documents of others are decoded or refused by name: a misfit never becomes an error that nobody listed. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from pydantic import BaseModel, ConfigDict, ValidationError

# What reading a text or an object that is not as it should be may raise. RecursionError: JSON nested without end.
MISFITS = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
_LONGEST_REASON = 300


@contextmanager
def understood(refusal: type[Exception], what: str) -> Iterator[None]:
    """Raises a misfit in the block as `refusal`, which names `what`. Domain errors pass."""
    try:
        yield
    except MISFITS as misfit:
        text = misfits(misfit) if isinstance(misfit, ValidationError) else str(misfit)
        said = " ".join(text.split())[:_LONGEST_REASON]
        reason = f"{said} is missing" if isinstance(misfit, KeyError) else said or type(misfit).__name__
        raise refusal(f"{what} cannot be read: {reason}") from misfit


def parsed_json(text: Any) -> Any:
    """Any JSON. Raises ValueError for what is none, and for what is nested too deep to read."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def measured_json(text: str) -> Any:
    """JSON whose numbers are numbers: NaN, Infinity and what is too large for a double raise ValueError too."""
    try:
        return json.loads(text, parse_constant=_no_number, parse_float=_finite)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def text_in(item: Any, name: str) -> str:
    """A text that an object must have. Raises KeyError or TypeError that name it."""
    value = item[name]
    if not isinstance(value, str):
        raise TypeError(f"{name} is no text")
    return value


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number")


def _finite(word: str) -> float:
    number = float(word)
    if not math.isfinite(number):
        raise ValueError(f"{word[:40]} is beyond any number")
    return number


_MOST_NAMED, _LONGEST_NAME = 20, 120


class Frozen(BaseModel):
    """Base of our documents: immutable."""

    model_config = ConfigDict(frozen=True)


class Contract(Frozen):
    """Base of documents that cross a boundary of ours: an unknown field is an error."""

    model_config = ConfigDict(extra="forbid")


def misfits(error: ValidationError) -> str:
    """`field.inner: what is wrong; ...`, without the address of pydantic's manual."""
    found = [
        f"{'.'.join(str(part)[:_LONGEST_NAME] for part in one['loc']) or 'document'}: {one['msg'][:_LONGEST_NAME]}"
        for one in error.errors()
    ]
    more = [f"and {len(found) - _MOST_NAMED} more"] if len(found) > _MOST_NAMED else []
    return "; ".join([*found[:_MOST_NAMED], *more])
