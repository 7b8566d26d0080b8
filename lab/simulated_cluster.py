"""A cluster on the simulated data plane: a source and a base replica that serves, and the load that it carries.

It is made through the AWS APIs alone, as a user's is, and ends with the first forecast and the first check of
the replicas. Making it again changes nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from lab.cluster import (
    Admin,
    BringUpError,
    Hosts,
    RunningCluster,
    attach_volume,
    ensure_instance_profile,
    eventually,
    launch,
    serve,
)
from peaker_contract.names import OWNER_TAG

VOLUME_GIB = 4
HISTORY_DAYS, DAYS_AHEAD = 28, 14
# The load goes up and down by this share of itself in a day.
DAILY_SWING = 0.1


def make_simulated_cluster(
    client: Callable[[str], Any],
    admin: Admin,
    environment: str,
    settings: Mapping[str, Any],
    load: float | None,
    prepare_base: Callable[[str], None],
    progress: Callable[[str], None],
) -> RunningCluster:
    """Make what is missing; return when the base replica serves and forecast and check have looked at it.

    `client` makes boto3 clients, `admin(path, body)` calls an endpoint under /_peaker/, `settings` is the cluster's
    deployed block, `load` is in units of its load metric: a third of what one replica serves when it is None.
    `prepare_base` does with an instance id what `peaker prepare-base` does.
    """
    endpoint = settings["read_endpoint"]
    if not endpoint.get("target_group_arn"):
        raise BringUpError(
            f"{settings['name']} has a read endpoint of kind {endpoint['kind']}; "
            "only a cluster behind a load balancer is simulated"
        )
    ec2 = client("ec2")
    ensure_instance_profile(client("iam"), settings["instance_profile"])
    zones = sorted(settings["subnets"])
    source = _host(ec2, settings, zones[0], "source", progress)
    replica = _host(ec2, settings, zones[-1], "replica", progress)
    _data_volumes(ec2, settings, str(replica["InstanceId"]), zones[-1], progress)
    Hosts(client("ssm")).await_online(str(replica["InstanceId"]))
    progress(f"peaker prepare-base {settings['name']} {replica['InstanceId']}")
    prepare_base(str(replica["InstanceId"]))
    serve(client("elbv2"), admin, endpoint, str(replica["InstanceId"]), progress)
    _carry(admin, settings, settings["capacity_per_replica"] / 3 if load is None else load, progress)
    for function in ("forecast_load", "check_replicas"):
        progress(f"first {function}")
        _invoke(client("lambda"), f"peaker-{environment}-{function}", {"cluster": settings["name"]})
    return RunningCluster(
        str(settings["name"]),
        str(source["InstanceId"]),
        str(source["PrivateIpAddress"]),
        str(replica["InstanceId"]),
        str(endpoint["target_group_arn"]),
        int(endpoint["listener_port"]),
    )


def _host(
    ec2: Any, settings: Mapping[str, Any], zone: str, role: str, progress: Callable[[str], None]
) -> dict[str, Any]:
    """The cluster's host of that role that its user made, running."""

    def found() -> list[dict[str, Any]]:
        filters = [
            {"Name": "tag:peaker:environment", "Values": [settings["environment"]]},
            {"Name": "tag:peaker:cluster", "Values": [settings["name"]]},
            {"Name": "tag:peaker:role", "Values": [role]},
            {"Name": "instance-state-name", "Values": ["pending", "running"]},
        ]
        groups = ec2.describe_instances(Filters=filters)["Reservations"]
        hosts = [one for group in groups for one in group["Instances"]]
        return [one for one in hosts if all(tag["Key"] != OWNER_TAG for tag in one["Tags"])]

    if not found():
        progress(f"launching the {'base replica' if role == 'replica' else role} in {zone}")
        launch(ec2, settings, zone, role)
    eventually(f"the {role} runs", lambda: [one for one in found() if one["State"]["Name"] == "running"])
    return found()[0]


def _data_volumes(
    ec2: Any, settings: Mapping[str, Any], instance_id: str, zone: str, progress: Callable[[str], None]
) -> None:
    def attached() -> dict[str, str]:
        filters = [{"Name": "attachment.instance-id", "Values": [instance_id]}]
        volumes = ec2.describe_volumes(Filters=filters)["Volumes"]
        return {one["Attachments"][0]["Device"]: one["State"] for one in volumes}

    wanted = {volume["device"]: volume for volume in settings["volumes"]}
    for device in wanted.keys() - attached().keys():
        progress(f"volume {wanted[device]['name']} of {VOLUME_GIB} GiB")
        attach_volume(ec2, settings, wanted[device], instance_id, zone, Size=VOLUME_GIB)
    eventually("its volumes are in use", lambda: all(attached().get(one) == "in-use" for one in wanted))


def _carry(admin: Admin, settings: Mapping[str, Any], load: float, progress: Callable[[str], None]) -> None:
    """The load of the past weeks and of the days to come, which show as the clock reaches them."""
    metric = settings["load_metric"]
    now = datetime.fromisoformat(str(admin("clock", None)["now"]))
    step = timedelta(seconds=min(metric["period_seconds"], 300))
    first = now.replace(minute=0, second=0, microsecond=0) - timedelta(days=HISTORY_DAYS)
    count = int(timedelta(days=HISTORY_DAYS + DAYS_AHEAD) / step)
    progress(f"a load of about {load:g} for {HISTORY_DAYS} days until now and {DAYS_AHEAD} to come")
    points = [(at := first + number * step, _daily(load, at)) for number in range(count)]
    admin(
        "metrics/history",
        {
            "namespace": metric["namespace"],
            "name": metric["name"],
            "dimensions": metric["dimensions"],
            "points": [[at.isoformat(), value] for at, value in points],
        },
    )


def _daily(load: float, at: datetime) -> float:
    """Lowest at midnight, highest at noon."""
    return round(load * (1 - DAILY_SWING * math.cos(2 * math.pi * (at.hour + at.minute / 60) / 24)), 3)


def _invoke(functions: Any, name: str, event: Mapping[str, Any]) -> None:
    answer = functions.invoke(FunctionName=name, Payload=json.dumps(dict(event)))
    if "FunctionError" in answer:
        raise BringUpError(f"{name}: {answer['Payload'].read().decode()}")
