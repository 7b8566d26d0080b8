"""Entry point of the zip application and of `python3 -m peaker_host`.

Older Pythons than the rest of the package needs must be able to read this file: it says so.
"""

import json
import sys

_OLDEST = (3, 9)


def main() -> int:
    if sys.version_info[:2] < _OLDEST:
        print(json.dumps(_too_old()))
        return 1
    from peaker_host import cli

    return cli.main(sys.argv[1:])


def _too_old() -> "dict[str, object]":
    found = "%d.%d.%d (%s)" % (*sys.version_info[:3], sys.executable)
    return {
        "version": 1,
        "command": sys.argv[1] if len(sys.argv) > 1 else "",
        "ok": False,
        "error": "PythonTooOld",
        "message": "python3 on the agent's PATH is %s; %d.%d or newer is needed" % (found, *_OLDEST),
    }


if __name__ == "__main__":
    sys.exit(main())
