"""The local cloud's control plane: moto behind our own listener, with the extensions that make it act.

    with LocalCloud(dataplane=None, state_dir=tmp_path) as cloud:
        boto3.client("ec2", endpoint_url=cloud.endpoint_url)

moto keeps its state in the process, so one LocalCloud may be open per process at a time.
"""

from __future__ import annotations

import errno
import importlib
import importlib.metadata
import logging
import socket
import threading
import time
from functools import partial
from types import TracebackType
from typing import ClassVar

from werkzeug.http import http_date
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

from localcloud import plugins
from localcloud.clock import CloudClock
from localcloud.extensions import injected_failures
from localcloud.open_cloud import LOOPBACK, LocalCloudError, OpenCloud

log = logging.getLogger(__name__)

# Private names of these two are replaced.
VERSIONS = {"moto": "5.2.5", "jsonata-python": "0.7.1"}
IP_FREEBIND = 15  # linux/in.h; lets us listen on the hosts' bridge address before the bridge exists
RESOURCE_EXTENSIONS = (
    "ec2.instance_actions",
    "ec2.images",
    "ec2.ebs_actions",
    "kms",
    "s3",
    "policy_simulator",
    "logs",
    "ssm.command_actions",
    "ssm.parameters",
    "elbv2.balancer_actions",
    "dynamodb",
    "route53.records",
    "quotas",
)
CONTROL_EXTENSIONS = (
    "shorter_ways",
    "moto_clock",
    "cloudwatch.metrics",
    "events.eventbridge",
    "stepfunctions.executions",
    "stepfunctions.histories",
    "stepfunctions.listing",
    "stepfunctions.redrives",
    "functions.invocations",
    "cloudwatch.alarms",
    "events.schedules",
    "sns",
    "sqs",
    "cloudformation.stack_actions",
)

_THREADS_END_WITHIN_SECONDS = 15.0


class LocalCloud(OpenCloud):
    """A control plane on 127.0.0.1 (and `extra_addresses`) in front of a data plane.

    Use it as a context manager; leaving it stops every thread and worker, puts moto back and closes the data plane.
    """

    _open: ClassVar[LocalCloud | None] = None

    _servers: tuple[BaseWSGIServer, ...] = ()
    _serving = False

    def __enter__(self) -> LocalCloud:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Reset moto, install the extensions and listen. Raises LocalCloudError when it cannot."""
        if LocalCloud._open is not None:
            raise LocalCloudError("Another LocalCloud is open in this process: close it first.")
        LocalCloud._open = self
        try:
            _check_versions()
            self._log_to_files()
            _reset_moto()
            self._listen()
            self._install_extensions()
            for callback in self._ready:
                callback()
            for server in self._servers:
                self.background(f"listener-{server.host}", partial(server.serve_forever, 0.05))
            self._serving = True
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Stop listening, stop threads and workers, restore moto, close the data plane. Safe to call twice."""
        if self.closing.is_set():
            return
        self.closing.set()
        self.clock.wake()
        for server in self._servers:
            if self._serving:  # shutdown() of a server that never served waits for ever
                server.shutdown()
            server.server_close()
        for client in self._clients.values():
            client.close()
        failures = self._run_callbacks()
        if self.dataplane is not None:
            self.dataplane.close()
        self._await_threads()
        _reset_moto()
        if LocalCloud._open is self:
            LocalCloud._open = None
        if failures:
            raise LocalCloudError(f"The local cloud closed with errors: {failures}")

    def _await_threads(self) -> None:
        """Together, not one after the other: on a busy machine many of them may be in the middle of a call."""
        limit = time.monotonic() + _THREADS_END_WITHIN_SECONDS
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(timeout=max(0.0, limit - time.monotonic()))

    def _run_callbacks(self) -> list[str]:
        failures = []
        while self._callbacks:
            callback = self._callbacks.pop()
            try:
                callback()
            except Exception as error:  # the others must still run; reported when all have
                log.exception("closing failed")
                failures.append(repr(error))
        return failures

    def _log_to_files(self) -> None:
        """moto and werkzeug are talkative: their logs go to files of the state directory."""
        folder = self.state_dir / "logs"
        folder.mkdir(parents=True, exist_ok=True)
        for name, level in (("moto", logging.WARNING), ("werkzeug", logging.INFO)):
            logger = logging.getLogger(name)
            handler = logging.FileHandler(folder / f"{name}.log")
            handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
            before = (logger.level, logger.propagate)
            logger.addHandler(handler)
            logger.setLevel(level)
            logger.propagate = False
            self.on_close(lambda args=(logger, handler, before): _restore_logger(*args))  # type: ignore[misc]

    def _install_extensions(self) -> None:
        injected_failures.install(self)
        for name in (*CONTROL_EXTENSIONS, *RESOURCE_EXTENSIONS):
            importlib.import_module(f"localcloud.extensions.{name}").install(self)
        plugins.install(self, self.settings.plugins)

    def _listen(self) -> None:
        from localcloud.moto_app import application

        app = application(self)
        for address in self._addresses:
            with _bound_socket(address, self.port) as listener:  # the server works on a duplicate
                self.port = listener.getsockname()[1]
                server = make_server(
                    address,
                    self.port,
                    app,
                    threaded=True,
                    request_handler=_handler_on(self.clock),
                    fd=listener.fileno(),
                )
            server.daemon_threads = True  # type: ignore[attr-defined]
            self._servers += (server,)


def _check_versions() -> None:
    for name, version in VERSIONS.items():
        found = importlib.metadata.version(name)
        if found != version:
            raise LocalCloudError(f"{name} {found} is installed, {version} is needed: run `make setup`.")


def _handler_on(clock: CloudClock) -> type[WSGIRequestHandler]:
    """Answers carry the cloud's time as their date, as AWS's carry AWS's."""

    class Handler(WSGIRequestHandler):
        protocol_version = "HTTP/1.0"

        def date_time_string(self, timestamp: float | None = None) -> str:
            return http_date(clock.epoch() if timestamp is None else timestamp)

    return Handler


def _bound_socket(address: str, port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if address != LOOPBACK:
        listener.setsockopt(socket.IPPROTO_IP, IP_FREEBIND, 1)
    try:
        listener.bind((address, port))
        listener.listen(256)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise LocalCloudError(
                f"Port {port} on {address} is taken. Stop what uses it (ss -ltnp 'sport = :{port}') "
                "or choose another with --port."
            ) from error
        raise LocalCloudError(f"Cannot listen on {address}:{port}: {error.strerror}") from error
    return listener


def _restore_logger(logger: logging.Logger, handler: logging.Handler, before: tuple[int, bool]) -> None:
    logger.removeHandler(handler)
    handler.close()
    logger.setLevel(before[0])
    logger.propagate = before[1]


def _reset_moto() -> None:
    from moto.core.base_backend import BackendDict

    BackendDict.reset()
