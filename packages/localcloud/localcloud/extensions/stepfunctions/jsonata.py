"""JSONata as Step Functions evaluates it: values bound as values, AWS's extra functions, undefined is an error.

moto pastes variables into the expression's text, where a quote in a value breaks it, and leaves the evaluator
out. Here an expression sees `$states` and its variables as bindings, so that any content is safe.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import json
import math
import random
import uuid
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from jsonata.jexception import JException
from jsonata.jsonata import Jsonata
from jsonata.utils import Utils

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud

HASHES = {"MD5": "md5", "SHA-1": "sha1", "SHA-256": "sha256", "SHA-384": "sha384", "SHA-512": "sha512"}
LARGEST_EXACT_INTEGER = 2**53
EXPRESSIONS_REMEMBERED = 4096


class EvaluationError(Exception):
    """An expression could not be evaluated, or its result is undefined or not JSON."""


def evaluate(expression: str, bindings: Mapping[str, Any], now: datetime) -> Any:
    """The JSON value of a JSONata expression. Raises EvaluationError for every way in which it has none."""
    functions = _functions(now)
    try:
        program = _program(expression)
        for name, function in functions.items():
            program.register_lambda(name, function)
        result = program.evaluate(None, {name: _bound(value) for name, value in bindings.items()})
    except EvaluationError:
        raise
    except JException as error:
        raise EvaluationError(f"The JSONata expression '{expression}' failed: {error}") from error
    except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        # what jsonata-python lets through when a function meets a type it does not expect
        raise EvaluationError(f"The JSONata expression '{expression}' failed: {error!r}") from error
    if result is None:
        raise EvaluationError(f"The JSONata expression '{expression}' returned nothing (undefined).")
    return _json_value(result, expression)


def _program(expression: str) -> Jsonata:
    """A program for one evaluation: the tree is shared, names and what it is at work on are its own.

    The library takes the program that a thread made last for the one at work there, in functions of functions.
    """
    program: Jsonata = copy.copy(_parsed(expression))
    program.environment = program.create_frame(Jsonata.static_frame)
    Jsonata.CURRENT.jsonata = program
    return program


@functools.lru_cache(maxsize=EXPRESSIONS_REMEMBERED)
def _parsed(expression: str) -> Jsonata:
    """The parsed expression, whose tree no evaluation changes. Raises JException."""
    program = Jsonata(expression)
    program.set_output_convert_nulls(False)
    return program


def _bound(value: Any) -> Any:
    """A variable that holds null is null, not undefined; None is jsonata-python's undefined."""
    return Utils.NULL_VALUE if value is None else value


def _json_value(value: Any, expression: str) -> Any:
    if value is None or value is Utils.NULL_VALUE:
        return None
    if isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise EvaluationError(f"The JSONata expression '{expression}' gave a number that JSON has not.")
        return int(value) if value.is_integer() and abs(value) < LARGEST_EXACT_INTEGER else value
    if isinstance(value, Mapping):
        return {str(key): _json_value(item, expression) for key, item in value.items()}
    if isinstance(value, list | tuple | range):
        return [_json_value(item, expression) for item in value]
    raise EvaluationError(f"The JSONata expression '{expression}' returned an unsupported result type.")


def _functions(now: datetime) -> dict[str, Callable[..., Any]]:
    """What AWS adds to JSONata, and the clock functions on cloud time (the Step Functions guide, "JSONata")."""
    return {
        "partition": _partition,
        "range": _range,
        "hash": _hash,
        "random": _random,
        "uuid": lambda: str(uuid.uuid4()),
        "parse": _parse,
        "now": lambda *_: now.strftime("%Y-%m-%dT%H:%M:%S.") + f"{now.microsecond // 1000:03d}Z",
        "millis": lambda: int(now.timestamp() * 1000),
        "eval": _no_eval,
    }


def _partition(array: Any, size: Any) -> list[list[Any]]:
    if not isinstance(size, int) or size < 1:
        raise EvaluationError(f"$partition: the chunk size must be a positive whole number, not {size!r}")
    items = array if isinstance(array, list) else [array]
    return [list(items[start : start + size]) for start in range(0, len(items), size)]


def _range(first: Any, last: Any, step: Any) -> list[Any]:
    if not step:
        raise EvaluationError("$range: the step must not be 0")
    count = math.floor((last - first) / step) + 1
    return [first + index * step for index in range(max(count, 0))]


def _hash(data: Any, algorithm: Any) -> str:
    if algorithm not in HASHES:
        raise EvaluationError(f"$hash: the algorithm must be one of {', '.join(HASHES)}, not {algorithm!r}")
    return hashlib.new(HASHES[algorithm], str(data).encode()).hexdigest()


def _random(seed: Any = None) -> float:
    return random.random() if seed is None else random.Random(seed).random()


def _parse(text: Any) -> Any:
    try:
        value = json.loads(text)
    except (TypeError, ValueError) as error:
        raise EvaluationError(f"$parse: not JSON: {error}") from error
    return Utils.NULL_VALUE if value is None else value


def _no_eval(*_: Any) -> Any:
    raise EvaluationError("$eval is not supported by Step Functions; use $parse")


def install(cloud: OpenCloud) -> None:
    """Evaluate every `{% ... %}` of a state machine here."""
    from moto.stepfunctions.parser.api import EvaluationFailedEventDetails, HistoryEventType
    from moto.stepfunctions.parser.asl.component.common.error_name.failure_event import (
        FailureEvent,
        FailureEventException,
    )
    from moto.stepfunctions.parser.asl.component.common.error_name.states_error_name import StatesErrorName
    from moto.stepfunctions.parser.asl.component.common.error_name.states_error_name_type import (
        StatesErrorNameType,
    )
    from moto.stepfunctions.parser.asl.component.common.string.string_expression import StringJSONata
    from moto.stepfunctions.parser.asl.eval.event.event_detail import EventDetails

    def failure(env: Any, cause: str) -> Exception:
        name = StatesErrorName(typ=StatesErrorNameType.StatesQueryEvaluationError)
        details = EvaluationFailedEventDetails(cause=cause, error=name.error_name)
        event_details = EventDetails(evaluationFailedEventDetails=details)  # type: ignore[typeddict-item]
        env.event_manager.add_event(
            context=env.event_history_context,
            event_type=HistoryEventType.EvaluationFailed,
            event_details=event_details,
        )
        return FailureEventException(
            FailureEvent(
                env=env,
                error_name=name,
                event_type=HistoryEventType.EvaluationFailed,
                event_details=event_details,
            )
        )

    def eval_body(self: Any, env: Any) -> None:
        store = env.variable_store
        bindings = {"states": _states(env), **store._outer_scope, **store._inner_scope}
        try:
            env.stack.append(evaluate(self.expression, bindings, cloud.clock.now()))
        except EvaluationError as error:
            raise failure(env, str(error)) from error

    cloud.patch(StringJSONata, "_eval_body", eval_body)


def _states(env: Any) -> dict[str, Any]:
    """`$states` as an expression sees it: plain JSON, times as text."""
    data = {
        key: value for key, value in env.states._states_data.items() if value is not None or key == "input"
    }
    plain: dict[str, Any] = json.loads(json.dumps(data, default=_text))
    return plain


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return str(value)
