"""The commands: arguments in, one line of JSON out.

Exit code 0 with {"version":1,"command":...,"ok":true,...}, or 1 with {"ok":false,"error":...,"message":...}. Each room
declares its commands in its `commands` module.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import sys
from typing import Any, Callable, Dict, List, NoReturn, Optional

from peaker_host.database.commands import COMMANDS as DATABASE
from peaker_host.donor.commands import COMMANDS as DONOR
from peaker_host.health.commands import COMMANDS as HEALTH
from peaker_host.layouts.commands import COMMANDS as LAYOUTS
from peaker_host.machine.command import Context
from peaker_host.machine.errors import HostError, InvalidArgument, StateDirectoryFull
from peaker_host.machine.settings import Machine, Processes, load_settings
from peaker_host.prove.commands import COMMANDS as PROVE
from peaker_host.replicate.commands import COMMANDS as REPLICATE
from peaker_host.warm.commands import COMMANDS as WARM

COMMANDS = (*DONOR, *LAYOUTS, *WARM, *PROVE, *REPLICATE, *DATABASE, *HEALTH)
RESULT_VERSION = 1
# Systems Manager gives the first 24,000 characters of a command's output (GetCommandInvocation,
# StandardOutputContent): a longer line would lose its end and be no result at all.
MAX_CHARACTERS = 23_000
_TEXT_KEPT = 500
_NEVER_SHORTENED = frozenset({"version", "command", "ok", "error"})


def main(argv: List[str], processes: Optional[Processes] = None) -> int:
    try:
        arguments = parser().parse_args(argv)
    except InvalidArgument as error:
        return _fail(argv[0] if argv else "", "InvalidArgument", str(error), {})
    run: Callable[[Context], Dict[str, Any]] = arguments.run
    try:
        settings = load_settings(arguments.settings)
        result = run(Context(Machine.of(settings, processes or Processes()), arguments))
    except HostError as error:
        return _fail(arguments.command, type(error).__name__, str(error), error.numbers)
    except Exception as error:  # the top boundary: reported by name, never swallowed
        is_full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
        name = StateDirectoryFull.__name__ if is_full else "UnexpectedError"
        return _fail(arguments.command, name, f"{type(error).__name__}: {error}", {})
    _print({**result, "version": RESULT_VERSION, "command": arguments.command, "ok": True})
    return 0


def parser() -> argparse.ArgumentParser:
    made = _Parser(
        prog="peaker_host",
        description=__doc__,
        epilog="Example: peaker_host.pyz report_prewarm --run-id scale-out-orders-20261121T0140-9f3a",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument(
        "--settings", default=os.environ.get("PEAKER_HOST_SETTINGS", ""), help="path of host.json"
    )
    commands = made.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add_to(commands)
    return made


class _Parser(argparse.ArgumentParser):
    """Raises instead of exiting, so that a wrong argument also gives a result line."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        raise InvalidArgument(message)


def _fail(command: str, error: str, message: str, numbers: Dict[str, Any]) -> int:
    said = {"version": RESULT_VERSION, "command": command, "ok": False, "error": error, "message": message}
    _print({**numbers, **said})
    return 1


def _print(result: Dict[str, Any]) -> None:
    print(result_line(result), flush=True)


def result_line(result: Dict[str, Any], limit: int = MAX_CHARACTERS) -> str:
    """The result as one line of at most `limit` characters. The longest values are shortened first, and `shortened`
    names them: of a list the first and the last entries stay, of a text its beginning, an object is left out."""
    line = _line(result)
    kept, shortened = dict(result), []
    while len(line) > limit:
        names = [name for name in kept if name not in _NEVER_SHORTENED and name != "shortened"]
        name = max(names, key=lambda one: len(_line(kept[one])))
        value = _shorter(kept[name])
        if len(_line(value)) >= len(_line(kept[name])):
            value = None
        kept[name] = value
        if name not in shortened:
            shortened.append(name)
        kept["shortened"] = sorted(shortened)
        line = _line(kept)
    return line


def _shorter(value: Any) -> Any:
    if isinstance(value, list) and len(value) > 1:
        kept = len(value) // 2
        return value[: kept - kept // 2] + value[len(value) - kept // 2 :]
    if isinstance(value, str) and len(value) > _TEXT_KEPT + 40:
        return f"{value[:_TEXT_KEPT]}... ({len(value)} characters)"
    return None


def _line(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
