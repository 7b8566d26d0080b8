"""Every function and every step: what it is for, where it belongs, what it may do, what it counts as.

One row per Lambda function, named as its use case in the room of its phase; one step per state of the workflows that
calls it. Tests compare them. The handler is made of the row. Each row lists only the permissions that its step needs.
"""

from __future__ import annotations

from peaker_contract.permissions import Permission as P
from peaker_contract.steps import FunctionDefinition, Method, Part, Phase, Step

RECORDED = (P.WRITE_LEDGER,)
STEP = (P.READ_CLUSTER_SETTINGS, *RECORDED)
# What it takes to see the fleet: hosts, their volumes, and who gets traffic.
FLEET = (P.DESCRIBE_INSTANCES, P.DESCRIBE_VOLUMES, P.DESCRIBE_TARGET_HEALTH)
# What it takes to plan a scale-out.
PLANNING = (
    *STEP,
    *FLEET,
    P.DESCRIBE_SNAPSHOTS,
    P.DESCRIBE_IMAGES,
    P.DESCRIBE_INSTANCE_TYPES,
    P.DESCRIBE_CAPACITY_RESERVATIONS,
    P.READ_METRICS,
    P.FETCH_PRICES,
    P.READ_QUOTAS,
    P.CHECK_VOLUME_KEYS,
)
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


BUILD = frozenset({Method.BUILD})
RETURN = frozenset({Method.RETURN})
EITHER = BUILD | RETURN

F = FunctionDefinition
S = Step


FUNCTIONS: tuple[FunctionDefinition, ...] = (
    # of every workflow
    F(
        Phase.RUN,
        "validate_request",
        "Checks an execution's input and names the run",
        (P.READ_CLUSTER_SETTINGS, P.PUT_EVENTS),
        recorded=False,
        steps=(S("ValidateRequest"),),
    ),
    F(
        Phase.RUN,
        "acquire_lease",
        "Takes the cluster's lease (I6)",
        (*RECORDED, P.PUT_EVENTS),
        steps=(
            S("AcquireLease"),
            S("FenceScaleOut"),
            S("FenceScaleIn"),
            S("FenceStoppedRun"),
            S("FenceMember"),
        ),
    ),
    F(
        Phase.RUN,
        "release_lease",
        "Gives the cluster's lease back, and lets scale_out look whether a replica was waiting for it",
        (*RECORDED, P.START_SCALE_OUT),
        recorded=False,
        steps=(
            S("ReleaseLease"),
            S("ReleaseUnseenLease"),
            S("ReleaseUnusedLease"),
            S("ReleaseLeaseAfterFailure"),
            S("ReleaseLeaseAfterIncompleteUndo"),
            S("ReleaseRecordedRun"),
            S("ReleaseRolledBackLease"),
            S("ReleaseUnfinishedRun"),
            S("ReleaseLeaseAfterIncompleteRollBack"),
        ),
    ),
    F(
        Phase.RUN,
        "record_receipt",
        "Writes what the run did, when and at what cost",
        (
            *STEP,
            P.DESCRIBE_SNAPSHOTS,
            P.DESCRIBE_VOLUMES,
            P.DELETE_SNAPSHOTS,
            P.READ_METRICS,
            P.PUT_EVENTS,
        ),
        steps=(
            S("RecordReceipt"),
            S("RecordMember"),
            S("RecordMemberUndone"),
            S("RecordMemberLeft"),
            S("RecordMemberRefused"),
            S("RecordRefusal"),
            S("RecordFailure"),
            S("RecordUndoIncomplete"),
            S("RecordRollBack"),
            S("RecordRollBackIncomplete"),
        ),
    ),
    F(
        Phase.UNDO,
        "identify_stopped_run",
        "Finds the run that a stopped execution left half done",
        (*RECORDED, P.LIST_CLUSTERS, P.LIST_EXECUTIONS),
        recorded=False,
        steps=(S("IdentifyStoppedRun"),),
    ),
    F(
        Phase.UNDO,
        "undo_run",
        "Deletes what the run made, or parks again what it returned (I9); what serves stays",
        (
            *STEP,
            *TEAR_DOWN,
            P.DESCRIBE_MANAGED_HOSTS,
            P.STOP_INSTANCES,
            P.REGISTER_TARGETS,
            P.READ_METRICS,
        ),
        ("stop_database",),
        steps=(S("UndoScaleOut"), S("UndoStoppedRun"), S("UndoMember")),
    ),
    # of scale_out
    F(
        Phase.PLAN,
        "check_shortage",
        "Asks whether an automatic start has anything to build",
        (*STEP, *FLEET, P.READ_METRICS),
        memory_mib=512,
        steps=(S("CheckShortage"),),
    ),
    F(
        Phase.PLAN,
        "plan_scale_out",
        "Decides whether a replica is needed, which and how; refuses with reasons",
        (*PLANNING, P.TELL_OPERATORS),
        memory_mib=512,
        steps=(S("PlanOnly"), S("PlanScaleOut")),
    ),
    F(
        Phase.PLAN,
        "next_members",
        "Says which replicas of the batch begin now, and how it stands when none does",
        (
            *STEP,
            *FLEET,
            P.DESCRIBE_SNAPSHOTS,
            P.DESCRIBE_IMAGES,
            P.DESCRIBE_INSTANCE_TYPES,
            P.DESCRIBE_CAPACITY_RESERVATIONS,
            P.READ_METRICS,
            P.FETCH_PRICES,
            P.READ_QUOTAS,
            P.CHECK_VOLUME_KEYS,
        ),
        memory_mib=512,
        steps=(S("NextMembers"),),
    ),
    F(
        Phase.CREATE,
        "start_parked_replica",
        "Starts the instance of a parked replica",
        (*STEP, *FLEET, P.START_INSTANCES),
        steps=(S("StartParkedReplica", Part.INSTANCE, RETURN),),
    ),
    F(
        Phase.CREATE,
        "choose_donor",
        "Picks the replica to snapshot (I2)",
        (*STEP, *FLEET, P.READ_METRICS),
        steps=(S("ChooseDonor", Part.DONOR, BUILD),),
    ),
    F(
        Phase.RUN,
        "install_host_package",
        "Installs the host package on a host",
        (*RECORDED, P.READ_HOST_PACKAGE),
        ("install_host_package",),
        steps=(
            S("InstallOnDonor", Part.DONOR, BUILD),
            S("InstallOnReplica", Part.INSTANCE, BUILD, concurrent=True),
            S("InstallOnParkedReplica", Part.INSTANCE, RETURN),
        ),
    ),
    F(
        Phase.CREATE,
        "prepare_donor",
        "Dumps the donor's page list and GTID set",
        (*STEP, P.DESCRIBE_INSTANCES),
        ("prepare_donor",),
        steps=(S("PrepareDonor", Part.DONOR, BUILD),),
    ),
    F(
        Phase.CREATE,
        "create_snapshots",
        "Snapshots all data volumes at one instant",
        (*RECORDED, P.DESCRIBE_INSTANCES, P.DESCRIBE_VOLUMES, P.DESCRIBE_SNAPSHOTS, P.CREATE_SNAPSHOTS),
        steps=(S("CreateSnapshots", Part.SNAPSHOT, BUILD),),
    ),
    F(
        Phase.CREATE,
        "await_snapshots",
        "Asks whether the snapshots are complete",
        (*RECORDED, P.DESCRIBE_SNAPSHOTS),
        steps=(S("AwaitSnapshots", Part.SNAPSHOT, BUILD, concurrent=True),),
    ),
    F(
        Phase.CREATE,
        "launch_replica",
        "Launches the new replica's instance",
        (*RECORDED, P.DESCRIBE_INSTANCES, P.LAUNCH_INSTANCES),
        steps=(S("LaunchReplica", Part.INSTANCE, BUILD, concurrent=True),),
    ),
    F(
        Phase.CREATE,
        "await_instance_online",
        "Asks whether the instance runs and takes commands",
        (*RECORDED, P.DESCRIBE_INSTANCES, P.DESCRIBE_VOLUMES, P.DESCRIBE_MANAGED_HOSTS),
        steps=(
            S("AwaitInstanceOnline", Part.INSTANCE, BUILD, concurrent=True),
            S("AwaitParkedReplica", Part.INSTANCE, RETURN),
        ),
    ),
    F(
        Phase.CREATE,
        "create_volumes",
        "Creates the volumes from the snapshots, in the instance's zone",
        (*RECORDED, P.DESCRIBE_VOLUMES, P.CREATE_VOLUMES),
        steps=(S("CreateVolumes", Part.STORAGE, BUILD),),
    ),
    F(
        Phase.CREATE,
        "attach_volumes",
        "Attaches the volumes to the instance",
        (*RECORDED, P.DESCRIBE_VOLUMES, P.ATTACH_VOLUMES),
        steps=(S("AttachVolumes", Part.STORAGE, BUILD),),
    ),
    F(
        Phase.CREATE,
        "assemble_storage",
        "Proves each volume on the host and looks at the image's server, mounts nothing",
        STEP,
        ("assemble_storage",),
        steps=(S("AssembleStorage", Part.STORAGE, BUILD),),
    ),
    F(
        Phase.WARM,
        "start_prewarm",
        "Starts the engine that reads what the snapshots hold",
        (*RECORDED, P.LIST_SNAPSHOT_BLOCKS, P.PUBLISH_RUN_FILES),
        ("start_prewarm",),
        memory_mib=512,
        timeout_seconds=180,
        steps=(S("StartPrewarm", Part.HYDRATION, BUILD),),
    ),
    F(
        Phase.WARM,
        "report_prewarm",
        "Asks how far the prewarm has come",
        STEP,
        ("report_prewarm",),
        steps=(S("ReportPrewarm", Part.HYDRATION, BUILD),),
    ),
    F(
        Phase.WARM,
        "verify_storage",
        "Proves that the storage is warm (I5)",
        (*STEP, P.DESCRIBE_INSTANCES, P.DESCRIBE_INSTANCE_TYPES),
        ("verify_storage",),
        steps=(S("VerifyStorage", Part.BENCHMARK, BUILD),),
    ),
    F(
        Phase.JOIN,
        "start_database",
        "Starts MySQL as a replica of its own identity",
        (*STEP, P.DESCRIBE_INSTANCES),
        ("start_database",),
        steps=(S("StartDatabase", Part.RECOVERY, EITHER),),
    ),
    F(
        Phase.JOIN,
        "start_replication",
        "Points the replica at the source (I11)",
        (*STEP, P.DESCRIBE_INSTANCES),
        ("start_replication",),
        steps=(S("StartReplication", Part.RECOVERY, EITHER),),
    ),
    F(
        Phase.JOIN,
        "wait_for_catch_up",
        "Waits until lag is under the gate (I5); starts the database of a host that booted anew",
        (*STEP, *FLEET),
        ("wait_for_catch_up", "start_database", "start_replication"),
        steps=(S("WaitForCatchUp", Part.CATCH_UP, EITHER),),
    ),
    F(
        Phase.JOIN,
        "load_buffer_pool",
        "Loads the donor's page list",
        RECORDED,
        ("load_buffer_pool",),
        steps=(S("LoadBufferPool", Part.BUFFER_POOL, EITHER),),
    ),
    F(
        Phase.JOIN,
        "register_replica",
        "Puts the proven replica behind the read endpoint",
        (*STEP, *FLEET, P.REGISTER_TARGETS, P.SET_WEIGHTS),
        ("check_mounts",),
        steps=(S("RegisterReplica", Part.REGISTRATION, EITHER),),
    ),
    F(
        Phase.JOIN,
        "await_healthy",
        "Asks whether the endpoint finds it healthy",
        (*STEP, P.DESCRIBE_TARGET_HEALTH),
        steps=(S("AwaitHealthy", Part.REGISTRATION, EITHER),),
    ),
    F(
        Phase.JOIN,
        "ramp_traffic",
        "Raises its share of the reads while it answers as well as its peers",
        (
            *STEP,
            P.DESCRIBE_INSTANCES,
            P.DESCRIBE_MANAGED_HOSTS,
            P.DESCRIBE_TARGET_HEALTH,
            P.REGISTER_TARGETS,
            P.SET_WEIGHTS,
        ),
        ("measure_service",),
        steps=(S("RampTraffic", Part.RAMP, EITHER, serves=True),),
    ),
    # of scale_in
    F(
        Phase.LEAVE,
        "check_surplus",
        "Asks whether an automatic start has anything to take away",
        (*STEP, *FLEET, P.READ_METRICS),
        memory_mib=512,
        steps=(S("CheckSurplus"),),
    ),
    F(
        Phase.LEAVE,
        "select_idle_replicas",
        "Says how many peak replicas may go and which, never a base one",
        (*STEP, *FLEET, P.DESCRIBE_SNAPSHOTS, P.DESCRIBE_IMAGES, P.READ_METRICS, P.READ_PRICES),
        memory_mib=512,
        steps=(S("PlanOnly"), S("SelectIdleReplicas")),
    ),
    F(
        Phase.LEAVE,
        "guard_retirement",
        "Rechecks I1 to I4 and I8 just before",
        (*STEP, *FLEET, P.READ_METRICS),
        memory_mib=512,
        steps=(S("GuardRetirement"),),
    ),
    F(
        Phase.LEAVE,
        "deregister_replica",
        "Takes the replica out of the read endpoint",
        (*STEP, *FLEET, P.READ_METRICS, P.DEREGISTER_TARGETS),
        steps=(S("DeregisterReplica"),),
    ),
    F(
        Phase.LEAVE,
        "drain_replica",
        "Asks whether connections and transactions are gone, and whether it is needed again",
        (*STEP, *FLEET, P.READ_METRICS),
        ("drain_replica",),
        steps=(S("DrainReplica"),),
    ),
    F(
        Phase.LEAVE,
        "confirm_idle",
        "Confirms that nobody uses the drained replica, or needs it",
        (*STEP, *FLEET, P.READ_METRICS),
        ("drain_replica",),
        steps=(S("ConfirmIdle"),),
    ),
    F(
        Phase.LEAVE,
        "park_replica",
        "Compares parking with retiring; to park stops database and instance, keeps the warm volumes",
        (
            *STEP,
            *FLEET,
            P.DESCRIBE_SNAPSHOTS,
            P.DESCRIBE_IMAGES,
            P.READ_PRICES,
            P.READ_METRICS,
            P.STOP_INSTANCES,
        ),
        ("stop_database",),
        memory_mib=512,
        steps=(S("ParkReplica"),),
    ),
    F(
        Phase.LEAVE,
        "retire_replica",
        "Terminates the replica and deletes what was made for it",
        (*STEP, *TEAR_DOWN, P.READ_METRICS),
        steps=(S("RetireReplica"),),
    ),
    F(
        Phase.LEAVE,
        "sum_up_removal",
        "Says which replicas of the batch have gone, and what failed or was refused",
        RECORDED,
        steps=(S("SumUpRemoval"),),
    ),
    F(
        Phase.UNDO,
        "undo_removal",
        "Puts replicas that must not go back into service, finishes what cannot be taken back (I9)",
        (
            *STEP,
            *TEAR_DOWN,
            P.READ_METRICS,
            P.DESCRIBE_MANAGED_HOSTS,
            P.START_INSTANCES,
            P.REGISTER_TARGETS,
        ),
        ("start_database", "start_replication", "wait_for_catch_up"),
        steps=(S("UndoScaleIn"), S("UndoRemoval"), S("RestoreStoppedRun")),
    ),
    # of schedules
    F(
        Phase.FORECAST,
        "forecast_load",
        "Forecasts the load and publishes shortage and surplus",
        (
            P.READ_CLUSTER_SETTINGS,
            P.READ_PRICES,
            P.DESCRIBE_IMAGES,
            P.KEEP_FORECASTS,
            *FLEET,
            P.DESCRIBE_SNAPSHOTS,
            P.READ_METRICS,
            P.PUBLISH_METRICS,
            P.PUT_EVENTS,
        ),
        memory_mib=1024,
        timeout_seconds=120,
    ),
    F(
        Phase.UNDO,
        "sweep_orphans",
        "Takes up what nobody works on: runs without an execution, replicas and things out of line with the ledger",
        (
            *STEP,
            *TEAR_DOWN,
            P.LIST_CLUSTERS,
            P.FOLLOW_EXECUTIONS,
            P.LIST_EXECUTIONS,
            P.READ_METRICS,
            P.DESCRIBE_MANAGED_HOSTS,
            P.START_INSTANCES,
            P.STOP_INSTANCES,
            P.REGISTER_TARGETS,
            P.PUT_EVENTS,
        ),
        ("stop_database", "start_database", "start_replication", "wait_for_catch_up"),
        memory_mib=512,
        timeout_seconds=120,
    ),
    F(
        Phase.JOIN,
        "check_replicas",
        "Tells the replicas their peers and floor, counts how they stand and what they answer",
        (
            *(P.READ_CLUSTER_SETTINGS, P.READ_LEDGER, P.DESCRIBE_INSTANCES, P.DESCRIBE_TARGET_HEALTH),
            P.READ_HOST_PACKAGE,
        ),
        ("report_health", "install_host_package"),
    ),
    F(
        Phase.CREATE,
        "maintain_snapshots",
        "Takes a first snapshot set of a cluster that is observed, deletes sets that nobody needs",
        (
            *STEP,
            *FLEET,
            P.LIST_CLUSTERS,
            P.READ_METRICS,
            P.READ_PRICES,
            P.DESCRIBE_SNAPSHOTS,
            P.CREATE_SNAPSHOTS,
            P.DELETE_SNAPSHOTS,
        ),
        timeout_seconds=120,
    ),
    F(
        Phase.PLAN,
        "refresh_prices",
        "Asks the Price List API when the environment's prices are a week old or lack a type",
        (P.READ_CLUSTER_SETTINGS, P.FETCH_PRICES),
        timeout_seconds=120,
    ),
)

STEPS: tuple[Step, ...] = tuple(step for definition in FUNCTIONS for step in definition.steps)


def state_of(function: str) -> str:
    """The state that calls a function where nothing went wrong: the first of its row. Raises KeyError without one."""
    states = {definition.name: definition.steps[0].state for definition in FUNCTIONS if definition.steps}
    return states[function]


def states_of(*parts: Part, method: Method = Method.BUILD) -> tuple[str, ...]:
    """The states that such a run passes for these parts of its lead time."""
    return tuple(step.state for step in STEPS if step.part in parts and method in step.methods)


def states_passed(method: Method) -> frozenset[str]:
    """All states that such a run passes between its plan and its receipt."""
    return frozenset(states_of(*Part, method=method))


def parts_of(method: Method) -> tuple[Part, ...]:
    """The parts of the lead time of such a run, in the order in which they pass."""
    return tuple(part for part in Part if states_of(part, method=method))


def concurrent_states() -> frozenset[str]:
    """The states that pass while others are at work too."""
    return frozenset(step.state for step in STEPS if step.concurrent)


def serving_state() -> str:
    """The state at whose end a replica has its full share of the reads."""
    [state] = (step.state for step in STEPS if step.serves)
    return state
