"""Transactions that a replica holds and its source does not: a copy brings them along and cannot join the source."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Callable, Optional

from peaker_host.database.mysql_client import MysqlClient
from peaker_host.database.replica_status import DIALECTS, count_missing, parse_gtid_set, subtracted
from peaker_host.machine.errors import ErrantTransactions, HostError
from peaker_host.machine.settings import Machine
from peaker_host.replicate.source_login import SourcePosition, ask_position, followed_source, one_line

# A source counts a transaction as executed a moment after it has sent it.
_LOOKS = 6
_PAUSE_SECONDS = 0.5


@dataclass(frozen=True)
class ErrantLook:
    """A look holds the server's errant transactions as a GTID set; None where the source could not be asked.

    `own`: transactions that it wrote itself, under its server_uuid. A server that once was a source has such, and its
    replicas have them too: alone they prove nothing.
    """

    errant: Optional[str]
    own: int


def look_for_errant(machine: Machine, client: MysqlClient, say: Callable[[str], None]) -> ErrantLook:
    """Compare a MySQL replica's GTIDs with its source's. Raises DatabaseUnreachable where the replica is silent."""
    # Before the source is asked: what it gets meanwhile, its source has.
    facts = client.json({"executed": DIALECTS["mysql"].executed_set, "uuid": DIALECTS["mysql"].server_uuid})
    here = one_line(facts["executed"])
    written = parse_gtid_set(here).items()
    own = sum(
        length
        for source, ranges in written
        if source.split(":")[0] == str(facts["uuid"]).lower()
        for _, length in ranges
    )

    def ask() -> Optional[SourcePosition]:
        return _position(machine, client, say)

    position = ask()
    return ErrantLook(None if position is None else errant_of(here, position, ask), own)


def errant_of(here: str, position: SourcePosition, ask: Callable[[], Optional[SourcePosition]]) -> str:
    """Returns the transactions of `here`, read before `position`, that the source does not get within seconds."""
    found: Optional[SourcePosition] = position
    for look in range(_LOOKS):
        if look:
            time.sleep(_PAUSE_SECONDS)
            found = ask()
        position = found or position
        if not count_missing(here, position.executed):
            return ""
    return subtracted(here, position.executed)


def refuse_errant(here: str, position: SourcePosition, ask: Callable[[], Optional[SourcePosition]]) -> None:
    """Raises ErrantTransactions unless the source has all that was here before it was asked, now or within seconds."""
    errant = errant_of(here, position, ask)
    if errant:
        raise ErrantTransactions(
            describe_errant(errant), {"source_gtid_executed": position.executed, "gtid_executed": here}
        )


def describe_errant(errant: str) -> str:
    return f"this replica holds {count_missing(errant, '')} transactions that the source does not: {errant[:500]}"


def _position(machine: Machine, client: MysqlClient, say: Callable[[str], None]) -> Optional[SourcePosition]:
    try:
        found = followed_source(machine, client)
        return None if found is None else ask_position(machine, *found, say)
    except HostError as error:
        say(f"the source could not be asked for its position: {error}")
        return None
