"""Lambda functions that really run: the code of the deployment package, in a warm process per function.

Per deployment package there is one fork server with the common packages imported; each function gets workers
forked from it, which stay warm. Timeouts are real seconds. Memory size and architecture are recorded, not enforced.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import logging
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import uuid
import zipfile
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from localcloud.extensions.functions.embedded_metrics import metrics_in
from localcloud.extensions.functions.workers import ForkServer, Worker, WorkerDied, WorkerTimedOut
from localcloud.extensions.injected_failures import InjectedFailure
from localcloud.hosts.state_lock import process_mark
from localcloud.iam.access import Refused
from localcloud.iam.identities import CannotAssume
from localcloud.iam.need import Need

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud

log = logging.getLogger(__name__)

WORKER = Path(__file__).with_name("lambda_runtime_worker.py")
# What AWS's Python runtime brings along; a function may rely on these without bundling them.
RUNTIME_PACKAGES = ("boto3", "botocore", "s3transfer", "jmespath", "dateutil", "urllib3", "six.py")
LARGEST_PAYLOAD_BYTES = 6 * 1024 * 1024
PRELOAD_TIMEOUT_SECONDS = 120
# More at once would only share the processors: on a busy machine periodic functions would come faster than they end,
# each in a new process that takes from the others.
QUEUED_AT_ONCE = max(4, 2 * (os.cpu_count() or 1))


@dataclass
class Outcome:
    """What an invocation gave: a payload, and the kind of error if it is one."""

    payload: bytes
    error: str | None = None


class LambdaRuntime:
    """Runs functions for one cloud. Safe to use from many threads; concurrent calls get workers of their own."""

    def __init__(self, cloud: OpenCloud) -> None:
        self._cloud = cloud
        self._root = cloud.state_dir / "lambda"
        self._logs = cloud.state_dir / "logs"
        self._fork_servers: dict[str, ForkServer] = {}
        self._idle: dict[tuple[str, str], list[Worker]] = defaultdict(list)
        self._lock = threading.Lock()
        self._starting = threading.Lock()
        self._turns = threading.Semaphore(QUEUED_AT_ONCE)
        self._closed = False
        self._logs.mkdir(parents=True, exist_ok=True)

    def invoke(self, function: Any, body: bytes | str | None) -> Outcome:
        """Run a function (moto's record of it) with a JSON payload and wait for its answer."""
        names = (f"lambda:{function.function_name}", f"lambda:{handler_name(function)}")
        fault = self._cloud.faults.take(*names)
        if fault is not None and fault.when == "before":
            return _injected(fault)
        outcome = self._run(function, json.loads(body or b"{}"))
        return outcome if fault is None else _injected(fault)

    def invoke_from_queue(self, function: Any, body: bytes | str | None) -> Outcome:
        """As `invoke`, when fewer than QUEUED_AT_ONCE others from the queue run.

        Lambda queues asynchronous invocations, and takes as many at once as the concurrency lets it (Lambda guide,
        "Invoking a Lambda function asynchronously").
        """
        with self._turns:
            return self.invoke(function, body)

    def close(self) -> None:
        """An invocation that is under way starts no process any more."""
        with self._starting, self._lock:
            self._closed = True
            servers, self._fork_servers = list(self._fork_servers.values()), {}
            self._idle.clear()
        for server in servers:
            server.close()

    def prune(self, function_name: str) -> None:
        """Drop a function's warm workers: its code or configuration has changed, or it is gone."""
        with self._lock:
            stale = [key for key in self._idle if key[0] == function_name]
            workers = [worker for key in stale for worker in self._idle.pop(key)]
        for worker in workers:
            worker.kill()

    # -- one invocation ------------------------------------------------------------------------------------

    def _run(self, function: Any, event: Any) -> Outcome:
        request_id = str(uuid.uuid4())
        key = (function.function_name, _fingerprint(function))
        lines: list[str] = []
        try:
            worker = self._take(key, function)
        except WorkerDied as error:
            return _failure("Runtime.ExitError", f"RequestId: {request_id} Error: {error}")
        except Refused as error:
            raise InjectedFailure(
                "KMSAccessDeniedException",
                "Lambda was unable to decrypt the environment variables because KMS access was denied. Please check "
                f"the function's KMS key settings. KMS Exception: AccessDeniedException KMS Message: {error.message}",
            ) from error
        except CannotAssume as error:
            raise InjectedFailure(
                "AccessDeniedException",
                f"The role defined for the function cannot be assumed by Lambda. {error}",
            ) from error
        started = time.monotonic()
        try:
            result = self._exchange(worker, function, request_id, event, lines)
        except WorkerTimedOut:
            worker.kill()
            message = (
                f"RequestId: {request_id} Error: Task timed out after {float(function.timeout):.2f} seconds"
            )
            outcome = _failure("Sandbox.Timedout", message)
        except WorkerDied:
            worker.kill()
            message = f"RequestId: {request_id} Error: Runtime exited without providing a reason"
            outcome = _failure("Runtime.ExitError", message)
        else:
            outcome = _outcome(result)
            if str(result.get("error", {}).get("errorType", "")).startswith("Runtime.ImportModule"):
                worker.kill()
            else:
                with self._lock:
                    self._idle[key].append(worker)
        self._record(function, request_id, worker.log_stream, lines, time.monotonic() - started, outcome)
        return outcome

    def _exchange(
        self, worker: Worker, function: Any, request_id: str, event: Any, lines: list[str]
    ) -> dict[str, Any]:
        deadline = time.time() + float(function.timeout)
        invocation = {
            "request_id": request_id,
            "event": event,
            "deadline": deadline,
            "arn": function.function_arn,
        }
        try:
            worker.channel.settimeout(None)
            worker.channel.sendall(json.dumps(invocation).encode() + b"\n")
            while True:
                remaining = deadline - time.time()
                if remaining <= 0:
                    raise WorkerTimedOut
                worker.channel.settimeout(remaining)
                line = worker.reader.readline()
                if not line.endswith(b"\n"):
                    raise WorkerDied
                message = json.loads(line)
                if "result" in message:
                    answer: dict[str, Any] = message["result"]
                    return answer
                lines.append(message["log"])
        except TimeoutError as error:
            raise WorkerTimedOut from error
        except (ConnectionError, BrokenPipeError, ValueError) as error:
            raise WorkerDied from error

    def _record(
        self, function: Any, request_id: str, stream: str, lines: list[str], seconds: float, outcome: Outcome
    ) -> None:
        """Write the log, and turn embedded metrics into CloudWatch's."""
        now = self._cloud.clock.now().isoformat(timespec="milliseconds")
        text = [f"{now} START RequestId: {request_id}", *lines]
        if outcome.error:
            text.append(f"[ERROR] {outcome.payload.decode(errors='replace')}")
        text.append(f"END RequestId: {request_id} Duration: {seconds * 1000:.2f} ms")
        with self._lock, (self._logs / f"{function.function_name}.log").open("a") as file:
            file.write("\n".join(text) + "\n")
        for line in lines:
            for namespace, datum in metrics_in(line, self._cloud.clock, seconds):
                _put_metric(self._cloud, namespace, datum)

    # -- processes -----------------------------------------------------------------------------------------

    def _take(self, key: tuple[str, str], function: Any) -> Worker:
        with self._lock:
            if self._idle[key]:
                return self._idle[key].pop()
        stream = f"{datetime.now(UTC):%Y/%m/%d}/[$LATEST]{uuid.uuid4().hex}"
        self._may_decrypt_environment(function)
        server = self._fork_server(function)
        environment = {**self._environment(function, stream), "LAMBDA_TASK_ROOT": str(server.task_root)}
        return server.spawn(function.handler, environment, stream)

    def _fork_server(self, function: Any) -> ForkServer:
        digest = base64.b64decode(function.code_sha_256).hex()
        with self._starting:
            if self._closed:
                raise WorkerDied("the local cloud has closed")
            server = self._fork_servers.get(digest)
            if server is None or server.process.poll() is not None:
                server = self._start_fork_server(self._unpack(digest, function.code_bytes))
                self._fork_servers[digest] = server
            return server

    def _unpack(self, digest: str, code: bytes) -> Path:
        target = self._root / digest[:16]
        if not target.exists():
            partial = self._root / f".{digest[:16]}-{uuid.uuid4().hex[:8]}"
            partial.mkdir(parents=True)
            with zipfile.ZipFile(io.BytesIO(code)) as archive:
                archive.extractall(partial)
            partial.rename(target)
        return target

    def _start_fork_server(self, task_root: Path) -> ForkServer:
        ours, theirs = socket.socketpair()
        folders = (str(task_root), str(self._runtime_packages()))
        argv = [sys.executable, "-I", "-S", str(WORKER), *folders, *self._cloud.settings.lambda_preload]
        with (self._logs / "lambda_runtime.log").open("ab") as output:
            process = subprocess.Popen(
                argv,
                stdin=theirs.fileno(),
                stdout=output,
                stderr=output,
                start_new_session=True,
                cwd=task_root,
                env={
                    "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
                    "LANG": "en_US.UTF-8",
                    "TZ": "UTC",
                    # After a kill of the server, clean-up finds it and its workers by this.
                    **process_mark(self._root.parent),
                },
            )
        theirs.close()
        reader = ours.makefile("rb")
        ours.settimeout(PRELOAD_TIMEOUT_SECONDS)
        server = ForkServer(process, ours, reader, task_root)
        if not reader.readline():
            server.close()
            raise WorkerDied(f"the fork server did not start; see {self._logs / 'lambda_runtime.log'}")
        return server

    def _runtime_packages(self) -> Path:
        """A folder with links to what AWS's runtime has, and nothing else of this environment."""
        target = self._root / "runtime"
        if not target.exists():
            import boto3

            site_packages = Path(boto3.__file__).parent.parent
            partial = self._root / f".runtime-{uuid.uuid4().hex[:8]}"
            partial.mkdir(parents=True)
            for name in RUNTIME_PACKAGES:
                (partial / name).symlink_to(site_packages / name)
            try:
                partial.rename(target)
            except OSError:
                shutil.rmtree(partial)
        return target

    def _may_decrypt_environment(self, function: Any) -> None:
        """Lambda decrypts the variables as the function's role, to which it has given a grant of their key.

        No page says that the call has kms:ViaService, so it is taken to have none. Raises Refused and CannotAssume.
        """
        if not function.environment_vars:
            return
        account = self._cloud.access.account
        key = function.kms_key_arn or f"arn:aws:kms:{account.region}:{account.account_id}:key/aws-lambda"
        context = {"aws:lambda:FunctionArn": function.function_arn}
        need = Need("kms:Decrypt", key, "key", {"kms:viaservice": None}, encryption_context=context)
        self._cloud.access.check_granted(function.role, function.function_name, "lambda.amazonaws.com", need)

    def _environment(self, function: Any, log_stream: str) -> dict[str, str]:
        region = self._cloud.settings.region
        credentials = self._cloud.access.identities.credentials(
            function.role, function.function_name, "lambda.amazonaws.com", self._cloud.clock.now()
        )
        reserved = {
            "AWS_LAMBDA_FUNCTION_NAME": function.function_name,
            "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.memory_size),
            "AWS_LAMBDA_LOG_GROUP_NAME": f"/aws/lambda/{function.function_name}",
            "AWS_LAMBDA_LOG_STREAM_NAME": log_stream,
            "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
            "AWS_EXECUTION_ENV": f"AWS_Lambda_{function.run_time}",
            "AWS_REGION": region,
            "AWS_DEFAULT_REGION": region,
            "AWS_ACCESS_KEY_ID": credentials.access_key_id,
            "AWS_SECRET_ACCESS_KEY": credentials.secret_access_key,
            "AWS_SESSION_TOKEN": str(credentials.session_token),
            "AWS_ENDPOINT_URL": self._cloud.endpoint_url,
            "AWS_ENDPOINT_URL_S3": self._cloud.host_endpoint_url,
            "LAMBDA_RUNTIME_DIR": str(WORKER.parent),
            "_HANDLER": function.handler,
            "PEAKER_CLOCK_FILE": str(self._cloud.clock.path or ""),
            "TZ": ":UTC",
        }
        base = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "LANG": "en_US.UTF-8",
            "POWERTOOLS_TRACE_DISABLED": "true",
        }
        return {**base, **{key: str(value) for key, value in function.environment_vars.items()}, **reserved}


def handler_name(function: Any) -> str:
    """The handler's last word that tells it from others: `create_volumes` of `app.create_volumes.handler`."""
    words = [word for word in str(function.handler).split(".") if word not in ("handler", "lambda_handler")]
    return words[-1] if words else str(function.handler)


def _fingerprint(function: Any) -> str:
    seen = [
        function.code_sha_256,
        function.handler,
        function.timeout,
        function.role,
        sorted(function.environment_vars.items()),
    ]
    return hashlib.sha256(json.dumps(seen, default=str).encode()).hexdigest()


def _outcome(result: dict[str, Any]) -> Outcome:
    if "error" in result:
        return Outcome(json.dumps(result["error"]).encode(), "Unhandled")
    payload = str(result["value"]).encode()
    if len(payload) > LARGEST_PAYLOAD_BYTES:
        message = (
            f"Response payload size exceeded maximum allowed payload size ({LARGEST_PAYLOAD_BYTES} bytes)."
        )
        return _failure("Function.ResponseSizeTooLarge", message)
    return Outcome(payload)


def _failure(error_type: str, message: str) -> Outcome:
    return Outcome(json.dumps({"errorType": error_type, "errorMessage": message}).encode(), "Unhandled")


def _injected(fault: Any) -> Outcome:
    if fault.error == "Lambda.Unknown":  # the process ended, and Lambda gives no type of error
        return Outcome(json.dumps({"errorMessage": fault.message}).encode(), "Unhandled")
    if fault.error.startswith("Lambda."):  # an error of the Lambda service, not of the function
        raise InjectedFailure(fault.error.removeprefix("Lambda."), fault.message)
    return _failure(fault.error, fault.message)


def _put_metric(cloud: OpenCloud, namespace: str, datum: dict[str, Any]) -> None:
    """CloudWatch reads the log later and drops what it does not take: the function has answered long before."""
    from moto.cloudwatch.models import cloudwatch_backends
    from moto.core.exceptions import ServiceException

    backend = cloudwatch_backends[cloud.settings.account_id][cloud.settings.region]
    try:
        backend.put_metric_data(namespace, [datum])
    except ServiceException as refused:
        log.warning("%s %s of a log line is dropped: %s", namespace, datum["MetricName"], refused.message)
