"""The `peaker` and `aws` commands without the second that each takes to import: they fork from a process that has.

`start()` gives the path of a program; `PROGRAM peaker status orders` runs the command with the caller's folder,
environment and files, as an own process. Signals are not passed on: a test that sends one starts the command itself.
"""

from __future__ import annotations

import atexit
import functools
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parents[2]
# Where this checkout's packages are.
CODE = (".", "functions", "host", "cli", "packages/localcloud")
# The service models that the commands read; reading one takes up to 0.3 s.
SERVICES = ("cloudwatch", "dynamodb", "ec2", "events", "lambda", "sqs", "ssm", "stepfunctions", "sts")

_CALLER = """\
#!{python} -ISE
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as call:
    call.connect({address!r})
    said = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(call, [len(said).to_bytes(8, "big")], [0, 1, 2])
    call.sendall(said)
    status = call.recv(1)
sys.exit(status[0] if status else "ready_commands: the command ended without a status")
"""


@functools.cache
def start() -> str:
    """The path of the program; the process behind it ends with this one."""
    folder = tempfile.TemporaryDirectory(prefix="peaker-commands-")
    atexit.register(folder.cleanup)
    address = str(Path(folder.name, "socket"))
    program = Path(folder.name, "run")
    program.write_text(_CALLER.format(python=sys.executable, address=address))
    program.chmod(0o755)
    paths = [str(ROOT / part) for part in CODE]
    server = subprocess.Popen(
        [sys.executable, "-c", "from tests.support.ready_commands import serve as s; s()", address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )
    assert server.stdin is not None
    assert server.stdout is not None
    atexit.register(server.wait)
    atexit.register(server.stdin.close)
    assert server.stdout.readline() == b"ready\n", "ready_commands did not start"
    return str(program)


def serve() -> None:
    """Fork for each call at the address that is the argument, until the standard input ends."""
    address = sys.argv[1]
    _prepare()
    awscli_sets = {name: value for name, value in os.environ.items() if name == "AWS_DATA_PATH"}
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(16)
        os.write(1, b"ready\n")
        while True:
            asked, _, _ = select.select([listener, sys.stdin], [], [])
            if listener not in asked:
                return
            call, _ = listener.accept()
            with call:
                if os.fork() == 0:
                    listener.close()
                    _answer(call, awscli_sets)


def _prepare() -> None:
    """Import what the commands import and read the service models: every fork has them then."""
    from botocore.loaders import JSONFileLoader, Loader
    from peaker_cli.app import COMMANDS

    for module in (*COMMANDS.values(), "deployment"):
        importlib.import_module(f"peaker_cli.{module}")
    importlib.import_module("awscli.clidriver")
    read = JSONFileLoader.load_file
    remembered = functools.cache(lambda path: read(JSONFileLoader(), path))
    JSONFileLoader.load_file = lambda _, path: remembered(path)  # type: ignore[method-assign]
    loader = Loader()
    loader.load_data("endpoints")
    for service in SERVICES:
        for kind in ("service-2", "endpoint-rule-set-1", "paginators-1"):
            loader.load_service_model(service, kind)


def _answer(call: socket.socket, awscli_sets: dict[str, str]) -> NoReturn:
    """Run the command that the call asks for and send its exit status."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    size, descriptors, _, _ = socket.recv_fds(call, 8, 3)
    words, folder, environment = json.loads(_received(call, int.from_bytes(size, "big")))
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment | awscli_sets)
    status = _run(words)
    sys.stdout.flush()
    sys.stderr.flush()
    call.sendall(bytes([status]))
    os._exit(status)


def _received(call: socket.socket, size: int) -> bytes:
    said = b""
    while len(said) < size:
        part = call.recv(size - len(said))
        assert part, "the caller hung up"
        said += part
    return said


def _run(words: list[str]) -> int:
    """The status that the command ends with."""
    name, *arguments = words
    sys.argv = [name, *arguments]
    try:
        return _ended_with(_main(name)(arguments))
    except SystemExit as ended:
        return _ended_with(ended.code)
    except BaseException:
        traceback.print_exc()
        return 1


def _main(name: str) -> Any:
    if name == "aws":
        return importlib.import_module("awscli.clidriver").create_clidriver().main
    assert name == "peaker", f"ready_commands has aws and peaker, not {name}"
    return lambda _: importlib.import_module("peaker_cli.app").main()


def _ended_with(code: object) -> int:
    if isinstance(code, str):
        print(code, file=sys.stderr)
        return 1
    return code % 256 if isinstance(code, int) else 0
