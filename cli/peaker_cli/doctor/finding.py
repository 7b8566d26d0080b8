"""One line of `peaker doctor`: what was looked at, the verdict, its numbers and the remedy."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

from botocore.exceptions import BotoCoreError, ClientError
from peaker.adapters.aws_errors import error_code
from peaker.domain.document.plan import Check
from peaker.domain.reading import Unknown

from peaker_cli.aws_failures import is_about_access, one_line
from peaker_contract.errors import PeakerError

FoundT = TypeVar("FoundT")
# As AWS describes a thing.
Raw = Mapping[str, Any]
_DENIED = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "AuthorizationError",
        "AuthorizationErrorException",
        "UnauthorizedOperation",
    }
)
_NAMED_ACTION = re.compile(r"not authorized to perform: ([a-z0-9-]+:[A-Za-z0-9]+)")
PERMISSION_REMEDY = "whoever runs this needs {permission} (permission set `operate`, docs/permissions.md)"


class Verdict(StrEnum):
    """`unknown` is what nobody would tell: neither good nor bad."""

    PASS = "pass"
    WARN = "warn"
    REFUSE = "refuse"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Finding:
    """`check` is unique within its area. `numbers` are those of the detail, for programs."""

    area: str
    check: str
    verdict: Verdict
    detail: str
    remedy: str = ""
    numbers: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class NotTold(Unknown):
    """AWS would not answer; `permission` is what the caller lacks, empty where it is something else."""

    permission: str = ""


class Area:
    """Makes the findings of one area; a missing answer becomes `unknown` with the permission named."""

    def __init__(self, name: str) -> None:
        self.name = name

    def passes(self, check: str, detail: str, **numbers: Any) -> Finding:
        return Finding(self.name, check, Verdict.PASS, detail, numbers=numbers)

    def warns(self, check: str, detail: str, remedy: str, **numbers: Any) -> Finding:
        return Finding(self.name, check, Verdict.WARN, detail, remedy, numbers)

    def refuses(self, check: str, detail: str, remedy: str, **numbers: Any) -> Finding:
        return Finding(self.name, check, Verdict.REFUSE, detail, remedy, numbers)

    def of_check(self, check: Check, unknowns: Sequence[Unknown] = ()) -> Finding:
        """A plan's check. Where it is unknown because of one of these, the permission that is missing is named."""
        told = [one for one in unknowns if isinstance(one, NotTold) and one.why in check.detail]
        if check.verdict == "unknown" and told:
            return self.unknown(check.name, told[0])
        verdict = Verdict(check.verdict)
        return Finding(self.name, check.name, verdict, check.detail, check.remedy, check.numbers)

    def unknown(self, check: str, why: Unknown, remedy: str = "") -> Finding:
        if isinstance(why, NotTold) and why.permission:
            remedy = PERMISSION_REMEDY.format(permission=why.permission)
        return Finding(self.name, check, Verdict.UNKNOWN, why.why, remedy)


def ask(permission: str, read: Callable[[], FoundT]) -> FoundT | NotTold:
    """Returns AWS's answer. A refusal or a lost answer is NotTold.

    Raises what is about the caller's credentials or the address: nothing else would be told either.
    """
    try:
        return read()
    except (PeakerError, ClientError, BotoCoreError) as error:
        if is_about_access(error):
            raise
        if _code(error) not in _DENIED:
            return NotTold(f"{permission}: {one_line(error)}")
        # A question may take several calls; AWS's sentence names the one that was refused.
        named = _NAMED_ACTION.search(str(error))
        return NotTold(f"{permission}: {one_line(error)}", named[1] if named else permission)


def _code(error: BaseException) -> str:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ClientError):
            return error_code(cause)
        cause = cause.__cause__
    return ""
