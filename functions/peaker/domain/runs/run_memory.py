"""The run's memory has the parts that steps settle for later ones where no other module decides them. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from peaker.domain.runs.ledger import RunPart


class Donor(RunPart):
    """The replica that is snapshotted, and the ids of its data volumes by name."""

    ledger_name = "donor"

    instance_id: str
    volumes: dict[str, str]


class DonorServer(RunPart):
    """What the donor's copies need of the image, by fact, as the host package says it."""

    ledger_name = "donor_server"

    facts: dict[str, Any]


class Source(RunPart):
    """The server that the replica will follow."""

    ledger_name = "source"

    instance_id: str
    private_ip: str


class RunReplica(RunPart):
    """The replica that the run works on: launched by it, brought back by it, or chosen to go.

    `builder` is the run that built it; tags, ledger row and the host's records carry that run's id all its life.
    `running_since` is the start from which its hours count. `follows` is the id of the source at the moment at which
    one in service was chosen to go; None where nobody looked.
    """

    ledger_name = "replica"

    instance_id: str
    builder: str
    running_since: datetime
    follows: str | None = None


class Removal(RunPart):
    """The replicas that the run chose to take away, in the order of its members, once and for all."""

    ledger_name = "removal"

    replicas: tuple[RunReplica, ...]


class VolumeRates(RunPart):
    """The initialization rates in MiB/s that EBS made the volumes with, by their names; None is the default rate."""

    ledger_name = "volume_rates"

    rates: dict[str, int | None]


class Placement(RunPart):
    """The run's placement: the zone that had room for the instance, and the type. Volumes follow the zone."""

    ledger_name = "placement"

    zone: str
    instance_type: str | None = None


class BlockList(RunPart):
    """The number of blocks of 512 KiB in the run's snapshots, by volume name; or the reason why no list could
    be had.
    """

    ledger_name = "block_list"

    blocks: dict[str, int] | None = None
    missing: str = ""


class DatabaseStop(RunPart):
    """The time at which a parked replica's database was first found stopped."""

    ledger_name = "database_stop"

    at: datetime


class EndpointExit(RunPart):
    """The time at which the undo took the replica from the read endpoint; clients may still come for a while
    after that.
    """

    ledger_name = "endpoint_exit"

    at: datetime


class Waking(RunPart):
    """The number of times that the run began to bring a database back, by the instance's id; earlier answers
    are void then.
    """

    ledger_name = "waking"

    times: dict[str, int]


class FirstSetSize(RunPart):
    """The most GiB that an observed cluster's first snapshot set stores."""

    ledger_name = "first_set_size"

    gib: float
