"""Every error that a function may raise. Its class name is the errorType that the workflows match.

Four families: NotYet (call again later), Retryable (AWS refused for now), Refused (a rule said no, nothing is
wrong with the machinery) and Failed (something broke; the run is undone).
"""

from __future__ import annotations


class PeakerError(Exception):
    """Base of all. The message says what was asked, what was found, and what to do."""


class NotYet(PeakerError):
    """The step has begun and is not finished; the workflow calls it again at a fixed interval."""


class Retryable(PeakerError):
    """AWS did not do it this time; the same call may succeed later."""


class Refused(PeakerError):
    """A rule forbids it. Nothing was changed by the step that raises this."""


class Failed(PeakerError):
    """The step cannot succeed any more."""


# --- not yet -----------------------------------------------------------------------------------------------


class HostCommandRunning(NotYet):
    """The command on the host has not ended."""


class SnapshotsPending(NotYet):
    """Blocks of the snapshots are still being copied."""


class InstanceNotOnline(NotYet):
    """The instance does not run or does not answer Systems Manager yet."""


class VolumesAttaching(NotYet):
    """Volumes are being created or attached."""


class TargetNotHealthy(NotYet):
    """The read endpoint does not call the replica healthy yet."""


class RampInProgress(NotYet):
    """The newcomer's share of the reads is still rising."""


class ReplicaDraining(NotYet):
    """Clients are still connected to the replica."""


class ObservationRunning(NotYet):
    """The drained replica is still being watched for activity."""


class ParkingInProgress(NotYet):
    """The instance that is to be parked has not stopped yet."""


class RetirementInProgress(NotYet):
    """The instance or its volumes are not gone yet."""


class UndoInProgress(NotYet):
    """Something that the run made is not gone yet."""


# --- retryable ---------------------------------------------------------------------------------------------


class Throttled(Retryable):
    """AWS limits the rate of calls (RequestLimitExceeded, ThrottlingException)."""


class AwsUnavailable(Retryable):
    """No answer, a time-out, or a server error of AWS."""


# --- refused -----------------------------------------------------------------------------------------------


class InvalidRequest(Refused):
    """The execution input is wrong; the message names the field and the remedy."""


class UnknownCluster(Refused):
    """No such cluster in this environment; the message lists those that exist."""


class LeaseHeld(Refused):
    """Another run works on the cluster (I6); the message names it and the time when its lease ends."""


class LeaseLost(Refused):
    """The run's lease has gone to another run; a late writer stops here (I6)."""


class ScaleOutRefused(Refused):
    """The plan breaks a rule (ceiling, budget, no donor); the message gives each reason with its numbers."""


class NoShortage(Refused):
    """The fleet already serves what the forecast needs; there is nothing to build."""


class NothingToUndo(Refused):
    """The stopped execution holds no lease: it had made nothing, or its work was done."""


class NoDonor(Refused):
    """No replica can be snapshotted; the message says why for each candidate (I2)."""


class NoIdleReplica(Refused):
    """No replica may be retired; the message says why for each one."""


class RetirementRefused(Refused):
    """The guard forbids the retirement (I1 to I4, I8); the message gives each reason with its numbers."""


class ActivityDuringObservation(Refused):
    """A client used the replica after it had been drained; it goes back into service."""


class ReturnRefused(Refused):
    """The parked replica cannot come back: expired, tried in vain, not stopped, or not Peaker's (I1)."""


class RegistrationRefused(Refused):
    """The replica is not proven (I5); the message names each proof that is missing."""


class NotOwned(Refused):
    """Owner tag and ledger do not agree that Peaker made it (I1); it is left alone."""


class DonorLagging(Refused):
    """The donor is further behind its source than the gate allows."""


# --- failed ------------------------------------------------------------------------------------------------


class HostCommandFailed(Failed):
    """The command on the host failed, timed out or was cancelled; carries the host's error and message."""


class BinlogsGone(Failed):
    """The source has purged binary logs that the replica lacks; it can never catch up (I11)."""


class SnapshotFailed(Failed):
    """A member of the snapshot set ended in error; none of the set is usable."""


class InstanceFailed(Failed):
    """The instance stopped or vanished while it was being built."""


class VolumeFailed(Failed):
    """A volume could not be made or attached."""


class PrewarmFailed(Failed):
    """The prewarm engine failed or died too often."""


class PrewarmDeadlineExceeded(Failed):
    """The volumes were not warm within limits.prewarm_deadline_minutes."""


class StorageNotWarm(Failed):
    """The storage proof says not warm, or cannot say (I4)."""


class ReplicaWorseThanPeers(Failed):
    """The newcomer answered worse than its peers, ramp.attempts times; the message has both numbers."""


class RampUndecided(Failed):
    """The newcomer could not be compared with its peers in ramp.holds windows."""


class DrainLimitReached(Failed):
    """Clients stayed connected past drain.limit_seconds, and drain.allow_forced is off."""


class CapacityUnavailable(Failed):
    """EC2 has no capacity for the instance type in any of the cluster's zones, or a quota is used up."""


class ResourceNotFound(Failed):
    """AWS does not know the id."""


class AwsCallRejected(Failed):
    """AWS refused the call for a reason that no retry cures; carries AWS's code and message."""


class LedgerInconsistent(Failed):
    """The ledger lacks a row that an earlier step must have written."""
