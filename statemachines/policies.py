"""Policies are waits, retries and passed failures that every source may use, each with its reason.

A source names a wait or a `passes_on` by its key here. The standard retriers are on every task and named nowhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# A function ends within 60 s or says so; half a minute is for the way there, a cold start and the answer.
TASK_TIMEOUT_SECONDS = 90


@dataclass(frozen=True)
class Retrier:
    """One entry of a state's Retry. Without `max_delay_seconds` and `backoff_rate` the interval is fixed."""

    errors: tuple[str, ...]
    interval_seconds: int
    max_attempts: int
    reason: str
    backoff_rate: float = 1
    max_delay_seconds: int | None = None
    jitter: bool = False

    @property
    def hours(self) -> float:
        """Returns the hours of its tries, the calls between them not counted."""
        most = math.inf if self.max_delay_seconds is None else self.max_delay_seconds
        waits = (self.interval_seconds * self.backoff_rate**tried for tried in range(self.max_attempts))
        return sum(min(wait, most) for wait in waits) / 3600

    def asl(self) -> dict[str, Any]:
        """Returns the retrier in the States Language."""
        written: dict[str, Any] = {
            "ErrorEquals": list(self.errors),
            "IntervalSeconds": self.interval_seconds,
            "BackoffRate": self.backoff_rate,
            "MaxAttempts": self.max_attempts,
        }
        if self.max_delay_seconds is not None:
            written["MaxDelaySeconds"] = self.max_delay_seconds
        if self.jitter:
            written["JitterStrategy"] = "FULL"
        return written


# How often more than in a call that ends, for each hour in which a state looks again and again.
_BUSY_PER_HOUR, _CRASHES_PER_HOUR = 4, 2
# No service of AWS has been away for longer than an hour as a rule. Full jitter waits between nothing and the interval,
# which grows to _LONGEST_PAUSE_SECONDS: so many tries last an hour also where it draws short ones.
_AN_HOUR = 40
_LONGEST_PAUSE_SECONDS = 300


# Lambda did not take the call, or did not answer for it: the account's concurrency is used up, or Lambda is away; or
# the function reached its end because another service answers slowly.
_LAMBDA_BUSY = (
    "Sandbox.Timedout",
    "States.Timeout",
    "Lambda.ClientExecutionTimeoutException",
    "Lambda.ServiceException",
    "Lambda.AWSLambdaException",
    "Lambda.SdkClientException",
    "Lambda.TooManyRequestsException",
)
_CRASHED = (
    "Lambda.Unknown",
    "Runtime.ExitError",
    "Runtime.HandlerNotFound",
    "Runtime.ImportModuleError",
)


def _aws_busy(hours: float) -> Retrier:
    return Retrier(
        ("Throttled", "AwsUnavailable", *_LAMBDA_BUSY),
        interval_seconds=5,
        max_attempts=_AN_HOUR + math.ceil(_BUSY_PER_HOUR * hours),
        backoff_rate=2,
        max_delay_seconds=_LONGEST_PAUSE_SECONDS,
        jitter=True,
        reason="AWS limits the rate, is slow or does not answer, for an hour at the longest; its guides ask for "
        "backoff with jitter.",
    )


def _crashed(hours: float) -> Retrier:
    return Retrier(
        _CRASHED,
        interval_seconds=2,
        max_attempts=6 + math.ceil(_CRASHES_PER_HOUR * hours),
        backoff_rate=2,
        max_delay_seconds=60,
        jitter=True,
        reason="The function crashed, or a deployment is between its code and its configuration; every function may "
        "run twice (I10).",
    )


def standard_of_calls(waits: Sequence[Retrier] = ()) -> tuple[Retrier, Retrier]:
    """Returns the retriers of every state that calls a function, after the `waits` that its source names.

    Attempts are counted over all calls of a state (States Language, "Retrying after error"), so that one which looks
    for hours has as many more: the ninth look that AWS throttles within half a day must not undo a build.
    """
    hours = sum(wait.hours for wait in waits)
    return (_aws_busy(hours), _crashed(hours))


# On every state that starts another workflow. What fails inside of that (States.TaskFailed) is its own affair. AWS's
# guide names the first; a throttled start has no error of its own, and AWS's workflows retry it as the third. The
# others are spellings met elsewhere: a name that never comes costs nothing, one that lacks costs a build.
STANDARD_OF_STARTS = (
    Retrier(
        (
            "StepFunctions.ExecutionLimitExceeded",
            "StepFunctions.ExecutionLimitExceededException",
            "StepFunctions.AWSStepFunctionsException",
            "StepFunctions.SdkClientException",
            "StepFunctions.SfnException",
            "StepFunctions.ThrottlingException",
        ),
        interval_seconds=10,
        max_attempts=10,
        backoff_rate=2,
        max_delay_seconds=900,
        reason="The account's executions or its rate of starts, which all workflows share, are used up, or Step "
        "Functions does not answer, for an hour at the longest; a second start of the same name is the same one. Few "
        "tries, because a Map may have 200 starts in one history, and no jitter, which would halve their time.",
    ),
)


_GROWTH = 1.05


def _growing(
    errors: tuple[str, ...],
    hours: float,
    reason: str,
    *,
    first_seconds: int = 3,
    most_seconds: int = 120,
    growth: float = _GROWTH,
) -> Retrier:
    """Soon at first, then after a share (`growth` - 1) of the time that has passed: long waits cost few events.

    It lasts for `hours` at least. Each call is five events of the 25,000 that an execution may have.
    """
    attempts, waited, interval = 0, 0.0, float(first_seconds)
    while waited < hours * 3600:
        attempts, waited, interval = attempts + 1, waited + min(interval, most_seconds), interval * growth
    return Retrier(errors, first_seconds, attempts, reason, growth, most_seconds)


# Attempts are counted by entry, over all calls of a state. A state that sends one command after the other waits on one
# entry for both errors, so that neither count ends before the time that the settings allow.
WAITS: Mapping[str, Retrier] = {
    "host_command": _growing(
        ("HostCommandRunning",),
        8,
        "8 hours: every command ends itself before that, the longest one, catch-up, after 6.",
    ),
    "prewarm_command": _growing(
        ("HostCommandRunning",),
        1.7,
        "100 minutes: starting and asking the engine is short work, the hours are in the loop of prewarm.",
    ),
    "settled_lease": Retrier(
        ("LeaseSettling",), 10, 12, "2 minutes: the last call of the run before has ended after one."
    ),
    "storage_proof": _growing(
        ("HostCommandRunning", "StorageProofOpen"),
        8,
        "8 hours: each of up to four looks is a command, with pauses in between.",
    ),
    "instance_online": _growing(
        ("InstanceNotOnline",),
        1,
        "1 hour: boot and the agent's registration take minutes.",
        first_seconds=10,
        most_seconds=15,
    ),
    "lost_snapshots": Retrier(
        ("SnapshotsPending",), 30, 60, "30 minutes: an answer was lost, or earlier snapshots complete first."
    ),
    "snapshots_complete": _growing(
        ("SnapshotsPending",),
        12,
        "12 hours: a first snapshot copies every block of the volumes.",
        first_seconds=15,
    ),
    "volumes_attached": Retrier(
        ("VolumesAttaching",),
        5,
        480,
        "40 minutes: a new volume is there in seconds, an attachment in a minute.",
    ),
    "target_healthy": _growing(
        ("TargetNotHealthy",),
        2,
        "2 hours: health checks need minutes; a replica that lags is given time.",
        first_seconds=5,
        most_seconds=10,
    ),
    # Its steps are short, and each begins anew: what has passed before says nothing of how long the next one takes.
    "ramp": _growing(
        ("RampInProgress", "TargetNotHealthy"),
        8.5,
        "8.5 hours: longer than all steps of a ramp may take by the settings.",
        first_seconds=8,
        growth=1.001,
    ),
    "undo": _growing(
        ("UndoInProgress",),
        2,
        "2 hours: a target drains, an instance ends, volumes and snapshots go.",
        first_seconds=15,
        most_seconds=30,
    ),
    "drain": _growing(
        ("ReplicaDraining", "HostCommandRunning"),
        8.6,
        "8.6 hours: longer than drain.limit_seconds may be, with the time in which quiet is seen.",
        first_seconds=10,
        most_seconds=60,
    ),
    "first_undo": Retrier(
        (
            "UndoInProgress",
            "RetirementInProgress",
            "HostCommandRunning",
            "InstanceNotOnline",
            "TargetNotHealthy",
        ),
        15,
        20,
        "5 minutes: after that the lease is given back, and sweep_orphans goes on with what takes longer.",
    ),
    "idle": _growing(
        ("IdleNotConfirmed", "HostCommandRunning"),
        8.6,
        "8.6 hours: longer than retirement.idle_seconds may be, with the last sample.",
        first_seconds=10,
        most_seconds=60,
    ),
    "parking": _growing(
        ("ParkingInProgress",),
        2,
        "2 hours: an instance stops in minutes, at times in an hour.",
        first_seconds=15,
        most_seconds=30,
    ),
    "retirement": _growing(
        ("RetirementInProgress", "UndoInProgress"),
        2,
        "2 hours: the instance ends, then its volumes and snapshots go. EC2 may still call a volume attached that "
        "it has shown as free.",
        first_seconds=15,
        most_seconds=30,
    ),
}

_INPUT = "$states.input"
# States.Timeout may come without a Cause, and an undefined expression would end the execution at once.
_CAUGHT = {
    "error": "{% $states.errorOutput.Error %}",
    "cause": "{% $states.errorOutput.Cause ? $states.errorOutput.Cause : '' %}",
}
_AS_IT_CAME = {part: f"{{% {_INPUT}.{part} %}}" for part in ("failed_step", "error", "cause")}


def caught(step: str) -> dict[str, Any]:
    """Returns the caught failure under the name of its state; receipts and ends are written from it."""
    return {"failed_step": step, **_CAUGHT}


# What a Catch passes on as the Output of its step.
PASSED_ON: Mapping[str, Callable[[str], Any]] = {
    # This state failed: its name, the error, the cause. What every task passes on if it says nothing.
    "failure": caught,
    # Nothing new: work that tidies up must not hide by its own failure what it was called for.
    "input": lambda _: f"{{% {_INPUT} %}}",
    # The failure of the run stands; only its receipt could not be written.
    "kept_failure": lambda _: {
        "error": f"{{% {_INPUT}.failure.error %}}",
        "cause": (
            f"{{% {_INPUT}.failure.failed_step & ' failed (' & {_INPUT}.failure.error & '): ' & "
            f"{_INPUT}.failure.cause %}}"
        ),
    },
    # The failure of the undo stands; only its receipt could not be written.
    "kept_undo": lambda _: f"{{% {_INPUT}.undo %}}",
    # The undo of a failure failed: both, because people need to know both.
    "failure_and_undo": lambda step: {"failure": _AS_IT_CAME, "undo": caught(step)},
    # The item of a Map as `run`, and what failed.
    "item_and_failure": lambda step: {"run": f"{{% {_INPUT} %}}", **caught(step)},
}


def _of(variable: str, *parts: str) -> dict[str, str]:
    return {part: f"{{% ${variable}.{part} %}}" for part in parts}


_RUN = ("run_id", "cluster", "operation")
_MEMBER = (*_RUN, "fencing_token", "batch")
# Who speaks in a call: the beginning of its payload.
SPEAKERS: Mapping[str, Mapping[str, str]] = {
    # The run that holds the lease, with its fencing token. What every call says if it says nothing.
    "run": _of("run", *_RUN, "fencing_token"),
    # The run without a token, which it has not got yet, or which a stopped branch has too.
    "unfenced_run": _of("run", *_RUN),
    # A member of a batch: its own rows and token, under the lease of the batch.
    "member": _of("run", *_MEMBER, "member_token"),
    # A member that has no token of its own yet, or whose token is to be moved on.
    "unfenced_member": _of("run", *_MEMBER),
    # The request, before a lease was taken.
    "request": _of("identity", *_RUN),
    # The payload is as the source has it.
    "nobody": {},
}


# The message of a function's failure: `errorMessage` of the JSON that Lambda gives as the cause, also where Step
# Functions has cut that; a cause that is text already, or none.
_MESSAGE = (
    f'($said := $match({_INPUT}.cause, /"errorMessage":\\s*"([^\\\\"]*(?:\\\\.[^\\\\"]*)*)"/)[0].groups[0]; '
    """$exists($said) ? $parse('{"text":"' & $said & '"}').text : """
    f"{_INPUT}.cause ? {_INPUT}.cause : 'no cause was given')"
)
# An error with a dot is none of ours: the function did not get to say anything.
_NO_ANSWER = (
    f"($contains({_INPUT}.error, '.') ? '. No answer of the function itself: read the log of the function of this "
    "step, then start again.' : '')"
)
ERROR_AS_IT_CAME = f"{{% {_INPUT}.error %}}"

# How an end says what failed: what stands before the message of the step.
TELLS: Mapping[str, str] = {
    # The step's name stands in its message already.
    "message": "",
    "step": f"{_INPUT}.failed_step & ': ' & ",
    "step_and_message": f"{_INPUT}.failed_step & ' failed (' & {_INPUT}.error & '): ' & ",
    # The message has lines of its own.
    "step_and_lines": f"{_INPUT}.failed_step & ' (' & {_INPUT}.error & '):\\n' & ",
    # All of it for the state after the branches; nobody reads it here.
    "branch": "",
}
# Out of a branch come but Error and Cause: the failure travels in the cause.
_PARTS = ", ".join(f"'{part}': {_INPUT}.{part}" for part in _AS_IT_CAME)
_OUT_OF_A_BRANCH = f"{{% $string({{{_PARTS}}}) %}}"


def cause(tells: str, says: str | None) -> str:
    """The Cause of an end: the sentence `says`, then what failed, as plain text."""
    if tells == "branch":
        return _OUT_OF_A_BRANCH
    quoted = (says or "").replace("\\", "\\\\").replace("'", "\\'")
    sentence = f"'{quoted} ' & " if quoted else ""
    return f"{{% {sentence}{TELLS[tells]}{_MESSAGE} & {_NO_ANSWER} %}}"


def outcome(said: str) -> dict[str, str]:
    """The output of an execution that was refused: what the console shows people."""
    return {"outcome": said, "error": ERROR_AS_IT_CAME, "reason": f"{{% {_MESSAGE} %}}"}
