"""Every error that a function may raise. Its class name is the errorType that the workflows match.

NotYet: call again later. Retryable: AWS refused for now. Refused: a rule said no. Failed: the run is undone.
"""

from __future__ import annotations

from typing import ClassVar

# Step Functions keeps 32,768 characters of a cause; a message must leave room for the sentences around it.
LONGEST_SENTENCE = 8000


class PeakerError(Exception):
    """Base of all. The message says what was asked and what was found, `remedy` what a person does about it."""

    remedy: ClassVar[str] = ""

    @property
    def sentence(self) -> str:
        """The message and the remedy: what people read in a cause, a receipt or a terminal."""
        message = str(self)
        more = "..." if len(message) > LONGEST_SENTENCE else ""
        return with_remedy(message[:LONGEST_SENTENCE] + more, self.remedy)


def with_remedy(message: str, remedy: str) -> str:
    """`message. remedy`"""
    text = message.rstrip()
    return f"{text}{'' if text.endswith(('.', '?', '!')) else '.'} {remedy}" if remedy else message


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

    remedy = "It took longer than the step may wait: read its output in Run Command's history, start again."


class LeaseSettling(NotYet):
    """Another run gave the lease back a moment ago: a call that passed its last look may be under way (I6)."""

    remedy = "Start again in a minute."


class StorageProofOpen(NotYet):
    """The storage proof did not say warm, and looks once more."""

    remedy = "It looked as often as it may: read each look's numbers in the receipt, then start again."


class SnapshotsPending(NotYet):
    """Blocks of the snapshots are still being copied."""

    remedy = "The copy took longer than the step may wait; the next one copies less. Start again."


class InstanceNotOnline(NotYet):
    """The instance does not run or does not answer Systems Manager yet."""

    remedy = "Read the instance's console output and the log of its SSM agent, then start again."


class VolumesAttaching(NotYet):
    """Volumes are being created or attached."""

    remedy = "Look at the volumes in the EC2 console, then start again."


class TargetNotHealthy(NotYet):
    """The read endpoint does not call the replica healthy yet."""

    remedy = "Check the health check, the security groups and the replica's own answer, then start again."


class RampInProgress(NotYet):
    """The newcomer's share of the reads is still rising."""

    remedy = "It took longer than the step may wait: lower ramp.step_seconds or use fewer ramp.shares."


class ReplicaDraining(NotYet):
    """Clients are still connected to the replica."""

    remedy = "Find the clients in performance_schema.accounts and make them reconnect, then start again."


class IdleNotConfirmed(NotYet):
    """The drained replica has not been idle for long enough yet."""

    remedy = "It took longer than the step may wait: lower retirement.idle_seconds."


class ParkingInProgress(NotYet):
    """The instance that is to be parked has not stopped yet."""

    remedy = "Look at the instance in the EC2 console, then start scale_in again."


class RetirementInProgress(NotYet):
    """The instance or its volumes are not gone yet."""

    remedy = "Look at the instance and its volumes in the EC2 console, then start scale_in again."


class UndoInProgress(NotYet):
    """Something that the run made is not gone yet."""

    remedy = "Look at it in the EC2 console; the runbook undo-incomplete has the order in which to delete it."


# --- retryable ---------------------------------------------------------------------------------------------


class Throttled(Retryable):
    """AWS limits the rate of calls (RequestLimitExceeded, ThrottlingException)."""

    remedy = "Other callers of the account use up the rate. Start again later, or ask AWS for a higher limit."


class AwsUnavailable(Retryable):
    """No answer, a time-out, or a server error of AWS."""

    remedy = "Look at AWS Health for the service and the region, then start again."


# --- refused -----------------------------------------------------------------------------------------------


class InvalidRequest(Refused):
    """The execution input is wrong; the message names the field and the remedy."""

    remedy = "Correct the input and start again."


class UnknownCluster(Refused):
    """No such cluster in this environment; the message lists those that exist."""

    remedy = "Correct the name, or add the cluster to the environment file and deploy."


class LeaseHeld(Refused):
    """Another run works on the cluster (I6); the message names it and the time when its lease ends."""

    remedy = "Wait for that run to end, or stop its execution, then start again."


class LeaseLost(Refused):
    """The run's lease has gone to another run; a late writer stops here (I6)."""

    remedy = "Nothing is to be done: the other run goes on. Start again when it has ended."


class ScaleOutRefused(Refused):
    """The plan breaks a rule (ceiling, budget, no donor); the message gives each reason with its numbers."""

    remedy = "Change what the reason names (a ceiling, the budget, the source, a donor), then start again."


class AboveLimits(ScaleOutRefused):
    """The plan breaks max_replicas or the budget alone, which a person's start may pass."""

    remedy = "Raise the limit, or pass it once: peaker scale-out CLUSTER --above-limits --reason TEXT."


class NoShortage(Refused):
    """The fleet already serves what the forecast needs; there is nothing to build."""

    remedy = "Nothing is to be done. To build one all the same, start scale_out by hand without a trigger."


class NoSurplus(Refused):
    """No replica is to spare; the message says what was found."""

    remedy = "Nothing is to be done. To remove one all the same, start scale_in by hand without a trigger."


class NothingToUndo(Refused):
    """The stopped execution holds no lease: it had made nothing, or its work was done."""

    remedy = "Nothing is to be done."


class NoDonor(Refused):
    """No replica can be snapshotted; the message says why for each candidate (I2)."""

    remedy = "Prepare and register a base replica (`peaker prepare-base`, `peaker register-base`), then start again."


class NoIdleReplica(Refused):
    """No replica may be retired; the message says why for each one."""

    remedy = "Nothing was changed. Name a peak replica that is in service or parked, or wait until one is."


class RetirementRefused(Refused):
    """The guard forbids the retirement (I1 to I4, I8); the message gives each reason with its numbers."""

    remedy = "Nothing was changed by this step. Start again when the reasons are gone."


class ReplicaNeeded(RetirementRefused):
    """Those that stay do not suffice any more: the replica that drains serves again."""


class ActivityWhileDrained(Refused):
    """A client used the replica after it had been drained; it goes back into service."""

    remedy = "Find the client in performance_schema.accounts and point it at the read endpoint."


class ReturnRefused(Refused):
    """The parked replica cannot come back: expired, tried in vain, not stopped, or not Peaker's (I1)."""

    remedy = "Start scale_out again: it builds a new replica."


class RegistrationRefused(Refused):
    """The replica is not proven (I5); the message names each proof that is missing."""

    remedy = "Read the numbers of the step that the missing proof names, then start again."


class ReplicaChanged(Refused):
    """The replica, its volumes or its source are not those of its proof any more; the message names what changed."""

    remedy = (
        "Start scale_out again: it builds by what is there now. After a failover look first whether the tag "
        "peaker:role says source of the new one alone."
    )


class NotOwned(Refused):
    """Owner tag and ledger do not agree that Peaker made it (I1); it is left alone."""

    remedy = "Compare the instance's tags with the ledger's row before you touch it by hand."


class DonorLagging(Refused):
    """The donor is further behind its source than the gate allows."""

    remedy = "Start again when the donor has caught up, or raise gates.lag_seconds."


class LayoutRefused(Refused):
    """The donor's filesystems stand on other volumes, or in another way, than the settings say; nothing was made."""

    remedy = "Name the donor's volumes and their layout in the cluster's `volumes`, or repair the donor's."


# --- failed ------------------------------------------------------------------------------------------------


class OperatorsUnreachable(Failed):
    """The environment names no address to which a question could go."""

    remedy = "Set alarm_email in the environment file, deploy, and confirm the subscription that AWS mails."


class HostCommandFailed(Failed):
    """The command on the host failed, timed out or was cancelled; carries the host's error and message."""

    remedy = "Read the command's output in the Run Command history, then start again."


class ImageUnfit(HostCommandFailed):
    """The image cannot become a replica of its donor; carries both values of each fact that differs."""

    remedy = "Change the image as the message says, set image_id to the new one, deploy, and start again."


class AgentTooOld(HostCommandFailed):
    """The SSM agent of the host gives no parameters to the shell: no document of Peaker's can do anything there."""

    remedy = (
        "Update the agent there and in the image (Ubuntu: snap refresh amazon-ssm-agent), then start again."
    )


class BinlogsGone(Failed):
    """The source has purged binary logs that the replica lacks; it can never catch up (I11)."""

    remedy = "Raise binlog_expire_logs_seconds on the source, or shorten the prewarm, then start again."


class SnapshotFailed(Failed):
    """A member of the snapshot set ended in error; none of the set is usable."""

    remedy = "Look at the snapshot's state message in the EC2 console, then start again."


class InstanceFailed(Failed):
    """The instance stopped or vanished while it was being built."""

    remedy = "Read the instance's state reason and console output, then start again."


class VolumeFailed(Failed):
    """A volume could not be made or attached."""

    remedy = "Look at the volume and at the permissions for its KMS key, then start again."


class VolumeVanished(Failed):
    """A volume that EC2 had promised was never there: EBS could not use its key, and says so to nobody."""

    remedy = (
        "Name the key in kms_key_arns of the cluster and deploy; check that the key is enabled and that its policy "
        "lets this account's IAM policies in, then start again."
    )


class PrewarmFailed(Failed):
    """The prewarm engine failed or died too often."""

    remedy = "Mend what the engine's last report names (`peaker receipt` has it, too), then start again."


class PrewarmDeadlineExceeded(Failed):
    """The volumes were not warm within limits.prewarm_deadline_minutes."""

    remedy = "Raise limits.prewarm_deadline_minutes or the volumes' rate, or set prewarm.serve_when to hot."


class StorageNotWarm(Failed):
    """The storage proof says not warm, or cannot say (I4)."""

    remedy = "Read the verdict's numbers in the receipt, then start again: suspect a slower volume first."


class ReplicaWorseThanPeers(Failed):
    """The newcomer answered worse than its peers, twice; the message has both numbers."""

    remedy = "Compare its instance type, parameters and storage with those of its peers, then start again."


class RampUndecided(Failed):
    """The newcomer could not be compared with its peers in twelve windows."""

    remedy = "Give the peers enough queries (ramp.window_seconds), then start again."


class DrainLimitReached(Failed):
    """Clients stayed connected past drain.limit_seconds, and drain.allow_forced is off."""

    remedy = "Make the clients reconnect, raise drain.limit_seconds, or allow drain.allow_forced."


class CapacityUnavailable(Failed):
    """EC2 has no capacity for the instance type in any of the cluster's zones, or a quota is used up."""

    remedy = "Offer more zones or instance types in the environment file, or raise the account's quota."


class ResourceNotFound(Failed):
    """AWS does not know the id."""

    remedy = "Check the id and the region. If it was deleted by hand, start again."


class AwsCallRejected(Failed):
    """AWS refused the call for a reason that no retry cures; carries AWS's code and message."""

    remedy = "Read AWS's code: a missing permission, a wrong setting or a quota. Correct it and start again."


class LedgerInconsistent(Failed):
    """The ledger lacks a row that an earlier step must have written."""

    remedy = "Start again. If it comes back, read the run's rows in the ledger."


class UnexpectedError(Failed):
    """A function raised what it should not: a defect. Carries its kind, its text and the line."""

    remedy = "This is a defect of Peaker: the function's log has the traceback. Report it with both."
