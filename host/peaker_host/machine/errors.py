"""Why a command refused or failed. The class name is the `error` of the result line and never changes meaning."""

from __future__ import annotations

from typing import Any, Dict, Optional


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
    """The filesystem's free-space or file map could not be read or makes no sense."""


class LogNotReplayed(HostError):
    """The filesystem cannot be mounted, so its log cannot be replayed: no database could start on it."""


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
    """The disk under state_dir has no space left for what the engine must keep."""


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
