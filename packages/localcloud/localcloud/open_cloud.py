"""The local cloud as its extensions know it: the parts they share, clients, and patches that end with it.

Everything that is changed in moto while it is open goes through `patch` and is put back when it closes.
"""

from __future__ import annotations

import inspect
import logging
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from localcloud.clock import CloudClock
from localcloud.dataplane import DataPlane, VolumeLimits
from localcloud.extensions.account_quotas import LocalQuotas
from localcloud.extensions.cloudwatch.metric_store import MetricStore
from localcloud.extensions.elbv2.lateness import BalancerLateness
from localcloud.extensions.events.deliveries import DeliveriesAtWork
from localcloud.extensions.price_list import LocalPriceList
from localcloud.faults import Faults
from localcloud.iam.access import Access
from localcloud.iam.account import Account
from localcloud.iam.identities import ADMINISTRATOR_KEY, Credentials

log = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
# A function that is called and waited for may take 15 minutes (Lambda quotas), and a busy machine answers late.
LATEST_ANSWER_REAL_SECONDS = 3600.0
EventSender = Callable[[str, str, Mapping[str, Any], Sequence[str]], None]


class LocalCloudError(Exception):
    """The local cloud cannot start or go on: says what failed and what to do."""


@dataclass(frozen=True)
class CloudSettings:
    """What is fixed for one run of the local cloud."""

    account_id: str = "123456789012"
    region: str = "us-east-1"
    bootstrap_qualifier: str = "hnb659fds"  # as in `cdk bootstrap --qualifier`
    seed: int = 77
    describe_delay_seconds: float = 0.3  # real seconds that a describe may lag behind a create (EC2)
    snapshot_seconds: float = 1.0  # real seconds that a snapshot stays pending at least
    # And what it copies: all blocks at first, then those written since (cloud seconds, per volume). 0: at once.
    snapshot_mib_per_s: float = 100.0
    transaction_seconds: float = (
        0.005  # real seconds that a transaction keeps others from its items (DynamoDB)
    )
    # How many blocks the snapshot store gives one volume at once, each after so many real milliseconds.
    fetch_parallel: int = VolumeLimits.fetch_parallel
    fetch_latency_ms: float = VolumeLimits.fetch_latency_ms
    balancer_lateness: BalancerLateness = field(default_factory=BalancerLateness)
    # Modules of a deployment package that do nothing on import; imported once for all functions of the package.
    lambda_preload: tuple[str, ...] = ()
    # Modules of the project that uses it, each with `install(cloud)` (plugins.py).
    plugins: tuple[str, ...] = ()


class OpenCloud:
    """A cloud from its start to its end: its parts, its addresses and clients, and what it takes back at its end."""

    def __init__(
        self,
        dataplane: DataPlane | None,
        state_dir: Path,
        port: int = 0,
        clock_scale: float = 1.0,
        *,
        extra_addresses: Sequence[str] = (),
        settings: CloudSettings | None = None,
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
        self.reservation_groups: dict[str, list[str]] = {}
        self.port = port
        self.dns_port = 0  # UDP on loopback, once Route 53 is installed
        # Clients that tasks of workflows call in the place of this cloud's own, by service: a test's script.
        self.task_clients: dict[str, Any] = {}
        self._addresses = (LOOPBACK, *extra_addresses)
        self._callbacks: list[Callable[[], None]] = []
        self._threads: list[threading.Thread] = []
        self._event_sender: EventSender | None = None
        self._ready: list[Callable[[], Any]] = []
        self._clients: dict[tuple[str, str], Any] = {}
        self._clients_lock = threading.Lock()

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

    def client_as(
        self, role_arn: str, session_name: str, principal: str, service: str, *, validates: bool = True
    ) -> Any:
        """A boto3 client of a service that acts as a role, e.g. states.amazonaws.com; made once per session of a role.

        Raises CannotAssume when the role is not there or does not trust the principal.
        """
        credentials = self.access.identities.credentials(role_arn, session_name, principal, self.clock.now())
        return self._client_with(service, credentials, validates)

    def _client_with(self, service: str, credentials: Credentials, validates: bool = True) -> Any:
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
                    config=_client_config(service, validates),
                )
                self._clients[service, credentials.access_key_id] = known
            return known

    def patch(self, owner: Any, name: str, replacement: Any) -> Any:
        """Replace an attribute of moto until the cloud closes; returns the original.

        Raises LocalCloudError when moto has moved: it has no such attribute, or gives it other parameters.
        """
        hook = f"{getattr(owner, '__name__', owner)}.{name}"
        if name not in vars(owner) and not hasattr(owner, name):
            raise LocalCloudError(f"moto has no {hook}: is it moto 5.2.5?")
        raw = vars(owner).get(name, _ABSENT)
        original = getattr(owner, name)
        if not _takes_what_is_given(replacement, original):
            raise LocalCloudError(f"moto has {hook}{inspect.signature(original)}: is it moto 5.2.5?")
        setattr(owner, name, replacement)

        def restore() -> None:
            if raw is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, raw)

        self.on_close(restore)
        return original

    def add(self, owner: Any, name: str, addition: Any) -> None:
        """Give moto an attribute that it lacks until the cloud closes. Raises LocalCloudError when it has it by now."""
        if hasattr(owner, name):
            raise LocalCloudError(
                f"moto has {getattr(owner, '__name__', owner)}.{name} by now: is it moto 5.2.5?"
            )
        setattr(owner, name, addition)
        self.on_close(lambda: delattr(owner, name))

    def on_close(self, callback: Callable[[], None]) -> None:
        """Call this when the cloud closes; the last one registered goes first."""
        self._callbacks.append(callback)

    def background(self, name: str, work: Callable[[], None]) -> threading.Thread:
        """Run `work` in a daemon thread; it should return soon after `closing` is set. Its errors are logged."""

        def guarded() -> None:
            with self.errors_logged(f"background work {name}"):
                work()

        self._threads = [thread for thread in self._threads if thread.is_alive()]
        thread = threading.Thread(target=guarded, name=f"peaker-{name}", daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread

    @contextmanager
    def errors_logged(self, what: str) -> Iterator[None]:
        """A boundary of a thread, or of one turn of what it does for ever: an error is told, and ends nothing else."""
        try:
            yield
        except Exception:
            if not self.closing.is_set():
                log.exception("%s failed", what)

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
            self.add(response_class, name, action)


_ABSENT = object()


def _takes_what_is_given(replacement: Any, original: Any) -> bool:
    """Tells whether the replacement has the original's parameters, by their names; true for what is no function."""
    try:
        theirs, ours = inspect.signature(original).parameters.values(), inspect.signature(replacement)
        first, *named = (
            one.name for one in theirs if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
        )
        ours.bind(first, **dict.fromkeys(named))
    except ValueError:
        return True
    except TypeError:
        return not callable(replacement)
    return True


def _client_config(service: str, validates: bool) -> Config:
    # S3's presigned addresses are of Signature Version 2 otherwise, which S3 takes no more.
    signature = {"signature_version": "s3v4"} if service == "s3" else {}
    return Config(
        retries={"total_max_attempts": 1},
        read_timeout=LATEST_ANSWER_REAL_SECONDS,
        max_pool_connections=64,
        parameter_validation=validates,
        **signature,  # type: ignore[arg-type]
    )
