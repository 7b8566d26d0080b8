"""The catalogue's types describe a function and the steps that call it.

A step is a state of a workflow that calls a function. Ledger, logs and receipt have it under its state's name.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from peaker_contract.permissions import Permission

DEFAULT_MEMORY_MIB = 256
DEFAULT_TIMEOUT_SECONDS = 60
# The document by which a host is asked whether it is at work on a command that does not end.
REPORT_WORK = "report_work"


class Phase(StrEnum):
    """A phase of a replica's life: the room of the function's use case."""

    RUN = "run"
    PLAN = "plan"
    FORECAST = "forecast"
    CREATE = "create"
    WARM = "warm"
    JOIN = "join"
    LEAVE = "leave"
    UNDO = "undo"


class Method(StrEnum):
    """A method brings a replica into service: built from snapshots, or parked before and started again."""

    BUILD = "build"
    RETURN = "return"


class Part(StrEnum):
    """A part of the lead time that a step counts as, in the order in which the parts pass.

    The trigger comes before them and is no step. Snapshot and instance pass side by side; the hydration goes on beside
    the recovery, and the replica catches up beside the rest of it and the benchmark.
    """

    DONOR = "donor"
    SNAPSHOT = "snapshot"
    INSTANCE = "instance"
    STORAGE = "storage"
    HYDRATION = "hydration"
    RECOVERY = "recovery"
    BENCHMARK = "benchmark"
    CATCH_UP = "catch_up"
    BUFFER_POOL = "buffer_pool"
    REGISTRATION = "registration"
    RAMP = "ramp"

    @property
    def position(self) -> int:
        """0 for the first part."""
        return list(Part).index(self)


@dataclass(frozen=True)
class Step:
    """One state of that name. `part` and `methods` are given where a replica is on its way into service.

    `concurrent`: other steps are at work too. `serves`: once it has ended the replica has its full share of the reads;
    the lead time, and the receipt's time from alarm to serving, end there.
    """

    state: str
    part: Part | None = None
    methods: frozenset[Method] = frozenset()
    concurrent: bool = False
    serves: bool = False

    def __post_init__(self) -> None:
        if (self.part is None) != (not self.methods):
            raise ValueError(
                f"{self.state}: say both, its part of the lead time and the methods that pass it"
            )


@dataclass(frozen=True)
class FunctionDefinition:
    """A Lambda function. `name` is its use case, in the room of its `phase`.

    `documents`: the SSM documents it may send. `steps`: the states that call it; none where a schedule calls it.
    `recorded`: the ledger has the step's start, end and numbers.
    """

    phase: Phase
    name: str
    purpose: str
    permissions: tuple[Permission, ...]
    documents: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    memory_mib: int = DEFAULT_MEMORY_MIB
    timeout_seconds: int = DEFAULT_TIMEOUT_SECONDS
    recorded: bool = True

    @property
    def pascal_name(self) -> str:
        """`plan_scale_out` as `PlanScaleOut`: its construct id, and its ASL placeholder without `Arn`."""
        return "".join(part.capitalize() for part in self.name.split("_"))

    @property
    def sent_documents(self) -> tuple[str, ...]:
        """Returns the documents that its role may send. A function with commands in the ledger also asks
        whether a host is at work on them.
        """
        waits = bool(self.documents) and Permission.WRITE_LEDGER in self.permissions
        return (*self.documents, REPORT_WORK) if waits else self.documents

    @property
    def is_asynchronous(self) -> bool:
        """Called by a schedule, which does not wait for the answer: nobody sees its error."""
        return not self.steps

    @property
    def handler(self) -> str:
        """Returns the handler that Lambda imports and calls."""
        return f"peaker.handlers.{'steps' if self.steps else 'scheduled'}.{self.name}"
