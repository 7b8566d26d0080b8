"""The commands before a snapshot."""

from __future__ import annotations

import os
from typing import Any, Dict

from peaker_host.health.commands import health_policy
from peaker_host.machine.command import (
    Command,
    Context,
    Parameter,
    absolute_paths,
    count,
    not_negative,
    path_or_nothing,
    port,
    typed,
)
from peaker_host.machine.settings import DEFAULT_PATH, ENGINES


def _filesystem_list(text: str) -> Any:
    from peaker_host.donor.base_checks import Filesystem

    pairs = [part.partition("=") for part in text.split(",")]
    if not all(os.path.isabs(place) and kind in ("xfs", "ext4") for place, _, kind in pairs):
        raise ValueError(text)
    return tuple(Filesystem(place, kind) for place, _, kind in pairs)


_filesystems = typed(_filesystem_list, "mount point=xfs or ext4, separated by commas")


def _prepare_donor(context: Context) -> Dict[str, Any]:
    from peaker_host.donor.prepare_donor import prepare_donor

    arguments = context.arguments
    return prepare_donor(context.machine, arguments.mount_points, context.say)


def _prepare_base(context: Context) -> Dict[str, Any]:
    from peaker_host.donor.base_replica import BaseRequest, prepare_base

    arguments = context.arguments
    request = BaseRequest(
        arguments.engine,
        arguments.health_port,
        arguments.filesystems,
        arguments.least_binlog_seconds,
        arguments.health,
        arguments.admin_defaults_file,
        arguments.health_account == "here",
        arguments.mode == "check",
    )
    return prepare_base(
        context.machine, arguments.settings or DEFAULT_PATH, request, arguments.wait_seconds, context.say
    )


COMMANDS = (
    Command(
        "prepare_donor",
        "Check the donor, dump its page list, report its position",
        "--run-id R --mount-points /var/lib/mysql,/var/lib/mysql-log",
        _prepare_donor,
        (
            Parameter(
                "--mount-points",
                "where the volumes that will be snapshotted are mounted, separated by commas",
                absolute_paths,
            ),
        ),
        fenced=True,
        alone=True,
    ),
    Command(
        "prepare_base",
        "Look whether a replica that others built can be a donor, and put there what Peaker needs",
        "--run-id R --engine mysql --health-port 9200 --filesystems /var/lib/mysql=xfs,/var/lib/mysql-log=xfs",
        _prepare_base,
        (
            Parameter("--engine", "of the cluster", choices=ENGINES),
            Parameter("--health-port", "where the load balancer asks", port),
            Parameter(
                "--filesystems",
                "of the cluster's volumes: mount point=xfs or ext4, separated by commas",
                _filesystems,
            ),
            Parameter("--least-binlog-seconds", "how long the source should keep binary logs", count, 0),
            Parameter("--health", "what the responder goes by, JSON", health_policy, {}),
            Parameter(
                "--admin-defaults-file",
                "option file of this host with an administrator's login; else root by the socket",
                path_or_nothing,
                "",
            ),
            Parameter(
                "--health-account",
                "where it comes from: the source, by replication, or made on this server alone, not logged",
                default="replicated",
                choices=("replicated", "here"),
            ),
            Parameter(
                "--mode",
                "check: make nothing, refuse what is missing",
                default="prepare",
                choices=("prepare", "check"),
            ),
            Parameter("--wait-seconds", "how long the responder may take to answer good", not_negative, 30.0),
        ),
    ),
)
