"""Failures end the command with one line on standard error, and a status that scripts can test.

0 done, 1 failed, 2 called wrongly, 130 stopped with Ctrl-C, 141 nobody reads the output any more.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import io
import os
import sys
import tempfile
import traceback
import unicodedata
from collections.abc import Callable
from typing import TextIO

# Control, format (bidirectional overrides), surrogate and private characters, line and paragraph separators.
_UNSHOWN = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
_LAYOUT = frozenset("\n\t")


def plain(text: str) -> str:
    """The text with what a terminal would obey written out (`\\x1b`); line breaks and tabs stay."""
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(map(_shown, text))


def _shown(character: str) -> str:
    if character in _LAYOUT or unicodedata.category(character) not in _UNSHOWN:
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


FAILED, CALLED_WRONGLY, STOPPED, UNREAD = 1, 2, 130, 141
# An error handler of codecs, and what it writes for what the pages draw with.
_INSTEAD = "peaker_cli.instead"
_IN_ASCII = {"█": "#", "░": ".", "…": "..."}


class ControlPlaneError(Exception):
    """The wanted thing is not there; the message says what is, and what to do."""


def say(message: str) -> None:
    """One line on standard error, whatever line breaks the message has; a closed one loses it."""
    with contextlib.suppress(OSError, ValueError):
        print(f"peaker: {plain(' '.join(message.split()))}", file=sys.stderr)


def ended(command: Callable[[], object], explained: tuple[type[Exception], ...]) -> int:
    """Run the command and return its exit status; `explained` errors have a message made for people."""
    _open_closed_streams()
    _write_in_any_encoding()
    try:
        try:
            command()
        except SystemExit as error:
            sys.stdout.flush()
            return _after_exit(error)
        sys.stdout.flush()
    except KeyboardInterrupt:
        say("stopped")
        return STOPPED
    except explained as error:
        with contextlib.suppress(OSError, ValueError):
            print(f"peaker: {plain(str(error))}", file=sys.stderr)
        return FAILED
    except OSError as error:
        return _after_os_error(error)
    except Exception as error:
        say(_last_resort(error))
        return FAILED
    return 0


def _after_exit(error: SystemExit) -> int:
    """Typer ends the process itself for usage, Ctrl-C and an output that is read no more."""
    status = error.code if isinstance(error.code, int) else 0 if error.code is None else FAILED
    if isinstance(error.__context__, BrokenPipeError):
        _drop_output()
        return UNREAD
    if status == STOPPED:
        say("stopped")
    return status


def _after_os_error(error: OSError) -> int:
    if error.errno == errno.EPIPE:
        _drop_output()
        return UNREAD
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) and error.filename is None:
        _drop_output()
        say(f"the output cannot be written: {error.strerror}; free space or write elsewhere")
        return FAILED
    if error.errno is None:
        say(_last_resort(error))
        return FAILED
    place = f"{error.filename}: " if error.filename is not None else ""
    say(f"{place}{error.strerror or error}")
    return FAILED


def _last_resort(error: BaseException) -> str:
    what = f"unexpected {type(error).__name__}: {str(error)[:300]}. This is a defect of Peaker"
    try:
        number, path = tempfile.mkstemp(prefix="peaker-", suffix=".traceback")
        with open(number, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write("".join(traceback.format_exception(error)))
    except OSError as unwritten:
        place = traceback.extract_tb(error.__traceback__)[-1]
        return f"{what} at {place.filename}:{place.lineno} (no file for the traceback: {unwritten.strerror})"
    return f"{what}; report it with the traceback in {path}"


def _drop_output() -> None:
    """Drops buffered output, or the interpreter would fail on it once more at its end."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _open_closed_streams() -> None:
    """`>&-` leaves no stream at all, on which every print would fail."""
    sys.stdout = sys.stdout or _nowhere()
    sys.stderr = sys.stderr or _nowhere()


def _write_in_any_encoding() -> None:
    """Standard output is strict where the locale is not UTF-8; a bar there ends no command."""
    codecs.register_error(_INSTEAD, _instead)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors=_INSTEAD)


def _instead(error: UnicodeError) -> tuple[str, int]:
    """Returns a stand-in for characters that the encoding does not have."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_IN_ASCII.get(one, "?") for one in error.object[error.start : error.end]), error.end


def _nowhere() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")
