"""The local cloud's own endpoints under /_peaker/: health, clock, faults, metric history, state.

Every answer is JSON. A bad request gets status 400 and {"error": "<field>: what is wrong"}.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from werkzeug.wrappers import Request, Response

if TYPE_CHECKING:
    from localcloud.open_cloud import OpenCloud

PREFIX = "/_peaker/"


class BadRequest(ValueError):
    """The caller's input is wrong: the message names the field and the remedy."""


def admin_application(cloud: OpenCloud) -> Callable[[dict[str, Any], Any], Iterable[bytes]]:
    """A WSGI application that answers the admin endpoints of one cloud."""
    routes: dict[tuple[str, str], Callable[[dict[str, Any]], Any]] = {
        ("GET", "health"): lambda _: {"status": "ready", "endpoint": cloud.endpoint_url},
        ("GET", "clock"): lambda _: cloud.clock.as_dict(),
        ("POST", "clock"): lambda body: _set_clock(cloud, body),
        ("GET", "faults"): lambda _: {"faults": [fault.as_dict() for fault in cloud.faults.all()]},
        ("POST", "faults"): lambda body: cloud.faults.add_from(body).as_dict(),
        ("DELETE", "faults"): lambda _: {"cleared": cloud.faults.clear()},
        ("POST", "metrics/history"): lambda body: _load_history(cloud, body),
        ("GET", "state"): lambda _: described(cloud),
    }

    def answer(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        request = Request(environ)
        route = routes.get((request.method, request.path.removeprefix(PREFIX).rstrip("/")))
        if route is None:
            known = ", ".join(f"{method} {PREFIX}{path}" for method, path in routes)
            return _json({"error": f"no such endpoint; there are: {known}"}, 404)(environ, start_response)
        try:
            response = _json(route(_body(request)), 200)
        except ValueError as error:
            response = _json({"error": str(error)}, 400)
        return response(environ, start_response)

    return answer


def described(cloud: OpenCloud) -> dict[str, Any]:
    """What runs: for GET /_peaker/state and `localcloud status`."""
    from localcloud.extensions.stepfunctions import executions as stepfunctions

    return {
        "endpoint": cloud.endpoint_url,
        "host_endpoint_url": cloud.host_endpoint_url,
        "dns": f"127.0.0.1:{cloud.dns_port}",
        "state_dir": str(cloud.state_dir),
        "clock": cloud.clock.as_dict(),
        "dataplane": None if cloud.dataplane is None else cloud.dataplane.kind,
        "faults": [fault.as_dict() for fault in cloud.faults.all()],
        "metric_points": cloud.metrics.count(),
        "running_executions": [item.exec_arn for item in stepfunctions.running()],
    }


def _json(document: Any, status: int) -> Response:
    return Response(json.dumps(document, default=str), status=status, content_type="application/json")


def _body(request: Request) -> dict[str, Any]:
    if request.method != "POST":
        return {}
    try:
        body = json.loads(request.get_data())
    except json.JSONDecodeError as error:
        raise BadRequest(f"body: not JSON ({error})") from error
    if not isinstance(body, dict):
        raise BadRequest("body: must be a JSON object")
    return body


def _only(body: dict[str, Any], *allowed: str) -> None:
    unknown = sorted(set(body) - set(allowed))
    if unknown:
        raise BadRequest(f"{unknown[0]}: unknown field; there are {', '.join(allowed)}")


def _set_clock(cloud: OpenCloud, body: dict[str, Any]) -> Any:
    _only(body, "scale", "now")
    if not body:
        raise BadRequest("body: give scale, now, or both")
    cloud.clock.set(scale=body.get("scale"), now=parse_time(body["now"], "now") if "now" in body else None)
    return cloud.clock.as_dict()


def _load_history(cloud: OpenCloud, body: dict[str, Any]) -> Any:
    from localcloud.extensions.cloudwatch.metrics import load_history

    _only(body, "namespace", "name", "dimensions", "points", "unit")
    for field in ("namespace", "name", "points"):
        if field not in body:
            raise BadRequest(f"{field}: required")
    points = [(parse_time(at, f"points[{i}]"), float(value)) for i, (at, value) in enumerate(body["points"])]
    load_history(cloud, body["namespace"], body["name"], body.get("dimensions", {}), points, body.get("unit"))
    return {"loaded": len(points)}


def parse_time(text: Any, field: str) -> datetime:
    """An ISO 8601 time with a zone. Raises BadRequest naming the field."""
    try:
        parsed = datetime.fromisoformat(str(text))
    except ValueError as error:
        raise BadRequest(f"{field}: not an ISO 8601 time: {text!r}") from error
    if parsed.tzinfo is None:
        raise BadRequest(f"{field}: needs a time zone, e.g. 2026-11-21T08:00:00Z")
    return parsed
