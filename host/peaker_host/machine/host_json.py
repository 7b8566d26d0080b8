"""host.json gets the cluster's settings and the facts that were found in an image.

A peak replica boots from an image that may have no host.json, and an image has its server where its packages put it.
What cannot become a replica is refused before hours of prewarm.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import Any, Dict, List, Sequence

from peaker_host.machine.command import Context, Parameter, port
from peaker_host.machine.errors import (
    ImageUnfit,
)
from peaker_host.machine.files import read_json, write_atomically
from peaker_host.machine.image_server import (
    CONFIG_DIRS,
    EXTRA_DIR,
    EXTRA_FILE,
    PROGRAMS,
    UNITS,
    ImageServer,
    ServerUnit,
    known_units,
    last_of,
)
from peaker_host.machine.settings import DEFAULT_PATH, ENGINES, Machine, Settings

DECIDED = ("engine", "health_port", "datadir", "mysql_service")
_OF_AN_IMAGE = (*DECIDED, "mysql_server", "config_dir", "error_log")
_NAME_IT = "in /etc/peaker/host.json of the image"

OF_THE_CLUSTER = (
    Parameter(
        "--engine", "of the cluster; empty leaves host.json as it is", default="", choices=("", *ENGINES)
    ),
    Parameter("--health-port", "of the cluster, where the load balancer and the peers ask", port, 0),
)


def settled(context: Context, mount_points: Sequence[str] = ()) -> Machine:
    """The settings of a command that is the first, or may be, on a peak replica. Raises ImageUnfit."""
    given = context.arguments
    if not given.engine:
        return context.machine
    path = given.settings or DEFAULT_PATH
    return settle(context.machine, path, given.engine, given.health_port, mount_points)


def to_decide(settings: Settings, path: str, names: Sequence[str] = DECIDED) -> Dict[str, Any]:
    """Returns the fields that host.json needs and lacks."""
    written, default = read_json(path) or {}, vars(Settings())
    return {
        name: value
        for name, value in vars(settings).items()
        if name in names and value != written.get(name, default[name])
    }


def write_decided(path: str, decided: Dict[str, Any]) -> None:
    write_atomically(path, json.dumps({**(read_json(path) or {}), **decided}, indent=1) + "\n")


def settle(
    machine: Machine, path: str, engine: str, health_port: int, mount_points: Sequence[str] = ()
) -> Machine:
    """The settings of a peak replica, kept in host.json (`path`).

    What the image's host.json says of its server holds; the cluster's settings decide engine and port. `mount_points`
    are those of the volumes; none leaves the data directory unchecked. Raises ImageUnfit.
    """
    found = _found(machine, read_json(path) or {}, engine)
    _refuse_off_volumes(found, mount_points)
    known = replace(found, engine=engine, health_port=health_port or machine.health_port)
    decided = to_decide(known, path, _OF_AN_IMAGE)
    if decided:
        write_decided(path, decided)
    return known


def image_server(machine: Machine) -> ImageServer:
    unit = known_units(machine.processes, (machine.mysql_service,))[0]
    return ImageServer(machine.processes, unit, [machine.mysql_server, *PROGRAMS])


def _found(machine: Machine, written: Dict[str, Any], engine: str) -> Machine:
    unit = _only_unit(known_units(machine.processes, _unit_names(written)), written)
    named = [str(written["mysql_server"])] if "mysql_server" in written else []
    server = ImageServer(machine.processes, unit, [*named, *PROGRAMS])
    _refuse_other_engine(server, engine)
    options = server.options()
    found: Dict[str, Any] = {
        # A name that the image gives may be an alias; it stays as it is.
        "mysql_service": str(written.get("mysql_service", unit.name)),
        "mysql_server": str(written.get("mysql_server", server.program)),
        "datadir": _datadir(machine, written, last_of(options, "datadir")),
        "config_dir": _config_dir(machine, written, server),
    }
    log = last_of(options, "log_error")
    if os.path.isabs(log) and "error_log" not in written:
        found["error_log"] = log
    return replace(machine, **found)


def _unit_names(written: Dict[str, Any]) -> Sequence[str]:
    return (str(written["mysql_service"]),) if "mysql_service" in written else UNITS


def _only_unit(units: Sequence[ServerUnit], written: Dict[str, Any]) -> ServerUnit:
    if len(units) == 1:
        return units[0]
    if units:
        raise ImageUnfit(
            f"several units may be the server's: {', '.join(unit.name for unit in units)}: name the one as "
            f"mysql_service {_NAME_IT}"
        )
    if "mysql_service" in written:
        raise ImageUnfit(
            f"systemd has no unit {written['mysql_service']} that it could start: mysql_service {_NAME_IT} must name "
            "the server's"
        )
    raise ImageUnfit(
        f"systemd has none of the units {', '.join(UNITS)}: install the server in the image, or name its unit as "
        f"mysql_service {_NAME_IT}"
    )


def _refuse_other_engine(server: ImageServer, engine: str) -> None:
    if server.engine != engine:
        raise ImageUnfit(
            f"the image's server is {server.version[:120]}, the cluster's engine is {engine}: set image_id of the "
            "cluster to an image with that server"
        )


def _datadir(settings: Settings, written: Dict[str, Any], given: str) -> str:
    """Raises ImageUnfit where the image says two things."""
    if not os.path.isabs(given):
        return settings.datadir
    given = os.path.normpath(given)
    if "datadir" in written and os.path.realpath(given) != os.path.realpath(settings.datadir):
        raise ImageUnfit(
            f"datadir of the server is {given}, of host.json {settings.datadir}: take datadir out {_NAME_IT}, or "
            "mend the server's option file"
        )
    return settings.datadir if "datadir" in written else given


def _config_dir(settings: Settings, written: Dict[str, Any], server: ImageServer) -> str:
    """Returns a directory whose option file the server reads and nothing undoes. Raises ImageUnfit."""
    if "config_dir" in written:
        candidates = [settings.config_dir]
    else:
        candidates = [one for one in CONFIG_DIRS if os.path.isdir(one)]
    undone: List[str] = []
    for directory in candidates:
        against = server.reads(directory)
        if against == []:
            return directory
        undone += [f"{directory} is read, but {', '.join(against)} after it"] if against else []
    if "config_dir" not in written and _extra_file_serves(server):
        return EXTRA_DIR
    raise ImageUnfit(_not_read(candidates, undone, server.option_file))


def _extra_file_serves(server: ImageServer) -> bool:
    """Tells whether the server reads a second option file that the image lacks; then it is made."""
    if os.path.lexists(EXTRA_FILE):
        return False
    os.makedirs(EXTRA_DIR, exist_ok=True)
    write_atomically(EXTRA_FILE, f"# Written by Peaker.\n!includedir {EXTRA_DIR}/\n")
    if server.reads(EXTRA_DIR) == []:
        return True
    os.unlink(EXTRA_FILE)
    return False


def _not_read(candidates: Sequence[str], undone: Sequence[str], option_file: str) -> str:
    if undone:
        return (
            f"{'; '.join(undone)}: a peak replica could not be told what it is. Take that out of the image, or put "
            "`!includedir` of the directory at the end of the server's option file"
        )
    tried = ", ".join(candidates) or ", ".join(CONFIG_DIRS)
    return (
        f"the server reads no option file in {tried}: put `!includedir {(list(candidates) or ['/etc/my.cnf.d'])[0]}/` "
        f"as the last line into {option_file or 'its option file, such as /etc/my.cnf,'} in the image, or name a "
        f"directory that it reads as config_dir {_NAME_IT}"
    )


def _refuse_off_volumes(settings: Settings, mount_points: Sequence[str]) -> None:
    places = {os.path.normpath(settings.datadir), os.path.realpath(settings.datadir)}
    if mount_points and not any(_is_on(place, point) for place in places for point in mount_points):
        raise ImageUnfit(
            f"datadir of the image's server is {settings.datadir}, on none of the volumes ({', '.join(mount_points)}): "
            "set datadir in its option file to where the donor has it"
        )


def _is_on(place: str, point: str) -> bool:
    return place == point or place.startswith(point.rstrip("/") + "/")
