"""Results of host commands: the last line of an output is one JSON object; and the SSM agent that runs them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from pydantic import ConfigDict, Field, StrictBool, ValidationError

from peaker.domain.decoding import Frozen, measured_json, misfits
from peaker_contract.errors import AgentTooOld, HostCommandFailed

RESULT_VERSION = 1
# It runs before the host package is there, not out of it.
NOT_OF_THE_PACKAGE = frozenset({"install_host_package"})
# They change the host, which refuses them when they come late or under an older fencing token.
FENCED_DOCUMENTS = frozenset(
    {
        "assemble_storage",
        "drain_replica",
        "load_buffer_pool",
        "prepare_donor",
        "start_database",
        "start_prewarm",
        "start_replication",
        "stop_database",
        "verify_storage",
    }
)
# The host's errors of a command that it did not begin and that may be sent again.
NOT_BEGUN = frozenset({"CommandTooLate", "HostBusy"})
FENCED = "CommandFenced"
_LONGEST_TEXT = 4000

ResultT = TypeVar("ResultT", bound="HostResult")


# Beyond these a figure is damage: 300 years, and what a counter of 64 bits holds.
Seconds = Annotated[float, Field(ge=0, le=1e10)]
Count = Annotated[int, Field(ge=0, le=2**63)]
Amount = Annotated[float, Field(ge=0, le=1e18)]


class HostResult(Frozen):
    """Base of the typed results; hosts may say more than is read here."""

    model_config = ConfigDict(allow_inf_nan=False)


class DonorPrepared(HostResult):
    """The donor's position and lag right before the snapshot."""

    gtid_set: str
    lag_seconds: Seconds | None
    server_uuid: str
    buffer_pool_pages: Count
    data_bytes: Count
    # What each mount point stands on, as the host package says it; None of a host that does not say.
    layout: list[dict[str, Any]] | None = None
    # What the image is held against; empty of a host that does not say.
    server: dict[str, Any] = Field(default_factory=dict)


class StorageAssembled(HostResult):
    """Notes about an image that fits."""

    image: list[str] = Field(default_factory=list)


class PrewarmReport(HostResult):
    """The prewarm engine's progress; rate and remaining time are None while they are not known."""

    state: Literal["running", "done", "failed", "dead"]
    blocks_done: Count | None = None
    blocks_total: Count | None = None
    bytes_read: Count | None = None
    rate_mib_per_s: Amount | None = None
    eta_seconds: Seconds | None = None
    elapsed_seconds: Seconds | None = None
    hot_warm_seconds: Seconds | None = None
    hot_eta_seconds: Seconds | None = None
    hot_unknown: str = ""
    throttled: str = ""
    used_warm_seconds: Seconds | None = None
    message: str | None = None


class StorageProof(HostResult):
    """Whether the volumes answer at their own speed."""

    verdict: Literal["warm", "not_warm", "unknown"]
    await_cold_ms: Amount | None = None
    await_first_ms: Amount | None = None
    await_second_ms: Amount | None = None
    ratio: Amount | None = None
    cold_share_upper: float | None = None
    blocks_sampled: Count | None = None
    reason: str | None = None


class WorkReport(HostResult):
    """Whether the command that was asked for runs on the host."""

    at_work: StrictBool


class MountedVolume(HostResult):
    """A volume of the run, by its name in the settings; `problem` is empty where it is mounted and takes writes."""

    name: str
    mount_point: str
    problem: str


class MountsChecked(HostResult):
    """The mounts of the volumes that were proven."""

    mounts: list[MountedVolume]


class ServiceReport(HostResult):
    """The server's answers to its clients in a window; `measurable` is false without statement statistics."""

    queries: Count
    errors: Count
    mean_ms: Amount | None
    measurable: bool = True


class HealthReport(HostResult):
    """The answer of a replica's health responder; `kept_by_floor` means that it serves although it lags.

    `reads_per_second` are the clients' statements since the last report, None where the host could not know them;
    `reads_unknown` is why.
    """

    http_status: int
    state: str
    why: str
    kept_by_floor: bool = False
    lag_seconds: Seconds | None = None
    reads_per_second: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    reads_unknown: str = ""


class DrainReport(HostResult):
    """Clients that are on the replica now, and the statements that clients have run since it started."""

    connections: int = Field(ge=0)
    transactions: int = Field(ge=0)
    client_statements: int | None = Field(default=None, ge=0)

    @property
    def is_idle(self) -> bool:
        return self.connections == 0 and self.transactions == 0


class DatabaseStopped(HostResult):
    """A clean shutdown: what was applied, how long the source keeps its binary logs; None where it could not say."""

    gtid_set: str | None = None
    binlog_expire_seconds: Seconds | None = None


def last_json_line(stdout: str) -> dict[str, Any] | None:
    """The object on the last non-empty line, or None when that line is not one."""
    lines = [line for line in stdout.splitlines() if line.strip()]
    if not lines:
        return None
    try:
        document = measured_json(lines[-1])
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def parse_success(document: str, stdout: str) -> dict[str, Any]:
    """The result without its envelope. Raises HostCommandFailed when there is none or it is not a success."""
    result = last_json_line(stdout)
    if result is None:
        raise HostCommandFailed(f"{document}: the last line of the output is not JSON: {stdout[-300:]!r}")
    if result.get("version") != RESULT_VERSION:
        raise HostCommandFailed(
            f"{document}: result version {repr(result.get('version'))[:40]}, this control plane reads "
            f"{RESULT_VERSION}; deploy functions and host package of one release"
        )
    if result.get("ok") is not True:
        raise HostCommandFailed(failure_text(document, result))
    return {key: value for key, value in result.items() if key not in {"version", "command", "ok"}}


def failure_text(document: str, result: dict[str, Any] | None, otherwise: str = "") -> str:
    """`assemble_storage: VolumeMissing: ...` from the host's own error, or what Systems Manager said."""
    if result and result.get("error"):
        return f"{document}: {str(result['error'])[:_LONGEST_TEXT]}: {str(result.get('message', ''))[:_LONGEST_TEXT]}"
    return f"{document}: {otherwise or 'failed without a result'}"


def typed(document: str, model: type[ResultT], numbers: dict[str, Any]) -> ResultT:
    """The numbers as a model. Raises HostCommandFailed that names what is missing."""
    try:
        return model.model_validate(numbers)
    except ValidationError as error:
        raise HostCommandFailed(f"{document}: result does not fit: {misfits(error)}") from error


# The first that hands parameters to the shell as environment variables (Systems Manager guide, interpolationType).
OLDEST_AGENT = "3.3.2746.0"
_VERSION = re.compile(r"\d{1,9}(\.\d{1,9})*")
# What any shell says under `set -u` of a variable that nobody set; the rest of the line is in the system's language.
_NOT_SET = re.compile(r"\bSSM_[A-Za-z0-9]+: .*")


@dataclass(frozen=True)
class Agent:
    """An agent as Systems Manager knows it, with its word for `status`; `version` is empty where it knows none."""

    is_online: bool
    version: str = ""
    status: str = "not registered"

    @property
    def is_too_old(self) -> bool:
        """Tells whether no document can work there. An unreadable version counts as new enough."""
        return _numbers(self.version) < _numbers(OLDEST_AGENT)


def require_parameters(instance_id: str, agent: Agent) -> None:
    """Raises AgentTooOld."""
    if agent.is_too_old:
        found = agent.version[:40] or "of unknown version"
        raise AgentTooOld(
            f"the SSM agent of {instance_id} is {found}; Peaker's documents need {OLDEST_AGENT} or newer"
        )


def require_set_parameters(document: str, instance_id: str, stderr: str) -> None:
    """Raises AgentTooOld for a failed document whose parameters never came to the shell.

    A host's agent may go back to an older version at any time: its package manager takes back what was installed.
    """
    said = _NOT_SET.search(stderr)
    if said:
        raise AgentTooOld(
            f"{document}: the SSM agent of {instance_id} gives the shell no parameters ({said.group(0)[:120]}); "
            f"Peaker's documents need {OLDEST_AGENT} or newer"
        )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")) if _VERSION.fullmatch(version) else ()
