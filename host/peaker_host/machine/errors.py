"""Why a command refused or failed. The class name is the `error` of the result line and never changes meaning.

`understood` names what a file, program or server answered that cannot be read, so that no command ends unexpectedly.
"""

from __future__ import annotations

import contextlib
import json
import struct
from dataclasses import fields, is_dataclass
from typing import (
    Any,
    Callable,
    Dict,
    Iterator,
    Optional,
    Type,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)


class HostError(Exception):
    """Base of every named failure. `numbers` goes into the result line beside the message."""

    def __init__(self, message: str, numbers: Optional[Dict[str, Any]] = None) -> None:
        super().__init__(message)
        self.numbers: Dict[str, Any] = numbers or {}


class InvalidArgument(HostError):
    """A parameter has a value that the command cannot use."""


class InvalidHostSettings(HostError):
    """host.json is not readable JSON or holds an unknown or wrongly typed field."""


class CommandTooLate(HostError):
    """The command came after the latest time at which it might begin; nothing was changed."""


class CommandFenced(HostError):
    """The host has seen a higher fencing token: another run has taken over; nothing was changed."""


class HostBusy(HostError):
    """Another command changes the host and did not end in time; nothing was changed."""


class ImageUnfit(HostError):
    """The server of the image cannot become a replica of this cluster. The message says what to do with the image."""


class UnreadableFile(HostError):
    """A file that this package or the server wrote is damaged or of another form; the message says what to do."""


class CommandFailed(HostError):
    """A program that the host depends on ended with an error or did not end in time."""


class ToolMissing(HostError):
    """A program that the host depends on is not installed."""


class DeviceNotFound(HostError):
    """The volume did not appear on this host within the time given."""


class WrongDevice(HostError):
    """The device is not the volume that was asked for, or not a block device."""


class DeviceInUse(HostError):
    """The device is mounted at another place, or claimed by something else."""


class NoFilesystem(HostError):
    """The device carries no superblock, or another filesystem than the one expected."""


class StorageNotAssembled(HostError):
    """No manifest of this run's volumes: assemble_storage has not succeeded on this host."""


class LayoutUnsupported(HostError):
    """The donor's filesystem stands on something that cannot be snapshotted and put together again; says what."""


class SetRefused(HostError):
    """The volumes are not the set that was snapshotted: one is missing, of another size, or of another set. Named."""


class AssemblyFailed(HostError):
    """mdadm or LVM did not bring the set up; the message carries what it said."""


class UnreadableFilesystem(HostError):
    """The filesystem's directories or file maps could not be read or make no sense."""


class LogNotReplayed(HostError):
    """The filesystem cannot be mounted, so its log cannot be replayed; or its free extents cannot be listed."""


class FilesystemTruncated(HostError):
    """The filesystem is larger than its device."""


class BlockListUnreadable(HostError):
    """The snapshot's block list could not be fetched or is not in the stated format."""


class PrewarmNotStarted(HostError):
    """No prewarm of this run is known on this host."""


class PrewarmAlreadyRunning(HostError):
    """Another prewarm holds this host."""


class Interrupted(HostError):
    """The engine was told to end while something was under way; started again, it goes on."""


class StateDirectoryFull(HostError):
    """A disk, as a rule that of state_dir, has no space left for what a command or the engine must keep."""


class ReadErrors(HostError):
    """Some ranges could not be read after several tries."""


class BenchmarkFailed(HostError):
    """The load generator or iostat gave no usable result."""


class DonorIsSource(HostError):
    """The chosen donor has no replication channel or accepts writes: it must not be snapshotted."""


class DonorNotReplicating(HostError):
    """The donor is a replica, but one of its replication threads does not run."""


class DataOutsideVolumes(HostError):
    """The donor keeps something that a copy needs on a filesystem that is not snapshotted."""


class UnsupportedChannels(HostError):
    """The server has several replication channels, or one of a kind that a copy could not follow."""


class FiltersDiffer(HostError):
    """The copy's replication filters are not its donor's."""


class BufferPoolTimeout(HostError):
    """The dump or load of the buffer pool's page list did not end in time."""


class DatabaseUnreachable(HostError):
    """The database did not answer in time."""


class UnclearAnswer(HostError):
    """The server answered with what this package cannot read; the message names it."""


class DatabaseStartFailed(HostError):
    """The database did not come up. The message carries the end of its error log."""


class DatabaseStillRunning(HostError):
    """A server answers on this host although its service was stopped: nothing may be mounted over its files."""


class IdentityNotTaken(HostError):
    """The copy runs with a setting of its donor, or accepts writes, whatever the files say. It was stopped again."""


class TornSnapshot(HostError):
    """InnoDB says that a log sequence number is in the future: the volumes are not of one instant."""


class ReplicationNotConfigured(HostError):
    """The data directory holds no replication user and no credentials file names one."""


class BinlogsGone(HostError):
    """The source no longer holds the binary logs that this replica needs."""


class ErrantTransactions(HostError):
    """This replica holds transactions that the source does not."""


class ReplicationStopped(HostError):
    """A replication thread stopped with an error."""


class CatchUpTimeout(HostError):
    """The lag did not stay under its gate within the time given."""


class ServerRestarted(HostError):
    """The server started anew while it was measured: its counters began again."""


class ResponderUnreachable(HostError):
    """The health responder of this host does not answer, also after it was started."""


class BaseNotPrepared(HostError):
    """Something must be another way before this base replica can be a donor; each step says what, and what to do."""


class SuperReadOnlyNotRestored(HostError):
    """super_read_only was lifted for a moment and could not be turned on again."""


# What reading a text that is not as it should be may raise. RecursionError: JSON that is nested without end.
MISFITS = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError, struct.error)
_LONGEST_REASON = 200


@contextlib.contextmanager
def understood(refusal: Type[HostError], what: str, remedy: str = "") -> Iterator[None]:
    """Around (or above) what reads `what`: a misfit is raised as `refusal`, which names it and says what to do."""
    try:
        yield
    except HostError:
        raise
    except MISFITS as misfit:
        raise refusal(_sentence(what, misfit, remedy)) from misfit


def parsed_json(text: "str | bytes") -> Any:
    """Any JSON. Raises ValueError for what is none, also where it is nested too deep to read."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def decoded(kind: Any, value: Any, what: str = "it") -> Any:
    """Reads what `asdict` wrote: a dataclass, a list or tuple, an optional one, a text, a truth or a number.

    Whole numbers are from 0. Raises ValueError, TypeError or KeyError that names the field where it does not fit.
    """
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Union:
        return None if value is None else decoded(inner[0], value, what)
    if origin is not None:
        if not isinstance(value, (list, tuple)) or (
            origin is tuple and ... not in inner and len(value) != len(inner)
        ):
            raise TypeError(f"{what} is {value!r:.60}, not a list as long as it must be")
        return (tuple if origin is tuple else list)(decoded(inner[0], one, what) for one in value)
    if is_dataclass(kind):
        if not isinstance(value, dict):
            raise TypeError(f"{what} is {value!r:.60}, not an object")
        hints, make = get_type_hints(kind), cast(Callable[..., Any], kind)
        return make(**{one.name: decoded(hints[one.name], value[one.name], one.name) for one in fields(kind)})
    is_fit = type(value) in (int, float) if kind is float else type(value) is kind
    if not is_fit or (kind is int and not 0 <= value < 2**64):
        raise TypeError(f"{what} is {value!r:.60}, not a {kind.__name__}")
    return value


def whole(value: Any, what: str, low: int = 0, high: int = 2**64) -> int:
    """A whole number as servers print it. Raises ValueError that names `what`."""
    text = str(value)
    if isinstance(value, bool) or not (text.isascii() and text.isdigit()) or len(text) > 20:
        raise ValueError(f"{what} is {text[:60]!r}, not a whole number")
    number = int(text)
    if not low <= number <= high:
        raise ValueError(f"{what} is {number}, not from {low} to {high}")
    return number


def _sentence(what: str, misfit: BaseException, remedy: str) -> str:
    said = " ".join(str(misfit).split())[:_LONGEST_REASON]
    reason = f"{type(misfit).__name__} {said}" if isinstance(misfit, LookupError) else said
    return f"{what} cannot be read: {reason or type(misfit).__name__}{f'; {remedy}' if remedy else ''}"
