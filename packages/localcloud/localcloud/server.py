"""The local cloud's control plane: moto behind our own listener, with the extensions that make it act.

    with LocalCloud(dataplane=None, state_dir=tmp_path) as cloud:
        boto3.client("ec2", endpoint_url=cloud.endpoint_url)

moto keeps its state in the process, so one LocalCloud may be open per process at a time. Everything that is
changed in moto while it is open goes through `patch` and is put back when it closes.
"""

from __future__ import annotations

import errno
import importlib
import logging
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar

import boto3
from botocore.config import Config
from werkzeug.http import http_date
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

from localcloud import faults, plugins, selftest
from localcloud.clock import CloudClock
from localcloud.dataplane import DataPlane
from localcloud.extensions.cloudwatch.metrics import MetricStore
from localcloud.extensions.elbv2.lateness import BalancerLateness
from localcloud.extensions.events.deliveries import DeliveriesAtWork
from localcloud.extensions.pricing import LocalPriceList
from localcloud.extensions.quotas import LocalQuotas
from localcloud.faults import Faults
from localcloud.iam.access import Access
from localcloud.iam.account import Account
from localcloud.iam.identities import ADMINISTRATOR_KEY, Credentials

log = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
IP_FREEBIND = 15  # linux/in.h; lets us listen on the hosts' bridge address before the bridge exists
RESOURCE_EXTENSIONS = (
    "ec2.instances",
    "ec2.images",
    "ec2.ebs",
    "kms",
    "logs",
    "ssm.commands",
    "ssm.parameters",
    "elbv2.balancers",
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
    "functions.lambda_runtime",
    "cloudwatch.alarms",
    "events.schedules",
    "sns",
    "sqs",
    "cloudformation.stacks",
)
EventSender = Callable[[str, str, Mapping[str, Any], Sequence[str]], None]


class LocalCloudError(Exception):
    """The local cloud cannot start or go on: says what failed and what to do."""


@dataclass(frozen=True)
class CloudSettings:
    """What is fixed for one run of the local cloud."""

    account_id: str = "123456789012"
    region: str = "us-east-1"
    seed: int = 77
    describe_delay_seconds: float = 0.3  # real seconds that a describe may lag behind a create (EC2)
    snapshot_seconds: float = 1.0  # real seconds that a snapshot stays pending at least
    # And what it copies: all blocks at first, then those written since (cloud seconds, per volume). 0: at once.
    snapshot_mib_per_s: float = 100.0
    bridge_address: str = "10.77.0.1"
    balancer_lateness: BalancerLateness = field(default_factory=BalancerLateness)
    # Modules of a deployment package that do nothing on import; imported once for all functions of the package.
    lambda_preload: tuple[str, ...] = ()
    # Modules of the project that uses it, each with `install(cloud)` (plugins.py).
    plugins: tuple[str, ...] = ()


class LocalCloud:
    """A control plane on 127.0.0.1 (and `extra_addresses`) in front of a data plane.

    Use it as a context manager; leaving it stops every thread and worker and puts moto back. The data plane
    is closed with it unless `owns_dataplane` is False.

    For extensions: `dataplane`, `clock`, `state_dir`, `settings`, `closing`, `endpoint_url`, `client()`,
    `client_as()`, `faults`, `deliveries`, `access`, `metrics`, `price_list`, `quotas`, `patch()`, `add_action()`,
    `on_close()`, `when_ready()`, `background()`, `put_event()`.
    """

    _open: ClassVar[LocalCloud | None] = None

    def __init__(
        self,
        dataplane: DataPlane | None,
        state_dir: Path,
        port: int = 0,
        clock_scale: float = 1.0,
        *,
        extra_addresses: Sequence[str] = (),
        settings: CloudSettings | None = None,
        owns_dataplane: bool = True,
    ) -> None:
        if any(address in ("0.0.0.0", "::", "") for address in extra_addresses):
            raise LocalCloudError(
                "The administrator's key is no secret here: the local cloud listens on named addresses only."
            )
        self.dataplane = dataplane
        self.state_dir = Path(state_dir).resolve()
        self.settings = settings or CloudSettings()
        self.closing = threading.Event()
        self.state_dir.mkdir(parents=True, exist_ok=True)
        self.clock = CloudClock(self.state_dir / "clock.json", clock_scale)
        self.faults = Faults()
        self.deliveries = DeliveriesAtWork()
        self.access = Access(Account(self.settings.account_id, self.settings.region), self.clock.now)
        self.metrics = MetricStore()
        self.price_list = LocalPriceList()
        self.quotas = LocalQuotas()
        self.port = port
        self.dns_port = 0  # UDP on loopback, once Route 53 is installed
        self._addresses = (LOOPBACK, *extra_addresses)
        self._owns_dataplane = owns_dataplane
        self._callbacks: list[Callable[[], None]] = []
        self._threads: list[threading.Thread] = []
        self._servers: list[BaseWSGIServer] = []
        self._serving = False
        self._event_sender: EventSender | None = None
        self._ready: list[Callable[[], Any]] = []
        self._clients: dict[tuple[str, str], Any] = {}
        self._clients_lock = threading.Lock()

    # -- for extensions ------------------------------------------------------------------------------------

    @property
    def endpoint_url(self) -> str:
        """Where the AWS API is, e.g. http://127.0.0.1:4566."""
        return f"http://{LOOPBACK}:{self.port}"

    @property
    def host_endpoint_url(self) -> str:
        """Where hosts can reach it: the bridge's address when we listen there and it exists, else loopback."""
        for address in self._addresses[1:]:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                try:
                    probe.bind((address, 0))
                except OSError:
                    continue
            return f"http://{address}:{self.port}"
        return self.endpoint_url

    def client(self, service: str) -> Any:
        """The administrator's boto3 client, made once per service; safe to share between threads."""
        return self._client_with(service, Credentials(ADMINISTRATOR_KEY, ADMINISTRATOR_KEY, None))

    def client_as(self, role_arn: str, session_name: str, principal: str, service: str) -> Any:
        """A boto3 client of a service that acts as a role, e.g. states.amazonaws.com; made once per role.

        Raises CannotAssume when the role is not there or does not trust the principal.
        """
        return self._client_with(
            service, self.access.identities.credentials(role_arn, session_name, principal, self.clock.now())
        )

    def _client_with(self, service: str, credentials: Credentials) -> Any:
        with self._clients_lock:
            known = self._clients.get((service, credentials.access_key_id))
            if known is None:
                known = boto3.client(  # type: ignore[call-overload]
                    service,
                    endpoint_url=self.endpoint_url,
                    region_name=self.settings.region,
                    aws_access_key_id=credentials.access_key_id,
                    aws_secret_access_key=credentials.secret_access_key,
                    aws_session_token=credentials.session_token,
                    config=_client_config(service),
                )
                self._clients[service, credentials.access_key_id] = known
            return known

    def patch(self, owner: Any, name: str, replacement: Any) -> Any:
        """Replace an attribute of moto until the cloud closes; returns the original.

        Raises LocalCloudError when the attribute does not exist: moto has moved.
        """
        if name not in vars(owner) and not hasattr(owner, name):
            raise LocalCloudError(
                f"moto has no {getattr(owner, '__name__', owner)}.{name}: is it moto 5.2.5?"
            )
        raw = vars(owner).get(name, _ABSENT)
        original = getattr(owner, name)
        setattr(owner, name, replacement)

        def restore() -> None:
            if raw is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, raw)

        self.on_close(restore)
        return original

    def on_close(self, callback: Callable[[], None]) -> None:
        """Call this when the cloud closes; the last one registered goes first."""
        self._callbacks.append(callback)

    def background(self, name: str, work: Callable[[], None]) -> threading.Thread:
        """Run `work` in a daemon thread; it should return soon after `closing` is set. Its errors are logged."""

        def guarded() -> None:
            try:
                work()
            except Exception:  # top boundary of the thread: report, or nobody hears of it
                if not self.closing.is_set():
                    log.exception("background work %s failed", name)

        self._threads = [thread for thread in self._threads if thread.is_alive()]
        thread = threading.Thread(target=guarded, name=f"peaker-{name}", daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread

    def put_event(
        self, source: str, detail_type: str, detail: Mapping[str, Any], resources: Sequence[str] = ()
    ) -> None:
        """Put an AWS service event on the default bus; rules see it as they see the real one."""
        if self._event_sender is None:
            raise LocalCloudError("events are not installed yet")
        self._event_sender(source, detail_type, detail, resources)

    def deliver_events_with(self, sender: EventSender) -> None:
        """Called by the EventBridge extension: how `put_event` reaches the bus."""
        self._event_sender = sender

    def when_ready(self, callback: Callable[[], Any]) -> None:
        """Call this when every extension is installed and the server is about to listen."""
        self._ready.append(callback)

    def add_action(self, response_class: Any, name: str, action: Callable[..., Any]) -> None:
        """Give moto an API action that it lacks (or replace one it has) until the cloud closes."""
        if hasattr(response_class, name):
            self.patch(response_class, name, action)
        else:
            setattr(response_class, name, action)
            self.on_close(lambda: delattr(response_class, name))

    def describe(self) -> dict[str, Any]:
        """What runs: for GET /_peaker/state and `localcloud status`."""
        from localcloud.extensions.stepfunctions import executions as stepfunctions

        return {
            "endpoint": self.endpoint_url,
            "host_endpoint_url": self.host_endpoint_url,
            "dns": f"{LOOPBACK}:{self.dns_port}",
            "state_dir": str(self.state_dir),
            "clock": self.clock.as_dict(),
            "dataplane": None if self.dataplane is None else self.dataplane.kind,
            "faults": [fault.as_dict() for fault in self.faults.all()],
            "metric_points": self.metrics.count(),
            "running_executions": [item.exec_arn for item in stepfunctions.running()],
        }

    # -- life cycle ----------------------------------------------------------------------------------------

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
            selftest.check()
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
        if self.dataplane is not None and self._owns_dataplane:
            self.dataplane.close()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(timeout=5)
        _reset_moto()
        if LocalCloud._open is self:
            LocalCloud._open = None
        if failures:
            raise LocalCloudError(f"The local cloud closed with errors: {failures}")

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
        faults.install(self)
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
            self._servers.append(server)


_ABSENT = object()


def _handler_on(clock: CloudClock) -> type[WSGIRequestHandler]:
    """Answers carry the cloud's time as their date, as AWS's carry AWS's."""

    class Handler(WSGIRequestHandler):
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


def _client_config(service: str) -> Config:
    # S3's presigned addresses are of Signature Version 2 otherwise, which S3 takes no more.
    signature = {"signature_version": "s3v4"} if service == "s3" else {}
    return Config(retries={"total_max_attempts": 1}, max_pool_connections=32, **signature)  # type: ignore[arg-type]


def _restore_logger(logger: logging.Logger, handler: logging.Handler, before: tuple[int, bool]) -> None:
    logger.removeHandler(handler)
    handler.close()
    logger.setLevel(before[0])
    logger.propagate = before[1]


def _reset_moto() -> None:
    from moto.core.base_backend import BackendDict

    BackendDict.reset()
