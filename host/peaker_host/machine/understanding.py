"""Answers of files, programs and servers are understood or refused by name; none ends a command unexpectedly."""

from __future__ import annotations

import contextlib
import json
import struct
from dataclasses import fields, is_dataclass
from typing import Any, Callable, Iterator, Type, Union, cast, get_args, get_origin, get_type_hints

from peaker_host.machine.errors import HostError

# What reading a text that is not as it should be may raise. RecursionError: JSON that is nested without end.
MISFITS = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError, struct.error)
_LONGEST_REASON = 200


@contextlib.contextmanager
def understood(refusal: Type[HostError], what: str, remedy: str = "") -> Iterator[None]:
    """Around (or above) what reads `what`: a misfit is raised as `refusal`, which names it and says what to do."""
    try:
        yield
    except HostError:
        raise
    except MISFITS as misfit:
        raise refusal(_sentence(what, misfit, remedy)) from misfit


def parsed_json(text: "str | bytes") -> Any:
    """Any JSON. Raises ValueError for what is none, also where it is nested too deep to read."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def decoded(kind: Any, value: Any, what: str = "it") -> Any:
    """Reads what `asdict` wrote: a dataclass, a list or tuple, an optional one, a text, a truth or a number.

    Whole numbers are from 0. Raises ValueError, TypeError or KeyError that names the field where it does not fit.
    """
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Union:
        return None if value is None else decoded(inner[0], value, what)
    if origin is not None:
        if not isinstance(value, (list, tuple)) or (
            origin is tuple and ... not in inner and len(value) != len(inner)
        ):
            raise TypeError(f"{what} is {value!r:.60}, not a list as long as it must be")
        return (tuple if origin is tuple else list)(decoded(inner[0], one, what) for one in value)
    if is_dataclass(kind):
        hints, make = get_type_hints(kind), cast(Callable[..., Any], kind)
        return make(**{one.name: decoded(hints[one.name], value[one.name], one.name) for one in fields(kind)})
    is_fit = type(value) in (int, float) if kind is float else type(value) is kind
    if not is_fit or (kind is int and not 0 <= value < 2**64):
        raise TypeError(f"{what} is {value!r:.60}, not a {kind.__name__}")
    return value


def whole(value: Any, what: str, low: int = 0, high: int = 2**64) -> int:
    """A whole number as servers print it. Raises ValueError that names `what`."""
    text = str(value)
    if isinstance(value, bool) or not (text.isascii() and text.isdigit()) or len(text) > 20:
        raise ValueError(f"{what} is {text[:60]!r}, not a whole number")
    number = int(text)
    if not low <= number <= high:
        raise ValueError(f"{what} is {number}, not from {low} to {high}")
    return number


def _sentence(what: str, misfit: BaseException, remedy: str) -> str:
    said = " ".join(str(misfit).split())[:_LONGEST_REASON]
    reason = f"{type(misfit).__name__} {said}" if isinstance(misfit, LookupError) else said
    return f"{what} cannot be read: {reason or type(misfit).__name__}{f'; {remedy}' if remedy else ''}"
