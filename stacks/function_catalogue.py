"""Every function: what it is for, what it may do, how much memory and time it gets.

One row per module in functions/peaker/handlers, of the same room and name; a test compares the two. Each row lists
only what that step needs. Host steps list the SSM documents that they may send.
"""

from __future__ import annotations

from dataclasses import dataclass

from stacks.permissions import Permission as P

DEFAULT_MEMORY_MIB = 256
DEFAULT_TIMEOUT_SECONDS = 60

RECORDED = (P.WRITE_LEDGER,)
STEP = (P.READ_CLUSTER_SETTINGS, *RECORDED)
# What it takes to see the fleet: hosts, their volumes, and who gets traffic.
FLEET = (P.DESCRIBE_INSTANCES, P.DESCRIBE_VOLUMES, P.DESCRIBE_TARGET_HEALTH)
# What it takes to remove what a run made.
TEAR_DOWN = (
    *FLEET,
    P.DESCRIBE_SNAPSHOTS,
    P.CANCEL_COMMANDS,
    P.DEREGISTER_TARGETS,
    P.TERMINATE_INSTANCES,
    P.DELETE_VOLUMES,
    P.DELETE_SNAPSHOTS,
)


@dataclass(frozen=True)
class FunctionDefinition:
    """A Lambda function; `name` is its handler module in its `room`, `documents` the SSM documents it may send."""

    room: str
    name: str
    purpose: str
    permissions: tuple[P, ...]
    documents: tuple[str, ...] = ()
    memory_mib: int = DEFAULT_MEMORY_MIB
    timeout_seconds: int = DEFAULT_TIMEOUT_SECONDS

    @property
    def pascal_name(self) -> str:
        """`plan_scale_out` as `PlanScaleOut`: its construct id, and its ASL placeholder without `Arn`."""
        return "".join(part.capitalize() for part in self.name.split("_"))

    @property
    def handler(self) -> str:
        return f"peaker.handlers.{self.room}.{self.name}.handler"


F = FunctionDefinition

COMMON = (
    F("run", "validate_request", "Checks an execution's input and names the run", (P.READ_CLUSTER_SETTINGS,)),
    F("run", "acquire_lease", "Takes the cluster's lease (I6)", RECORDED),
    F("run", "release_lease", "Gives the cluster's lease back", RECORDED),
    F(
        "run",
        "record_receipt",
        "Writes what the run did, when and at what cost",
        (*STEP, P.DESCRIBE_SNAPSHOTS, P.DESCRIBE_VOLUMES, P.DELETE_SNAPSHOTS, P.READ_METRICS),
    ),
    F(
        "undo",
        "identify_stopped_run",
        "Finds the run that a stopped execution left half done",
        RECORDED,
    ),
    F(
        "undo",
        "undo_run",
        "Deletes what the run made, or parks again what it returned (I9)",
        (*STEP, *TEAR_DOWN, P.DESCRIBE_MANAGED_HOSTS, P.STOP_INSTANCES),
        ("stop_database",),
    ),
)

SCALE_OUT = (
    F(
        "plan",
        "check_shortage",
        "Asks whether an automatic start has anything to build",
        (*STEP, *FLEET, P.READ_METRICS),
        memory_mib=512,
    ),
    F(
        "plan",
        "plan_scale_out",
        "Decides whether a replica is needed, which and how; refuses with reasons",
        (
            *STEP,
            *FLEET,
            P.DESCRIBE_SNAPSHOTS,
            P.DESCRIBE_IMAGES,
            P.READ_METRICS,
            P.FETCH_PRICES,
            P.CHECK_VOLUME_KEYS,
        ),
        memory_mib=512,
    ),
    F(
        "create",
        "start_parked_replica",
        "Starts the instance of a parked replica",
        (*STEP, *FLEET, P.START_INSTANCES),
    ),
    F(
        "create",
        "await_parked_replica",
        "Asks whether the parked replica runs and takes commands",
        (*RECORDED, P.DESCRIBE_INSTANCES, P.DESCRIBE_MANAGED_HOSTS),
    ),
    F("create", "choose_donor", "Picks the replica to snapshot (I2)", (*STEP, *FLEET)),
    F(
        "run",
        "install_host_package",
        "Installs the host package on a host",
        (*RECORDED, P.READ_HOST_PACKAGE),
        ("install_host_package",),
    ),
    F("create", "prepare_donor", "Dumps the donor's page list and GTID set", STEP, ("prepare_donor",)),
    F(
        "create",
        "create_snapshots",
        "Snapshots all data volumes at one instant",
        (*RECORDED, P.DESCRIBE_INSTANCES, P.DESCRIBE_VOLUMES, P.DESCRIBE_SNAPSHOTS, P.CREATE_SNAPSHOTS),
    ),
    F(
        "create",
        "await_snapshots",
        "Asks whether the snapshots are complete, and measures what they copied",
        (*RECORDED, P.DESCRIBE_SNAPSHOTS, P.LIST_CHANGED_BLOCKS),
    ),
    F(
        "create",
        "launch_replica",
        "Launches the new replica's instance",
        (*STEP, P.DESCRIBE_INSTANCES, P.LAUNCH_INSTANCES),
    ),
    F(
        "create",
        "await_instance_online",
        "Asks whether the instance runs and takes commands",
        (*RECORDED, P.DESCRIBE_INSTANCES, P.DESCRIBE_VOLUMES, P.DESCRIBE_MANAGED_HOSTS),
    ),
    F(
        "create",
        "create_volumes",
        "Creates the volumes from the snapshots, in the instance's zone",
        (*RECORDED, P.DESCRIBE_VOLUMES, P.CREATE_VOLUMES),
    ),
    F(
        "create",
        "attach_volumes",
        "Attaches the volumes to the instance",
        (*STEP, P.DESCRIBE_VOLUMES, P.ATTACH_VOLUMES),
    ),
    F(
        "create",
        "assemble_storage",
        "Proves each volume on the host, mounts nothing",
        STEP,
        ("assemble_storage",),
    ),
    F(
        "warm",
        "start_prewarm",
        "Lists what the snapshots hold, starts the prewarm engine on the host",
        (*STEP, P.LIST_SNAPSHOT_BLOCKS, P.PUBLISH_RUN_FILES),
        ("start_prewarm",),
        memory_mib=512,
        timeout_seconds=180,
    ),
    F("warm", "report_prewarm", "Asks how far the prewarm has come", STEP, ("report_prewarm",)),
    F(
        "warm",
        "verify_storage",
        "Proves that the storage is warm (I5)",
        (*STEP, P.DESCRIBE_INSTANCE_TYPES),
        ("verify_storage",),
    ),
    F("join", "start_database", "Starts MySQL as a replica of its own identity", STEP, ("start_database",)),
    F(
        "join",
        "start_replication",
        "Points the replica at the source (I11)",
        RECORDED,
        ("start_replication",),
    ),
    F("join", "wait_for_catch_up", "Waits until lag is under the gate (I5)", STEP, ("wait_for_catch_up",)),
    F("join", "load_buffer_pool", "Loads the donor's page list", RECORDED, ("load_buffer_pool",)),
    F(
        "join",
        "register_replica",
        "Puts the proven replica behind the read endpoint",
        (*STEP, P.REGISTER_TARGETS),
    ),
    F(
        "join",
        "await_healthy",
        "Asks whether the endpoint finds it healthy",
        (*STEP, P.DESCRIBE_TARGET_HEALTH),
    ),
    F(
        "join",
        "ramp_traffic",
        "Raises its share of the reads while it answers as well as its peers",
        (*STEP, P.DESCRIBE_TARGET_HEALTH, P.REGISTER_TARGETS, P.SET_WEIGHTS),
        ("measure_service",),
    ),
)

SCALE_IN = (
    F(
        "leave",
        "check_surplus",
        "Asks whether an automatic start has anything to take away",
        (*STEP, *FLEET, P.READ_METRICS),
        memory_mib=512,
    ),
    F(
        "leave",
        "select_idle_replica",
        "Picks the peak replica to retire, never a base one",
        (*STEP, *FLEET, P.DESCRIBE_SNAPSHOTS, P.READ_METRICS, P.READ_PRICES),
        memory_mib=512,
    ),
    F(
        "leave",
        "guard_retirement",
        "Rechecks I1 to I4 and I8 just before",
        (*STEP, *FLEET, P.READ_METRICS),
        memory_mib=512,
    ),
    F(
        "leave",
        "deregister_replica",
        "Takes the replica out of the read endpoint",
        (*STEP, *FLEET, P.READ_METRICS, P.DEREGISTER_TARGETS),
    ),
    F(
        "leave",
        "drain_replica",
        "Asks whether connections and transactions are gone",
        STEP,
        ("drain_replica",),
    ),
    F("leave", "observe_idle", "Watches the drained replica for any use", STEP, ("drain_replica",)),
    F(
        "leave",
        "choose_disposal",
        "Compares parking with retiring, in seconds and USD",
        (*STEP, *FLEET, P.DESCRIBE_SNAPSHOTS, P.READ_PRICES),
        memory_mib=512,
    ),
    F(
        "leave",
        "park_replica",
        "Stops the database and the instance, keeps the warm volumes",
        (*STEP, *FLEET, P.READ_METRICS, P.STOP_INSTANCES),
        ("stop_database",),
        memory_mib=512,
    ),
    F(
        "leave",
        "retire_replica",
        "Terminates the replica and deletes what was made for it",
        (*STEP, *TEAR_DOWN, P.READ_METRICS),
    ),
    F(
        "leave",
        "restore_replica",
        "Puts a replica that must not go back into service",
        (*STEP, *FLEET, P.DESCRIBE_MANAGED_HOSTS, P.START_INSTANCES, P.REGISTER_TARGETS),
        ("start_database", "start_replication", "wait_for_catch_up"),
    ),
)

FORECAST = (
    F(
        "forecast",
        "forecast_load",
        "Forecasts the load and publishes shortage and surplus",
        (
            P.READ_CLUSTER_SETTINGS,
            P.READ_PRICES,
            P.KEEP_FORECASTS,
            *FLEET,
            P.DESCRIBE_SNAPSHOTS,
            P.READ_METRICS,
            P.PUBLISH_METRICS,
        ),
        memory_mib=1024,
        timeout_seconds=120,
    ),
)

WATCH = (
    F(
        "undo",
        "find_stopped_runs",
        "Starts roll_back where an execution ended without an undo",
        (P.LIST_CLUSTERS, P.READ_LEASES, P.FOLLOW_EXECUTIONS, P.START_ROLL_BACK),
    ),
    F(
        "join",
        "watch_replicas",
        "Tells the replicas their peers and floor, counts how they stand",
        (P.READ_CLUSTER_SETTINGS, P.DESCRIBE_INSTANCES, P.DESCRIBE_TARGET_HEALTH),
        ("report_health",),
    ),
)

SNAPSHOTS = (
    F(
        "create",
        "tend_snapshots",
        "Takes a first snapshot set of a cluster that is observed, deletes sets that nobody needs",
        (
            *STEP,
            *FLEET,
            P.LIST_CLUSTERS,
            P.READ_METRICS,
            P.READ_PRICES,
            P.DESCRIBE_SNAPSHOTS,
            P.CREATE_SNAPSHOTS,
            P.LIST_CHANGED_BLOCKS,
            P.DELETE_SNAPSHOTS,
        ),
        timeout_seconds=120,
    ),
)

PRICES = (
    F(
        "plan",
        "refresh_prices",
        "Asks the Price List API when the environment's prices are a week old or lack a type",
        (P.READ_CLUSTER_SETTINGS, P.FETCH_PRICES),
        timeout_seconds=120,
    ),
)

FUNCTIONS: tuple[FunctionDefinition, ...] = (*COMMON, *SCALE_OUT, *SCALE_IN, *FORECAST, *WATCH, *SNAPSHOTS, *PRICES)
