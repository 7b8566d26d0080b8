"""Every function: what it is for, what it may do, how much memory and time it gets.

One row per module in functions/peaker/handlers, of the same name; a test compares the two. Each row lists
only what that step needs. Host steps list the SSM documents that they may send.
"""

from __future__ import annotations

from dataclasses import dataclass

from stacks.permissions import Permission as P

DEFAULT_MEMORY_MIB = 256
DEFAULT_TIMEOUT_SECONDS = 60

# Reads of AWS and of the cluster's load on which a scaling decision rests.
FLEET = (P.DESCRIBE_INSTANCES, P.DESCRIBE_TARGET_HEALTH)
STEP = (P.READ_CLUSTER_SETTINGS, P.WRITE_LEDGER)
HOST_STEP = (*STEP, P.DESCRIBE_INSTANCES)


@dataclass(frozen=True)
class FunctionDefinition:
    """A Lambda function; `name` is its handler module, `documents` the SSM documents it may send."""

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
        return f"peaker.handlers.{self.name}.handler"


F = FunctionDefinition

COMMON = (
    F("validate_request", "Checks an execution's input and names the run", (P.READ_CLUSTER_SETTINGS,)),
    F("acquire_lease", "Takes the cluster's lease (I6)", STEP),
    F("release_lease", "Gives the cluster's lease back", STEP),
    F("record_receipt", "Writes what the run did, when and at what cost", (*STEP, P.PUBLISH_METRICS)),
    F(
        "undo_run",
        "Deletes, in reverse, what the ledger says the run made (I9)",
        (
            *STEP,
            *FLEET,
            P.DESCRIBE_VOLUMES,
            P.DESCRIBE_SNAPSHOTS,
            P.DEREGISTER_TARGETS,
            P.DELETE_RESOURCES,
            P.CANCEL_COMMANDS,
            P.PUBLISH_METRICS,
        ),
    ),
)

SCALE_OUT = (
    F(
        "plan_scale_out",
        "Decides whether a replica is needed, which and how; refuses with reasons",
        (*STEP, *FLEET, P.DESCRIBE_INSTANCE_TYPES, P.DESCRIBE_VOLUMES, P.DESCRIBE_SNAPSHOTS, P.READ_METRICS),
        memory_mib=512,
    ),
    F("choose_donor", "Picks the replica to snapshot (I2)", (*STEP, *FLEET, P.DESCRIBE_VOLUMES)),
    F(
        "install_host_package",
        "Installs the host package on a host",
        (*HOST_STEP, P.READ_HOST_PACKAGE),
        ("install_host_package",),
    ),
    F("prepare_donor", "Dumps the donor's page list and GTID set", HOST_STEP, ("prepare_donor",)),
    F(
        "create_snapshots",
        "Snapshots all data volumes at one instant",
        (*HOST_STEP, P.DESCRIBE_VOLUMES, P.DESCRIBE_SNAPSHOTS, P.CREATE_SNAPSHOTS),
    ),
    F("await_snapshots", "Asks whether the snapshots are complete", (*STEP, P.DESCRIBE_SNAPSHOTS)),
    F("launch_replica", "Launches the new replica's instance", (*HOST_STEP, P.LAUNCH_INSTANCES)),
    F(
        "await_instance_online",
        "Asks whether the instance runs and takes commands",
        (*HOST_STEP, P.DESCRIBE_MANAGED_HOSTS),
    ),
    F(
        "create_volumes",
        "Creates the volumes from the snapshots, in the instance's zone",
        (*HOST_STEP, P.DESCRIBE_VOLUMES, P.DESCRIBE_SNAPSHOTS, P.CREATE_VOLUMES),
    ),
    F(
        "attach_volumes",
        "Attaches the volumes and ties their life to the instance's",
        (*HOST_STEP, P.DESCRIBE_VOLUMES, P.ATTACH_VOLUMES),
    ),
    F("assemble_storage", "Proves each volume on the host, mounts nothing", HOST_STEP, ("assemble_storage",)),
    F("start_prewarm", "Starts the prewarm engine on the host", HOST_STEP, ("start_prewarm",)),
    F(
        "report_prewarm",
        "Asks how far the prewarm has come",
        (*HOST_STEP, P.PUBLISH_METRICS),
        ("report_prewarm",),
    ),
    F("verify_storage", "Proves that the storage is warm (I5)", HOST_STEP, ("verify_storage",)),
    F("start_database", "Starts MySQL as a replica of its own identity", HOST_STEP, ("start_database",)),
    F("start_replication", "Points the replica at the source (I11)", HOST_STEP, ("start_replication",)),
    F("wait_for_catch_up", "Waits until lag is under the gate (I5)", HOST_STEP, ("wait_for_catch_up",)),
    F("load_buffer_pool", "Loads the donor's page list", HOST_STEP, ("load_buffer_pool",)),
    F(
        "register_replica",
        "Puts the proven replica behind the read endpoint",
        (*STEP, *FLEET, P.REGISTER_TARGETS),
        ("set_maintenance",),
    ),
    F("await_healthy", "Asks whether the endpoint sends reads to it", (*STEP, *FLEET, P.PUBLISH_METRICS)),
)

SCALE_IN = (
    F(
        "select_idle_replica",
        "Picks the peak replica to retire, never a base one",
        (*STEP, *FLEET, P.READ_METRICS),
        memory_mib=512,
    ),
    F(
        "guard_retirement",
        "Rechecks I1 to I4 and I8 just before",
        (*STEP, *FLEET, P.DESCRIBE_VOLUMES, P.READ_METRICS),
        memory_mib=512,
    ),
    F(
        "deregister_replica",
        "Takes the replica out of the read endpoint",
        (*STEP, *FLEET, P.DEREGISTER_TARGETS),
        ("set_maintenance",),
    ),
    F(
        "drain_replica",
        "Asks whether connections and transactions are gone",
        (*HOST_STEP, P.DESCRIBE_TARGET_HEALTH),
        ("drain_replica",),
    ),
    F(
        "retire_replica",
        "Terminates the replica and deletes what was made for it",
        (*STEP, *FLEET, P.DESCRIBE_VOLUMES, P.DESCRIBE_SNAPSHOTS, P.DELETE_RESOURCES),
    ),
    F(
        "restore_replica",
        "Puts a replica that must not go back into service",
        (*STEP, *FLEET, P.REGISTER_TARGETS),
        ("set_maintenance",),
    ),
)

FORECAST = (
    F(
        "forecast_load",
        "Forecasts the load and publishes shortage and surplus",
        (
            P.READ_CLUSTER_SETTINGS,
            P.READ_LEDGER,
            *FLEET,
            P.DESCRIBE_VOLUMES,
            P.READ_METRICS,
            P.PUBLISH_METRICS,
        ),
        memory_mib=1024,
        timeout_seconds=120,
    ),
)

FUNCTIONS: tuple[FunctionDefinition, ...] = (*COMMON, *SCALE_OUT, *SCALE_IN, *FORECAST)
