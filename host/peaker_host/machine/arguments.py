"""Converters parse the text of a command's options. Each raises argparse.ArgumentTypeError with the fault."""

from __future__ import annotations

import argparse
import os
import re
from typing import Any, Callable, List

from peaker_host.machine.command_gate import FencingToken
from peaker_host.machine.errors import InvalidArgument

_RUN_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]{0,79}")
_HOST_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z.:-]{0,252}")
_FENCING_TOKEN = re.compile(r"([0-9A-Za-z/_-]{1,120}):([0-9]{1,15})\.([0-9]{1,9})")
_MAX_SERVER_ID = 2**32 - 1


def typed(check: Callable[[str], Any], what: str) -> Callable[[str], Any]:
    """A converter from one that raises ValueError or InvalidArgument; `what` is what the text must be."""

    def convert(text: str) -> Any:
        try:
            return check(text)
        except (ValueError, OverflowError, InvalidArgument) as error:
            raise argparse.ArgumentTypeError(f"must be {what}, not {text!r}") from error

    return convert


def _within(convert: Callable[[str], Any], low: float, high: float) -> Callable[[str], Any]:
    def check(text: str) -> Any:
        value = convert(text)
        if not low <= value <= high:
            raise ValueError(text)
        return value

    return check


def _matching(pattern: "re.Pattern[str]") -> Callable[[str], str]:
    def check(text: str) -> str:
        if not pattern.fullmatch(text):
            raise ValueError(text)
        return text

    return check


def _absolute_paths(text: str) -> List[str]:
    paths = text.split(",")
    if not all(os.path.isabs(path) for path in paths):
        raise ValueError(text)
    return paths


def _absolute_or_empty(text: str) -> str:
    if text and not os.path.isabs(text):
        raise ValueError(text)
    return text


def _fencing_token(text: str) -> FencingToken:
    found = _FENCING_TOKEN.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return FencingToken(found[1], (int(found[2]), int(found[3])))


fencing_token = typed(_fencing_token, "a ledger's name, a colon, and two numbers with a point between")
run_id = typed(_matching(_RUN_ID), "a run id of letters, digits and hyphens, at most 80")
host_name = typed(_matching(_HOST_NAME), "a host name or address")
absolute_paths = typed(_absolute_paths, "absolute paths, separated by commas")
path_or_nothing = typed(_absolute_or_empty, "an absolute path, or empty")
positive_int = typed(_within(int, 1, 10**9), "a whole number from 1")
count = typed(_within(int, 0, 10**9), "a whole number from 0")
epoch_seconds = typed(_within(int, 1, 10**12), "a time in seconds since 1970")
percent = typed(_within(int, 1, 100), "a whole number from 1 to 100")
port = typed(_within(int, 0, 65535), "a port")
server_id = typed(_within(int, 1, _MAX_SERVER_ID), "a server id from 1 to 4294967295")
positive = typed(_within(float, 1e-9, 1e12), "a number above 0")
not_negative = typed(_within(float, 0, 1e9), "a number from 0")
