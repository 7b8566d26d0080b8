"""The Lambda runtime inside the function's process: a fork server, and the workers that it forks.

Standard library only and importable by nobody: it is run as `python -I -S lambda_runtime_worker.py`, so that a
function sees its own bundle, the packages that AWS's runtime has (boto3), and nothing of this checkout.

The fork server reads {"spawn": ...} lines from its standard input's socket, each with the worker's channel.
A worker reads one invocation per line from its channel and answers with {"log": ...} lines and one {"result": ...}.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import json
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any, BinaryIO

PRELOADED = (
    "boto3",
    "boto3.dynamodb.conditions",
    "pydantic",
    "aws_lambda_powertools",
    "aws_lambda_powertools.logging",
    "aws_lambda_powertools.metrics",
    "aws_lambda_powertools.utilities.parameters",
    "aws_lambda_powertools.utilities.parser",
)
WARM_CLIENTS = frozenset(["cloudwatch", "dynamodb", "ec2", "elbv2", "s3", "ssm", "stepfunctions"])


class ChannelWriter(io.TextIOBase):
    """Standard output of a function: whole lines, in order, ahead of the result."""

    def __init__(self, channel: BinaryIO) -> None:
        self._channel = channel
        self._pending = ""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self._pending += text
        *lines, self._pending = self._pending.split("\n")
        for line in lines:
            send(self._channel, {"log": line})
        return len(text)

    def finish_line(self) -> None:
        if self._pending:
            send(self._channel, {"log": self._pending})
            self._pending = ""


class Context:
    """What a handler gets as its second argument (the Lambda guide, "Python context object")."""

    client_context = None
    identity = None

    def __init__(self, invocation: dict[str, Any]) -> None:
        self._deadline = invocation["deadline"]
        self.aws_request_id = invocation["request_id"]
        self.function_name = os.environ["AWS_LAMBDA_FUNCTION_NAME"]
        self.function_version = os.environ["AWS_LAMBDA_FUNCTION_VERSION"]
        self.invoked_function_arn = invocation["arn"]
        self.memory_limit_in_mb = os.environ["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"]
        self.log_group_name = os.environ["AWS_LAMBDA_LOG_GROUP_NAME"]
        self.log_stream_name = os.environ["AWS_LAMBDA_LOG_STREAM_NAME"]

    def get_remaining_time_in_millis(self) -> int:
        return max(0, int((self._deadline - time.time()) * 1000))


def send(channel: BinaryIO, message: dict[str, Any]) -> None:
    channel.write(json.dumps(message).encode() + b"\n")
    channel.flush()


def error_result(error: BaseException) -> dict[str, Any]:
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename != __file__]
    return {
        "errorType": type(error).__name__,
        "errorMessage": str(error),
        "stackTrace": traceback.format_list(own),
    }


def load_handler(name: str) -> tuple[Callable[..., Any] | None, dict[str, Any] | None]:
    """The handler function, or the error that AWS reports when it cannot be had."""
    module_name, _, function_name = name.rpartition(".")
    try:
        module = importlib.import_module(module_name.replace("/", "."))
    except ImportError as error:
        return None, dict(
            error_result(error),
            errorType="Runtime.ImportModuleError",
            errorMessage=f"Unable to import module '{module_name}': {error}",
        )
    except Exception as error:  # any error of the function's own code is the function's error
        return None, error_result(error)
    handler = getattr(module, function_name, None)
    if handler is None:
        message = f"Handler '{function_name}' missing on module '{module_name}'"
        return None, {"errorType": "Runtime.HandlerNotFound", "errorMessage": message, "stackTrace": []}
    return handler, None


def invoke(handler: Callable[..., Any], invocation: dict[str, Any]) -> dict[str, Any]:
    try:
        answer = handler(invocation["event"], Context(invocation))
    except Exception as error:  # the function's error is its answer
        return {"error": error_result(error)}
    try:
        return {"value": json.dumps(answer)}
    except (TypeError, ValueError) as error:
        result = error_result(error)
        message = f"Unable to marshal response: {error}"
        return {"error": dict(result, errorType="Runtime.MarshalError", errorMessage=message)}


def run_worker(descriptor: int, spec: dict[str, Any]) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with open("/dev/null") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.environ.clear()
    os.environ.update(spec["environment"])
    time.tzset()
    os.chdir(spec["task_root"])
    channel_in = os.fdopen(descriptor, "rb")
    channel = os.fdopen(os.dup(descriptor), "wb")
    writer = ChannelWriter(channel)
    for name in ("stdout", "stderr", "__stdout__", "__stderr__"):
        setattr(sys, name, writer)
    handler, broken = load_handler(spec["handler"])
    for line in channel_in:
        invocation = json.loads(line)
        result = invoke(handler, invocation) if handler else {"error": broken}
        writer.finish_line()
        send(channel, {"result": result})
        if handler is None:
            break


def preload(names: tuple[str, ...]) -> None:
    """Import what nearly every function imports, once, before forking."""
    for name in names:
        with contextlib.suppress(ImportError):  # this bundle does without
            importlib.import_module(name)
    import boto3

    session: Any = boto3.Session()
    boto3.DEFAULT_SESSION = session
    known = session.get_available_services()  # a bundle may bring a boto3 with fewer
    for service in WARM_CLIENTS.intersection(known):  # leaves their models parsed, for every worker to share
        session.client(service, "us-east-1", aws_access_key_id="none", aws_secret_access_key="none")


def main() -> None:
    task_root, runtime_packages, *of_the_bundle = sys.argv[1:]
    sys.path[:0] = [task_root]
    sys.path.append(runtime_packages)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the workers
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is the server's to handle
    control = socket.socket(fileno=os.dup(0))
    preload((*PRELOADED, *of_the_bundle))
    gc.collect()
    gc.freeze()  # no worker looks through what all of them share
    control.sendall(b"ready\n")
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 1 << 20, 1)
        if not message:
            return
        pid = os.fork()
        if pid == 0:
            control.close()
            try:
                run_worker(descriptors[0], json.loads(message))
            finally:
                os._exit(0)
        os.close(descriptors[0])
        control.sendall(json.dumps({"pid": pid}).encode() + b"\n")


if __name__ == "__main__":
    main()
