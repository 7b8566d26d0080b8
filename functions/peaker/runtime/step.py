"""A step's handler wraps its use case: it parses, logs, records the step in the ledger and answers."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from aws_lambda_powertools.utilities.parser import parse
from pydantic import BaseModel

from peaker.domain.runs.run import StepInput, Summary
from peaker.ports.bundle import Ports
from peaker.runtime import wiring
from peaker.runtime.telemetry import logger
from peaker.usecases.run.held_lease import lease_end
from peaker_contract.errors import (
    LONGEST_SENTENCE,
    NotYet,
    PeakerError,
    Refused,
    Retryable,
    UnexpectedError,
)

MOST_RESULT_BYTES = 128 * 1024
Handler = Callable[[dict[str, Any], object], dict[str, Any]]


def step(use_case: Callable[[Ports, Any], Summary], model: type[Any], *, recorded: bool) -> Handler:
    """A handler of a state. Errors of the domain leave under their class names, which the workflows match.

    A step that is recorded has its first start over all retries, its end and its numbers in the ledger. It is not
    where there is no lease yet, or where it gives away the right to write.
    """

    def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
        with errors_with_remedy():
            given = parse(event=event, model=model)
            with logger.append_context_keys(function=use_case.__name__, **_identity(given)):
                return _reported(use_case, given) if recorded else _answered(use_case(wiring.ports(), given))

    return handler


@contextmanager
def errors_with_remedy() -> Iterator[None]:
    """Every error leaves with its remedy, because its message is all that a person sees of it in Step Functions.

    What is not an error of the domain is a defect; it leaves as UnexpectedError, its traceback in the log.
    """
    try:
        yield
    except PeakerError as error:
        raise type(error)(error.sentence) from error
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        logger.exception("unexpected")
        said = " ".join(str(error).split())
        text = f"{type(error).__name__}: {said} ({place.filename.rsplit('/', 1)[-1]}:{place.lineno})"
        raise UnexpectedError(UnexpectedError(text).sentence) from error


def _identity(given: BaseModel) -> dict[str, str]:
    """Returns the log's name of the step of a run, or of the execution that is to become one."""
    names = {"run_id": "run_id", "cluster": "cluster", "step": "step", "execution_name": "execution"}
    return {called: getattr(given, name) for name, called in names.items() if hasattr(given, name)}


def _reported(use_case: Callable[[Ports, Any], Summary], given: StepInput) -> dict[str, Any]:
    try:
        answer = _recorded(wiring.ports(), use_case, given)
    except PeakerError as error:
        level = "info" if isinstance(error, NotYet) else "error"
        if isinstance(error, Retryable | Refused):
            level = "warning"
        getattr(logger, level)(str(error), extra={"error": type(error).__name__})
        raise
    return _answered(answer, extra={"numbers": answer.numbers})


def _recorded(ports: Ports, use_case: Callable[[Ports, Any], Summary], given: StepInput) -> Summary:
    if given.fencing_token is None:
        return use_case(ports, given)
    holder = given.holder
    started_at = ports.clock.now()
    ports.ledger.start_step(holder, given.step, started_at, lease_end(started_at))
    answer = use_case(ports, given)
    ports.ledger.finish_step(holder, given.step, ports.clock.now(), answer.numbers)
    return answer


def _answered(answer: Summary, **logged: Any) -> dict[str, Any]:
    """Logs the answer; returns the state's result. Above 256 KiB Step Functions ends an execution where no Catch sees
    it: far below that the step fails instead.
    """
    logger.info(answer.text, **logged)
    result = answer.model_copy(update={"text": answer.text[:LONGEST_SENTENCE]}).model_dump(
        mode="json", exclude={"numbers"}
    )
    if (size := len(json.dumps(result))) > MOST_RESULT_BYTES:
        raise UnexpectedError(f"the step's result has {size:,} bytes, more than {MOST_RESULT_BYTES:,}")
    return result
