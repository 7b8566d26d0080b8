"""Importing this makes Ctrl-C one line on standard error instead of a traceback, while modules are being loaded too."""

from __future__ import annotations

import sys
from types import TracebackType

_before = sys.excepthook


def _in_one_line(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        print("peaker: stopped", file=sys.stderr)
    else:
        _before(kind, error, trace)


sys.excepthook = _in_one_line
