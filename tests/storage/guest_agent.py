"""In the storage machine: does what the tests ask over the second serial line, one line of JSON each way.

{"program": ...} is for the shell, {"call": [module, argument, ...]} for a `main` of Python, which a fork of this
process runs: a start of Python and its imports take seconds without acceleration.
"""

import base64
import contextlib
import io
import json
import os
import subprocess
import sys
import termios
import traceback
import tty

sys.path[:0] = ["/opt/peaker", "/opt/peaker/tests/storage"]

import guest_order  # noqa: E402
import guest_workload  # noqa: E402
from peaker_host import cli  # noqa: E402
from peaker_host.donor import prepare_donor  # noqa: E402, F401
from peaker_host.layouts import assemble, discover  # noqa: E402, F401
from peaker_host.prove import verify  # noqa: E402, F401
from peaker_host.warm import control, engine  # noqa: E402, F401

MAINS = {"peaker": cli.main, "order": guest_order.main, "workload": guest_workload.main}


def main() -> None:
    """Until the machine is switched off."""
    with open("/dev/ttyS1", "r+b", buffering=0) as line:
        tty.setraw(line.fileno(), termios.TCSANOW)
        line.write(b"ready\n")
        pending = b""
        while True:
            pending += line.read(65536) or b""
            while b"\n" in pending:
                request, _, pending = pending.partition(b"\n")
                line.write(json.dumps(answer(json.loads(request))).encode() + b"\n")


def answer(request: dict) -> dict:  # type: ignore[type-arg]
    """Do it to its end."""
    if "call" in request:
        return called(request["call"], request["settings"])
    program = base64.b64decode(request["program"]).decode()
    done = subprocess.run(
        ["/bin/bash", "-c", program], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    return {"code": done.returncode, "out": done.stdout[-200000:], "err": done.stderr[-20000:]}


def called(call: list, settings: str) -> dict:  # type: ignore[type-arg]
    """A `main` in a process of its own, which has everything imported."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        out, err, code = io.StringIO(), io.StringIO(), 1
        try:
            os.environ["PEAKER_HOST_SETTINGS"] = settings
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = MAINS[call[0]](call[1:]) or 0
        except BaseException:
            traceback.print_exc(file=err)
        with os.fdopen(writer, "w") as pipe:
            pipe.write(json.dumps({"code": code, "out": out.getvalue(), "err": err.getvalue()[-20000:]}))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    found: dict = json.loads(said)  # type: ignore[type-arg]
    return found


if __name__ == "__main__":
    main()
