"""Lambda's API: a function is invoked at once, or later with its retries and destinations."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from localcloud.extensions.functions.lambda_runtime import LambdaRuntime, Outcome, log
from localcloud.extensions.sqs import send_to_queue
from localcloud.iam.access import Refused
from localcloud.iam.identities import CannotAssume
from localcloud.iam.service_needs import delivery_needs

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud


# The Lambda guide, "How Lambda handles errors with asynchronous invocation".
ASYNC_RETRY_CLOUD_SECONDS = (60, 120)


def install(cloud: OpenCloud) -> None:
    """Give moto's Lambda this runtime."""
    from moto.awslambda_simple.models import LambdaSimpleBackend
    from moto.core.config import default_user_config

    runtime = LambdaRuntime(cloud)
    cloud.on_close(runtime.close)
    before = dict(default_user_config["lambda"])
    default_user_config["lambda"] = {"use_docker": False}
    cloud.on_close(lambda: default_user_config["lambda"].update(before))  # type: ignore[typeddict-item]

    def invoke(
        self: Any, function_name: str, qualifier: str | None, body: Any, headers: Any, response_headers: Any
    ) -> bytes | None:
        function = self.get_function(function_name, qualifier)
        kind = headers.get("X-Amz-Invocation-Type") or "RequestResponse"
        if kind == "DryRun":
            return b""
        if kind == "Event":
            cloud.background(
                f"invoke-{function.function_name}", lambda: _invoke_later(cloud, runtime, function, body)
            )
            return b""
        outcome = runtime.invoke(function, body)
        response_headers["x-amz-executed-version"] = "$LATEST"
        if outcome.error:
            response_headers["x-amz-function-error"] = outcome.error
        return outcome.payload

    def without_workers(change: Callable[..., Any]) -> Callable[..., Any]:
        def changed(self: Any, function_name: str, *rest: Any, **named: Any) -> Any:
            runtime.prune(function_name.rsplit(":", 1)[-1])
            return change(self, function_name, *rest, **named)

        return changed

    _keep_each_package_once(cloud)
    cloud.patch(LambdaSimpleBackend, "invoke", invoke)
    for name in ("update_function_code", "update_function_configuration", "delete_function"):
        cloud.patch(LambdaSimpleBackend, name, without_workers(getattr(LambdaSimpleBackend, name)))


def _keep_each_package_once(cloud: OpenCloud) -> None:
    """A deployment's functions have one package; moto reads a copy of it, tens of MB, for each of them."""
    from moto.awslambda.models import LambdaFunction

    # By the package's hash one of the functions that have it: a package goes with the last of them.
    holders: WeakValueDictionary[str, LambdaFunction] = WeakValueDictionary()

    def set_code(self: Any, updated_spec: dict[str, Any]) -> None:
        original(self, updated_spec)
        holder = holders.get(self.code_sha_256)
        if holder is not None and holder.code_sha_256 == self.code_sha_256:
            self.code_bytes = holder.code_bytes
        else:
            holders[self.code_sha_256] = self

    original: Callable[[Any, dict[str, Any]], None] = cloud.patch(
        LambdaFunction, "_set_function_code", set_code
    )


def _invoke_later(cloud: OpenCloud, runtime: LambdaRuntime, function: Any, body: Any) -> None:
    """An asynchronous invocation: tried again after one and after two minutes of cloud time, as AWS does.

    What fails for the last time goes to the function's destination, if it has one and its role may send there.
    """
    given = [one.config for one in function.event_invoke_config]
    config: Mapping[str, Any] = given[0] if given else {}
    pauses = ASYNC_RETRY_CLOUD_SECONDS[: config.get("MaximumRetryAttempts", 2)]
    for attempt, pause in enumerate((*pauses, None), start=1):
        outcome = runtime.invoke_from_queue(function, body)
        if outcome.error is None:
            return
        if pause is None:
            queue = config.get("DestinationConfig", {}).get("OnFailure", {}).get("Destination")
            if queue:
                _tell_destination(cloud, function, queue, body, outcome, attempt)
            return
        if not cloud.clock.sleep(pause, stop=cloud.closing.is_set):
            return


def _tell_destination(
    cloud: OpenCloud, function: Any, queue_arn: str, body: Any, outcome: Outcome, attempts: int
) -> None:
    """Send the record of a failed invocation (Lambda guide, "Retaining records of asynchronous invocations")."""
    try:
        for need in delivery_needs("sqs", queue_arn, cloud.access.account):
            cloud.access.check_role(function.role, function.function_name, "lambda.amazonaws.com", need)
    except (Refused, CannotAssume) as error:
        log.error("a failed invocation of %s is lost: %s", function.function_name, error)
        return
    record = {
        "version": "1.0",
        "timestamp": cloud.clock.now().strftime("%Y-%m-%dT%H:%M:%S.000Z"),
        "requestContext": {
            "requestId": str(uuid.uuid4()),
            "functionArn": f"{function.function_arn}:$LATEST",
            "condition": "RetriesExhausted",
            "approximateInvokeCount": attempts,
        },
        "requestPayload": json.loads(body or b"{}"),
        "responseContext": {"statusCode": 200, "executedVersion": "$LATEST", "functionError": outcome.error},
        "responsePayload": json.loads(outcome.payload),
    }
    send_to_queue(cloud, queue_arn, json.dumps(record))
