"""What the use cases ask of the world. Methods state their guarantee; adapters raise domain errors only."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from peaker.domain.document.prices import FetchedPrices, Quote
from peaker.domain.limits.account_limits import Quota
from peaker.domain.reading import Reading, Unknown
from peaker.domain.replicas.agent import Agent
from peaker.domain.replicas.fleet import ReplicaRow
from peaker.domain.replicas.inventory import (
    CapacityReservation,
    CommandOutcome,
    Instance,
    InstanceSpec,
    Snapshot,
    TargetHealth,
    Volume,
    VolumeSpec,
)
from peaker.domain.runs.ledger import (
    Holder,
    LeaseRow,
    PartT,
    ResourceKind,
    ResourceRow,
    ResourceState,
    RunPart,
    RunRow,
    StepRow,
)
from peaker.domain.runs.run_execution import BegunRun, RunExecution
from peaker.domain.storage.block_list import BlockRuns
from peaker.domain.storage.instance_promise import InstancePromise
from peaker.domain.storage.snapshot_sets import SnapshotSet
from peaker_contract.cluster import ClusterSettings
from peaker_contract.load_settings import LoadMetricSettings
from peaker_contract.metrics import Metric

if TYPE_CHECKING:  # these import numpy, which only the forecast needs
    from peaker.domain.issued import CheckState, IssuedForecast, LoadPoints
    from peaker.domain.runs.past_runs import PastSteps


class Clock(Protocol):
    """The time now."""

    def now(self) -> datetime:
        """Aware, UTC, never going backwards by more than the machine's clock does."""


class ClusterDirectory(Protocol):
    """The deployed settings."""

    def settings(self, cluster: str) -> ClusterSettings:
        """Settings of one cluster. Raises UnknownCluster, naming those that exist."""

    def names(self) -> list[str]:
        """The clusters of this environment, sorted."""


class Compute(Protocol):
    """Instances. A list never holds an instance that EC2 no longer knows; terminated ones may appear."""

    def instances_of_cluster(self, cluster: str) -> list[Instance]:
        """All with the cluster's tag, terminated ones left out."""

    def instances_of_environment(self) -> list[Instance]:
        """All that this environment owns, by the owner's tag, terminated ones left out."""

    def instances_of_run(self, run_id: str) -> list[Instance]:
        """All that carry the run's tag, terminated ones left out."""

    def instance(self, instance_id: str) -> Instance:
        """One instance. Raises ResourceNotFound."""

    def on_demand_instances(self) -> Sequence[Instance] | Unknown:
        """All of the account and region, whoever owns them, that run or begin to, on demand and not on a host of their
        own: those that count in its quotas of vCPUs. Unknown where there are more pages of them than are read."""

    def default_vcpus(self, instance_types: Sequence[str]) -> Mapping[str, int]:
        """What each of the types has by default; one that EC2 does not know is left out."""

    def ebs_promise(self, instance_type: str) -> InstancePromise:
        """What the type delivers to all its volumes; its fields are None where EC2 does not say."""

    def image_keys(self, image_id: str) -> Sequence[str] | Unknown:
        """The KMS keys that the image's volumes are under; Unknown where its snapshots are another account's.

        Raises ResourceNotFound for an image that is gone or not shared with this account.
        """

    def platform(self, image_id: str) -> str | Unknown:
        """What instances of the image are billed as; Unknown where EC2 says nothing that runs MySQL.

        Raises ResourceNotFound for an image that is gone or not shared with this account.
        """

    def capacity_reservations(self) -> list[CapacityReservation]:
        """The open capacity reservations of the account and region, whoever made them."""

    def launch(self, spec: InstanceSpec, client_token: str) -> Instance:
        """Launch one. The same token gives the same instance. Raises CapacityUnavailable."""

    def stop(self, instance_id: str) -> None:
        """Begin to stop; its volumes and address stay. Stopped or stopping already is not an error."""

    def start(self, instance_id: str, capacity_reservation_group_arn: str | None = None) -> None:
        """Begin to start what is stopped, in room of that group's reservations where they have some for it; running
        already is not an error. Raises CapacityUnavailable."""

    def terminate(self, instance_id: str) -> None:
        """Begin to terminate. An unknown or terminated id is not an error."""


class Storage(Protocol):
    """Volumes and snapshots."""

    def volumes_of_instance(self, instance_id: str) -> list[Volume]:
        """All that are attached to it, the root volume included."""

    def volumes_of_run(self, run_id: str) -> list[Volume]:
        """All that carry the run's tag and are not deleted."""

    def volumes_of_environment(self) -> list[Volume]:
        """All that this environment owns, by the owner's tag, and that are not deleted."""

    def volumes_of_type(self, volume_type: str) -> Sequence[Volume] | Unknown:
        """All of the account and region, whoever owns them, that are not being deleted: those that count in its quotas.

        Unknown where there are more pages of them than are read.
        """

    def snapshots_of_run(self, run_id: str) -> list[Snapshot]:
        """All that carry the run's tag."""

    def snapshots_of_environment(self) -> list[Snapshot]:
        """All that this environment owns, by the owner's tag, whichever cluster they are of."""

    def snapshots_of_volumes(self, volume_ids: Sequence[str]) -> list[Snapshot]:
        """The account's snapshots of these volumes, whoever made them: ours, a backup's, a person's."""

    def create_snapshots(
        self, instance_id: str, volume_ids: Sequence[str], tags: Mapping[str, str]
    ) -> list[Snapshot]:
        """Snapshot exactly these volumes of the instance at one instant. Not idempotent: look by tag first."""

    def name_snapshot(self, snapshot_id: str, volume_name: str) -> None:
        """Tag a snapshot with the name of its volume. Raises ResourceNotFound also while EC2 does not find it yet."""

    def delete_snapshot(self, snapshot_id: str) -> None:
        """Delete. An unknown id is not an error."""

    def create_volume(self, spec: VolumeSpec, client_token: str) -> Volume:
        """Create from a snapshot. The same token gives the same volume. Raises CapacityUnavailable on a quota."""

    def attach(self, volume_id: str, instance_id: str, device: str) -> None:
        """Begin to attach. Attached to this instance already is not an error, nor in use by whom EC2 does not show yet;
        at another instance, or in another zone, is VolumeFailed."""

    def delete_volume(self, volume_id: str) -> None:
        """Delete. An unknown id is not an error; a volume that is still attached raises UndoInProgress."""


class CommandRunner(Protocol):
    """Systems Manager commands on hosts."""

    def agent(self, instance_id: str) -> Agent:
        """Whether the host's agent answers now, and its version; offline where none has registered."""

    def send(self, document: str, instance_id: str, parameters: Mapping[str, str], comment: str) -> str:
        """Start the environment's document; returns the command id. Not idempotent: find() first.

        Raises AwsUnavailable for an instance whose agent does not answer.
        """

    def find(self, instance_id: str, comment: str, since: datetime) -> str | None:
        """The id of the newest command on that instance with exactly this comment, asked for after `since`, or None."""

    def outcome(self, command_id: str, instance_id: str) -> CommandOutcome:
        """How it stands; MISSING when Systems Manager does not know it yet."""

    def cancel(self, command_id: str, instance_id: str) -> None:
        """Ask to cancel. Best effort: a command that is over or unknown is not an error."""


class TrafficRouter(Protocol):
    """The read endpoint: a serving group of proven replicas, and a warming group of those and the newcomers.

    Every method may be called twice.
    """

    def register(self, settings: ClusterSettings, instance_id: str) -> None:
        """Put it into the warming group."""

    def promote(self, settings: ClusterSettings, instance_id: str) -> None:
        """Put it into the serving group too."""

    def deregister(self, settings: ClusterSettings, instance_id: str) -> None:
        """Begin to drain it in both groups. A target that is not registered is not an error."""

    def health(self, settings: ClusterSettings) -> dict[str, TargetHealth]:
        """State of every target of the serving group by instance id; one that is missing is not registered."""

    def warming_health(self, settings: ClusterSettings) -> dict[str, TargetHealth]:
        """The same of the warming group."""

    def set_share(self, settings: ClusterSettings, share: float) -> None:
        """Send that share (0 to 1, both excluded) of new connections through the warming group.

        A newcomer gets `share` of what it would get as one of the proven replicas. Neither group's weight becomes 0,
        at which a load balancer would close the group's connections.
        """

    def read_shares(self, settings: ClusterSettings) -> dict[str, float]:
        """Share (0 to 1) of new connections that each target gets now, by the endpoint's weights and health."""


class HostPackage(Protocol):
    """The code that runs on hosts."""

    def sha256(self) -> str:
        """Hash of the package, hexadecimal."""

    def download_url(self) -> str:
        """A URL that a host may fetch for the next hour without credentials."""


class SnapshotBlocks(Protocol):
    """What snapshots hold."""

    def held(self, snapshot_id: str, pages_at_most: int) -> BlockRuns | Unknown:
        """The blocks that it holds; Unknown when its list has more pages than that."""

    def changed(self, first_id: str, second_id: str, pages_at_most: int) -> int | Unknown:
        """How many blocks of 512 KiB differ between two snapshots of a volume; Unknown above so many pages."""


class RunFiles(Protocol):
    """Files that a run's hosts fetch; they vanish by themselves after some days."""

    def publish(self, run_id: str, name: str, text: str) -> str:
        """Store the file, or replace it; returns a URL that a host may fetch for the next hour."""


class Lease(Protocol):
    """One operation per cluster at a time (I6)."""

    def acquire(
        self,
        cluster: str,
        run_id: str,
        operation: str,
        now: datetime,
        until: datetime,
        *,
        fence: bool = False,
        after: Holder | None = None,
    ) -> Holder:
        """Take the lease; the same run gets the same token again, or with `fence` the next one.

        Raises LeaseHeld with the holder and the end of its lease, Throttled where it is held for seconds only,
        LeaseSettling where another run gave it back and its last call may still be under way. `after` is a lease that
        the caller itself gave back just now: all that it did under that one is done.
        """

    def release(self, holder: Holder, settled_at: datetime) -> None:
        """Give it back; until `settled_at` no other run gets it. One that the run no longer holds is left alone."""

    def current(self, cluster: str, now: datetime) -> LeaseRow | None:
        """Who holds it now, or None."""


class Ledger(Protocol):
    """What runs made. Every write carries the holder and raises LeaseLost when its lease has gone."""

    def require_lease(self, holder: Holder) -> None:
        """Raises LeaseLost when its lease has gone: asked right before a call that no later write can take back."""

    def fence_member(self, holder: Holder, at: datetime) -> int:
        """Move the token of a batch's member on and return it: whoever writes with an older one raises LeaseLost."""

    def member_token(self, run_id: str) -> int:
        """The token of a member; 0 before it was ever fenced."""

    def open_run(self, holder: Holder, run: RunRow) -> None:
        """Write the run once; a second call changes nothing."""

    def run(self, run_id: str) -> RunRow:
        """Raises LedgerInconsistent when there is none."""

    def unfinished_runs(self, cluster: str) -> list[RunRow]:
        """The cluster's runs whose own outcome is one of UNFINISHED_OUTCOMES, the oldest first."""

    def settle(self, holder: Holder, *parts: RunPart) -> None:
        """Store parts of the run's memory in one write; those of other names stay, whoever writes them meanwhile."""

    def settle_first(self, holder: Holder, part: PartT) -> PartT:
        """Store a part that stays as it was first settled; returns the one that stands, this one or an earlier."""

    def close_run(self, holder: Holder, outcome: str, finished_at: datetime) -> None:
        """Write the outcome; the last call counts."""

    def start_step(self, holder: Holder, step: str, at: datetime, lease_until: datetime) -> None:
        """Record the start, of which the first counts over all retries, and move the end of the lease."""

    def finish_step(self, holder: Holder, step: str, at: datetime, numbers: Mapping[str, Any]) -> None:
        """Record the end and the numbers; the last call counts."""

    def steps(self, run_id: str) -> list[StepRow]:
        """All steps in order of their start."""

    def intend(
        self,
        holder: Holder,
        kind: ResourceKind,
        name: str,
        step: str,
        at: datetime,
        details: Mapping[str, Any],
    ) -> ResourceRow:
        """Write that the run is about to make it, once for a kind and name; returns the row that is there."""

    def claim(self, holder: Holder, call: str, at: datetime, until: datetime) -> bool:
        """Take the right to make a call that has no ClientToken, until then; False while another one has it."""

    def made(self, holder: Holder, row: ResourceRow, resource_id: str, at: datetime) -> ResourceRow:
        """Write the id that AWS gave; the details of `row` are stored too."""

    def mark(self, holder: Holder, run_id: str, row: ResourceRow, state: ResourceState) -> None:
        """Write a resource's state; the run may be an earlier one than the holder's (retirement)."""

    def resources(self, run_id: str) -> list[ResourceRow]:
        """All resources of the run in the order in which they were intended."""

    def add_replica(self, holder: Holder, replica: ReplicaRow) -> None:
        """Write the cluster's row of a replica that has none; one that has a row keeps it."""

    def set_replica(self, holder: Holder, replica: ReplicaRow) -> None:
        """Write the cluster's row of a replica."""

    def begin_exit(self, holder: Holder, replica: ReplicaRow, staying: Collection[str]) -> None:
        """Write the row of one that is to leave service, while none of `staying` has begun to leave it.

        Of two that count on one another one succeeds. Raises Throttled where one of `staying` (97 ids at most) is
        not in service by its row any more: what was counted has changed.
        """

    def replicas(self, cluster: str) -> dict[str, ReplicaRow]:
        """All rows of the cluster's replicas by instance id, retired ones included."""

    def keep_snapshots(self, holder: Holder, kept: SnapshotSet) -> None:
        """Write the cluster's row of a set that outlives its run; the last call counts."""

    def forget_snapshots(self, holder: Holder, kept: SnapshotSet, at: datetime) -> None:
        """Write that the set is gone."""

    def snapshot_sets(self, cluster: str) -> list[SnapshotSet]:
        """The sets that are kept, the oldest first."""

    def save_receipt(self, holder: Holder, receipt: Mapping[str, Any]) -> None:
        """Store the run's receipt; the last call counts."""

    def receipt(self, run_id: str) -> dict[str, Any] | None:
        """The stored receipt, or None."""


class Operators(Protocol):
    """The people whom alarms page."""

    def tell(self, subject: str, text: str) -> None:
        """Send them a message. Not idempotent. Raises OperatorsUnreachable where the environment names nobody."""


class LoadReadings(Protocol):
    """What CloudWatch holds of a cluster's load, and what forecast_load published about it."""

    def load(self, settings: ClusterSettings, now: datetime) -> Reading:
        """The load metric in the newest period that has ended, or in the one that runs where it is higher already.

        Unknown when none of the last three that have ended has a point."""

    def load_points(
        self, settings: ClusterSettings, start: datetime, end: datetime
    ) -> list[tuple[datetime, float]]:
        """The points of the load metric from start on and before end, in order of time."""

    def published(self, settings: ClusterSettings, metric: Metric, now: datetime) -> Reading:
        """The newest value of one of Peaker's own metrics; Unknown when three schedules have passed without one."""

    def lag_seconds(self, settings: ClusterSettings, instance_id: str, now: datetime) -> Reading:
        """A replica's lag as the newest check heard it; Unknown when three checks have passed without one."""

    def reads_per_second(
        self, settings: ClusterSettings, instance_id: str, start: datetime, end: datetime
    ) -> list[float]:
        """A replica's client statements a second by each check from start on and before end, in order of time."""


class PastRuns(Protocol):
    """What earlier runs took."""

    def past_steps(self, cluster: str) -> PastSteps:
        """Step durations of the last 20 scale-outs that put a replica into service, the newest last."""


class VolumeKeys(Protocol):
    """KMS keys of volumes."""

    def why_not_usable(self, key_arn: str, settings: ClusterSettings) -> str | None:
        """Why EBS could not use this key for a new volume; None when it can, and for AWS's own keys.

        A dry run: the key's state, the settings and the key's policy. Nothing is encrypted.
        """


class Executions(Protocol):
    """The executions of this environment's workflows."""

    def that_began(self, run: BegunRun) -> RunExecution | Unknown:
        """The execution that began the run, given by its row or its lease; Unknown where Step Functions lists none.

        Executions are listed a moment late, and forgotten 90 days after their end.
        """

    def start_scale_out(self, name: str, given: Mapping[str, Any]) -> None:
        """Start scale_out under this name; a second start of the name is the first one. Raises Throttled,
        AwsUnavailable."""

    def being_rolled_back(self) -> frozenset[str]:
        """Names of the executions that a running roll_back was given."""


class PriceList(Protocol):
    """What AWS asks for its things."""

    def quote(self, region: str, instance_types: Sequence[str]) -> Quote:
        """On-demand prices of Linux instances of these types and of EBS in that region.

        Raises Throttled, AwsUnavailable, AwsCallRejected.
        """


class StoredPrices(Protocol):
    """The environment's newest answer of the price list."""

    def read(self) -> FetchedPrices | Unknown:
        """Unknown before the first one was stored."""

    def write(self, prices: FetchedPrices) -> None:
        """Store them; the last call counts."""


class AccountQuotas(Protocol):
    """What AWS lets the account have in its region."""

    def value(self, quota: Quota) -> float | None:
        """The account's own value, or AWS's default where it has none; None where Service Quotas has neither."""


@dataclass(frozen=True)
class Ports:
    """All that a use case may reach; `environment` is also the value of the owner tag."""

    environment: str
    clock: Clock
    clusters: ClusterDirectory
    compute: Compute
    storage: Storage
    commands: CommandRunner
    endpoint: TrafficRouter
    package: HostPackage
    snapshot_blocks: SnapshotBlocks
    run_files: RunFiles
    lease: Lease
    ledger: Ledger
    readings: LoadReadings
    executions: Executions
    volume_keys: VolumeKeys
    past_runs: PastRuns
    price_list: PriceList
    stored_prices: StoredPrices
    account_quotas: AccountQuotas
    operators: Operators


class LoadHistory(Protocol):
    """The past of the load metric, and of metrics that show trouble."""

    def points(self, settings: ClusterSettings, start: datetime, end: datetime) -> LoadPoints:
        """Points of the periods that ended by `end`, in order of time; none is an empty answer, not an error."""

    def events(self, metric: LoadMetricSettings, start: datetime, end: datetime) -> LoadPoints:
        """Points of a metric in its own period, the one that still runs included; none is an empty answer."""


class MetricPublisher(Protocol):
    """Where the forecast's figures become metrics."""

    def publish(self, cluster: str, at: datetime, values: Mapping[Metric, float]) -> None:
        """Write each value with the dimension Cluster at the time `at`."""


class ForecastRecords(Protocol):
    """What the forecast remembers between its runs, per cluster."""

    def check_state(self, cluster: str) -> CheckState:
        """The state that the last check left; a new cluster's is the default."""

    def save_check_state(self, cluster: str, state: CheckState) -> None:
        """Store it; one whose `checked_seconds` are before those that are stored changes nothing."""

    def save_issued(self, cluster: str, issued: IssuedForecast) -> None:
        """Keep an issued forecast for scoring; it is forgotten after two weeks."""

    def issued(self, cluster: str, since: datetime) -> list[IssuedForecast]:
        """Forecasts issued since then, in order of time."""

    def save_report(self, cluster: str, report: Mapping[str, Any]) -> None:
        """Store what the newest check found, decided and why; the last call counts."""

    def report(self, cluster: str) -> dict[str, Any] | None:
        """The newest check's report, or None before the first."""

    def past_steps(self, cluster: str) -> PastSteps:
        """Step durations of the last 20 scale-outs that put a replica into service, the newest last."""


@dataclass(frozen=True)
class ForecastPorts:
    """What forecast_load reaches beyond the ports that every function has."""

    common: Ports
    history: LoadHistory
    metrics: MetricPublisher
    records: ForecastRecords
