"""Route 53 that answers: hosted zones' records over DNS on loopback, changes that take a while.

moto keeps the zones. A change is PENDING for up to a minute of cloud time and is answered from then on, as
GetChange says. Of the weighted records of one name one is drawn per question, by weight, of those whose health
checks are healthy. The TTL in an answer is the record's, in cloud time: on a fast clock a client may keep the
answer for as much less. The service is UDP on 127.0.0.1, at the port that /_peaker/state shows.

Not there: probes of health checks, alias targets (no answer), other routing than by weight, TCP, name servers.
"""

from __future__ import annotations

import copy
import math
import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from dnslib import QTYPE, RCODE, RR, DNSRecord
from dnslib.server import BaseResolver, DNSLogger, DNSServer
from moto.core.responses import ActionResult
from moto.route53.exceptions import Route53ClientError
from moto.route53.models import Route53Backend, route53_backends
from moto.route53.responses import Route53

from localcloud.extensions.route53.change_rules import check_batch, key_of
from localcloud.extensions.route53.health_checks import HealthChecks
from localcloud.extensions.route53.health_checks import install as install_health_checks

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud

LOOPBACK = "127.0.0.1"
PENDING_SECONDS = (20.0, 60.0)  # cloud time
LONGEST_CHAIN = 8  # of CNAMEs
ANSWERED = ("A", "AAAA", "CNAME", "TXT")
STOPS_WITHIN_SECONDS = 0.05


@dataclass(frozen=True)
class Change:
    """A change of one zone: what its records are once it is in sync."""

    zone_id: str
    submitted_at: datetime
    insync_epoch: float  # cloud time
    records: tuple[Any, ...]


class Zones:
    """The records as DNS answers them, a while behind moto's."""

    def __init__(self, cloud: OpenCloud, checks: HealthChecks) -> None:
        self.cloud = cloud
        self.checks = checks
        self.backend: Route53Backend = route53_backends[cloud.settings.account_id]["aws"]
        self._random = random.Random(cloud.settings.seed)
        self._changes: dict[str, Change] = {}
        self._lock = threading.Lock()

    def changed(self, zone_id: str) -> str:
        """Note a change that moto has just made; its id. A zone's changes come into force in their order."""
        zone = self.backend.get_hosted_zone(zone_id)
        clock = self.cloud.clock
        with self._lock:
            due = clock.epoch() + self._random.uniform(*PENDING_SECONDS)
            due = max([due, *(c.insync_epoch for c in self._changes.values() if c.zone_id == zone.id)])
            change_id = f"C{self._random.getrandbits(64):016X}"
            records = tuple(copy.deepcopy(zone.rrsets))
            self._changes[change_id] = Change(zone.id, clock.now(), due, records)
        return change_id

    def info(self, change_id: str) -> dict[str, Any]:
        """ChangeInfo. Raises NoSuchChange."""
        name = change_id.rsplit("/", 1)[-1]
        change = self._changes.get(name)
        if change is None:
            raise Route53ClientError("NoSuchChange", f"Could not find resource with ID: {name}")
        insync = self.cloud.clock.epoch() >= change.insync_epoch
        return {
            "Id": f"/change/{name}",
            "Status": "INSYNC" if insync else "PENDING",
            "SubmittedAt": change.submitted_at,
        }

    def answer(self, name: str, kind: str, chain: int = 0) -> list[tuple[str, str, int, str]]:
        """(name, type, TTL in real seconds, value) of each record of an answer, CNAMEs followed."""
        found = self._records(name, kind)
        if not found and kind != "CNAME" and chain < LONGEST_CHAIN:
            aliases = self._answer_from(self._records(name, "CNAME"))
            return [row for alias in aliases for row in (alias, *self.answer(alias[3], kind, chain + 1))]
        return self._answer_from(found)

    def knows(self, name: str) -> bool:
        """A zone has records of that name, of whatever type."""
        return any(self._records(name, kind) for kind in ANSWERED)

    def _answer_from(self, records: Sequence[Any]) -> list[tuple[str, str, int, str]]:
        if not records:
            return []
        # None being healthy, all are taken for healthy.
        healthy = [record for record in records if self.checks.is_healthy(record.health_check_id)]
        record = self._draw(healthy or records)
        ttl = math.ceil(self.cloud.clock.real_seconds(float(record.ttl or 0)))
        return [(record.name, record.type, ttl, value) for value in record.records]

    def _draw(self, records: Sequence[Any]) -> Any:
        """By weight; records that all weigh 0 are alike, as in Route 53."""
        weights = [int(record.weight or 0) for record in records]
        with self._lock:
            return self._random.choices(records, weights if any(weights) else None)[0]

    def _records(self, name: str, kind: str) -> list[Any]:
        wanted = name.lower().rstrip(".")
        return [
            record
            for zone in list(self.backend.zones.values())
            for record in self._in_force(zone.id)
            if record.type == kind and record.name.lower().rstrip(".") == wanted
        ]

    def _in_force(self, zone_id: str) -> tuple[Any, ...]:
        now = self.cloud.clock.epoch()
        with self._lock:
            done = [c for c in self._changes.values() if c.zone_id == zone_id and c.insync_epoch <= now]
        return done[-1].records if done else ()


class _Resolver(BaseResolver):  # type: ignore[misc]
    def __init__(self, zones: Zones) -> None:
        self._zones = zones

    def resolve(self, request: Any, handler: Any) -> DNSRecord:
        """Answer one question; a name that no zone knows is NXDOMAIN."""
        name, kind = str(request.q.qname), str(QTYPE[request.q.qtype])
        reply = request.reply()
        for owner, record_kind, ttl, value in self._zones.answer(name, kind):
            reply.add_answer(*RR.fromZone(f"{owner} {ttl} IN {record_kind} {value}"))
        if not reply.rr and not self._zones.knows(name):
            reply.header.rcode = RCODE.NXDOMAIN
        return reply


def _install_actions(cloud: OpenCloud, zones: Zones) -> None:
    def change(self: Any) -> ActionResult:
        if self.current_account != cloud.settings.account_id:
            return original_change(self)
        zone = zones.backend.get_hosted_zone(self._get_param("HostedZoneId"))
        batch = self._get_param("ChangeBatch.Changes")
        check_batch(zone.rrsets, batch, zones.backend.health_checks)
        namesakes = _namesakes(zone.rrsets, batch)
        original_change(self)
        zone.rrsets += [record for record in namesakes if record not in zone.rrsets]
        return ActionResult({"ChangeInfo": zones.info(zones.changed(self._get_param("HostedZoneId")))})

    def get_change(self: Any) -> ActionResult:
        return ActionResult({"ChangeInfo": zones.info(self._get_param("Id"))})

    original_change: Callable[[Any], ActionResult] = cloud.patch(
        Route53, "change_resource_record_sets", change
    )
    cloud.patch(Route53, "get_change", get_change)


def _namesakes(records: Sequence[Any], batch: Sequence[Any]) -> list[Any]:
    """Records of other names with the SetIdentifier of one that goes: moto would delete them all."""
    leaving = {
        key_of(change["ResourceRecordSet"], "Name", "Type", "SetIdentifier")
        for change in batch
        if change["Action"] == "DELETE"
    }
    identifiers = {identifier for _, _, identifier in leaving if identifier}
    return [
        record
        for record in records
        if record.set_identifier in identifiers
        and key_of(vars(record), "name", "type", "set_identifier") not in leaving
    ]


def install(cloud: OpenCloud) -> None:
    """Delay changes, and answer DNS on a free port of loopback until the cloud closes."""
    zones = Zones(cloud, install_health_checks(cloud))
    _install_actions(cloud, zones)
    _install_zone_ids(cloud)
    server = DNSServer(_Resolver(zones), port=0, address=LOOPBACK, logger=DNSLogger(logf=lambda _line: None))
    cloud.dns_port = int(server.server.server_address[1])
    cloud.background("dns", partial(server.server.serve_forever, STOPS_WITHIN_SECONDS))

    def stop() -> None:
        server.stop()
        server.server.server_close()

    cloud.on_close(stop)


def _install_zone_ids(cloud: OpenCloud) -> None:
    """The id of a hosted zone begins with Z, as all do on AWS."""
    from moto.route53 import models

    original = models.create_route53_zone_id

    def zone_id(*given: Any, **named: Any) -> str:
        return f"Z{original(*given, **named)[1:]}"

    cloud.patch(models, "create_route53_zone_id", zone_id)
