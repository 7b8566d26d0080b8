"""A failure is a step's error as a person reads it: a sentence with its numbers, and the remedy. Pure."""

from __future__ import annotations

import re
from typing import Any

from pydantic import ValidationError

from peaker.domain.decoding import Contract, parsed_json
from peaker_contract.errors import with_remedy

# A cause may be cut at 32,768 characters, behind its errorMessage: then it is no JSON any more.
_MESSAGE = re.compile(r'"errorMessage":\s*("[^"\\]*(?:\\.[^"\\]*)*")')
# A workflow, its child and their branches wrap a failure a handful of times.
_DEEPEST = 20
_NO_ANSWER = (
    "The function ended without an answer, as it does without memory: read its log, then start again."
)
_HALF_DEPLOYED = "The function's code and configuration do not fit: deploy the stack again, then start again."
_SERVICE_REMEDIES = {
    "Lambda.TooManyRequestsException": "Ask AWS for more concurrent executions of functions, then start again.",
    "Lambda.Unknown": _NO_ANSWER,
    "Runtime.ExitError": _NO_ANSWER,
    "Runtime.HandlerNotFound": _HALF_DEPLOYED,
    "Runtime.ImportModuleError": _HALF_DEPLOYED,
    "Sandbox.Timedout": "The function took longer than its time limit: read its log, then start again.",
    "States.DataLimitExceeded": "The step's answer was too large for Step Functions. Report it with the log.",
    "States.Permissions": "The role of the workflow lacks a permission: deploy the stack again.",
    "States.Timeout": "The step took longer than its time limit: read the log of its function, then start again.",
}
_OTHER_SERVICE = "Read the log of the step's function and the health of the service, then start again."


# The error of a run whose execution a person stopped.
STOPPED_BY_HAND = "ExecutionAborted"


class Failure(Contract):
    """A failure as the workflow caught it: the state, the error's class name and its cause."""

    failed_step: str
    error: str
    cause: str = ""

    def innermost(self) -> Failure:
        """The failure as a person reads it: its own step and message, out of the wrappings of the workflow.

        A Lambda function's cause is JSON with errorMessage; a branch's is a failure of its own; a child
        workflow's is the description of its execution with Error and Cause. An error of a service, whose cause
        is text or empty, gets words and a remedy.
        """
        return self._unwrapped(_DEEPEST)

    def _unwrapped(self, wrappings_left: int) -> Failure:
        document = _json_object(self.cause) if wrappings_left else {}
        if "failed_step" in document and (wrapped := _failure(document)) is not None:
            return wrapped._unwrapped(wrappings_left - 1)
        if "Error" in document and "Cause" in document:
            step, _, cause = str(document["Cause"]).partition(": ")
            error = str(document["Error"])
            inner = Failure(failed_step=f"{self.failed_step}/{step}", error=error, cause=cause or step)
            return inner._unwrapped(wrappings_left - 1)
        message = _message(self.cause, document)
        if "." in self.error:
            message = _with_remedy_of_service(self.error, message)
        return self.model_copy(update={"cause": message})

    @property
    def sentence(self) -> str:
        """`VerifyStorage failed (StorageNotWarm): ...`"""
        return f"{self.failed_step} failed ({self.error}): {self.cause}"


def _message(cause: str, document: dict[str, Any]) -> str:
    if "errorMessage" in document:
        return str(document["errorMessage"])
    found = _MESSAGE.search(cause)
    try:
        return str(parsed_json(found.group(1))) if found else cause
    except ValueError:
        return cause


def _with_remedy_of_service(error: str, message: str) -> str:
    remedy = _SERVICE_REMEDIES.get(error, _OTHER_SERVICE)
    return message if remedy in message else with_remedy(message or "no cause was given", remedy)


def _failure(document: dict[str, Any]) -> Failure | None:
    try:
        return Failure.model_validate(document)
    except ValidationError:
        return None


def _json_object(text: str) -> dict[str, Any]:
    try:
        document = parsed_json(text)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
