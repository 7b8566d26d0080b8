"""The commands of a clone."""

from __future__ import annotations

from typing import Any, Dict

from peaker_host.clone.request import CloneRequest, parse_clone
from peaker_host.machine.arguments import host_name, port, positive_int
from peaker_host.machine.command import Command, Context, Parameter
from peaker_host.machine.host_json import OF_THE_CLUSTER, settled


def _request(context: Context) -> CloneRequest:
    given = context.arguments
    return parse_clone(
        given.run_id, given.volumes, given.layout, given.donor_host, given.donor_port, given.rate_mib_per_s
    )


def _start_clone(context: Context) -> Dict[str, Any]:
    from peaker_host.warm.control import start_once

    given, request = context.arguments, _request(context)
    settings = settled(context, [member.mount_point for member in request.members])
    argv = ["clone_database", "--run-id", request.run_id]
    argv += ["--volumes", given.volumes, "--layout", given.layout]
    argv += ["--donor-host", request.donor.host, "--donor-port", str(request.donor.port)]
    argv += ["--rate-mib-per-s", str(request.rate_mib_per_s)]
    return start_once(settings, context.processes, request.run_id, argv, given.settings)


def _clone_database(context: Context) -> Dict[str, Any]:
    from peaker_host.clone.engine import CloneEngine
    from peaker_host.warm.engine import stop_on_signals

    engine = CloneEngine(context.settings, context.processes, _request(context), context.say)
    stop_on_signals(engine)
    return engine.run()


_OF_A_CLONE = (
    Parameter("--volumes", "JSON list of name, volume_id, device, mount_point, filesystem of empty volumes"),
    Parameter(
        "--layout",
        "the set manifest of the donor: what its filesystems stand on, and the uuids that the new ones are to have",
        default="",
    ),
    Parameter("--donor-host", "address of the donor, which is never the source", host_name),
    Parameter("--donor-port", "port of the donor's server", port, 3306),
    Parameter("--rate-mib-per-s", "at most so much is asked of the donor", positive_int),
)
_EXAMPLE = (
    "--run-id R --donor-host 10.77.1.11 --rate-mib-per-s 100 --volumes "
    '\'[{"name":"data","volume_id":"vol-0a1b2c3d4e5f60718","device":"/dev/sdf","mount_point":"/var/lib/mysql",'
    '"filesystem":"xfs"}]\''
)

COMMANDS = (
    Command(
        "start_clone",
        "Start a clone of the donor in the background, or say that it runs; report_prewarm says how far it is",
        _EXAMPLE,
        _start_clone,
        (*_OF_A_CLONE, *OF_THE_CLUSTER),
    ),
    Command(
        "clone_database",
        "Write empty volumes with the donor's database, by MySQL's clone plugin and clone_credentials_file",
        _EXAMPLE,
        _clone_database,
        _OF_A_CLONE,
    ),
)
