"""The facts that a scale-out is planned from, of any number of replicas. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from peaker.domain.limits.account_limits import AccountUse, RegionRate
from peaker.domain.planning.lead_time import LeadTimeInputs
from peaker.domain.prices.price_table import PriceTable
from peaker.domain.reading import Reading, Unknown
from peaker.domain.replicas.data_volumes import data_volumes
from peaker.domain.replicas.donor import DonorChoice
from peaker.domain.replicas.fleet import FleetState
from peaker.domain.replicas.inventory import InstancePromise, Volume
from peaker.domain.runs.ledger import LeaseRow
from peaker.domain.runs.past_runs import PastSteps
from peaker.domain.storage.snapshot_sets import SnapshotSet, stored_gib
from peaker_contract.cluster import ClusterSettings


@dataclass(frozen=True)
class PlanFacts:
    """All that a plan depends on, as it was at `now`.

    `lease` is another run's. `donor` is the one that the run has taken already, or any of the best. `promises` are
    EC2's of the settings' instance types; a fallback without one is left out. `inputs` are those of a build at the
    default initialization rate. `binary_logs_kept` is in seconds. `image_keys` are the image's KMS keys, and
    `image_devices` the device names that it maps; `why_no_image` says why it cannot be launched. `why_unusable` has
    each key of the image and of the fleet's volumes that EC2 or EBS cannot use.
    """

    settings: ClusterSettings
    fleet: FleetState
    environment: str
    now: datetime
    lease: LeaseRow | None
    past: PastSteps
    donor: DonorChoice
    promises: Mapping[str, InstancePromise | Unknown]
    prices: PriceTable
    inputs: LeadTimeInputs
    region: RegionRate
    account: AccountUse
    snapshot_sets: Sequence[SnapshotSet]
    binary_logs_kept: Reading
    image_keys: Sequence[str] | Unknown
    why_no_image: str | None
    why_unusable: Mapping[str, str]
    image_devices: Sequence[str]

    @property
    def promise(self) -> InstancePromise | Unknown:
        """The settings' own instance type, as EC2 describes it."""
        return self.promises[self.settings.instance_type]

    @property
    def donor_volumes(self) -> dict[str, Volume]:
        """The donor's data volumes by name; none where no donor is known."""
        return {} if self.donor.donor is None else data_volumes(self.donor.donor, self.settings.volumes)

    @property
    def kept_gib(self) -> float:
        """GiB that kept snapshot sets store after the run: at most all of the donor's volumes."""
        if not self.settings.keep_snapshots:
            return 0.0
        donor = None if self.donor.donor is None else self.donor.donor.instance_id
        size_gib = sum(volume.size_gib for volume in self.donor_volumes.values())
        return stored_gib(self.snapshot_sets, donor, float(size_gib))
