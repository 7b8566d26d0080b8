"""Where a clone puts what, by the option files of the host, and what it leaves to the image."""

from __future__ import annotations

import pytest
from host_bench import ScriptedProcesses
from peaker_host.clone.server_paths import ServerPaths, server_paths
from peaker_host.machine.errors import CloneRefused
from peaker_host.machine.settings import Settings

DATA, LOG = "/var/lib/mysql", "/var/lib/mysql-log"


def asked(programs: ScriptedProcesses, **options: str) -> ServerPaths:
    """With what `mysqld --verbose --help` says."""
    given = {
        "datadir": f"{DATA}/",
        "relay-log": "(No default value)",
        "log-bin": "(No default value)",
        **options,
    }
    lines = "\n".join(f"{name}   {value}" for name, value in given.items())
    programs.on(
        "--verbose --help", answer=f"Usage: mysqld\n\nVariables\n-------- -------\n{lines}\n\nTo see more\n"
    )
    return server_paths(Settings(), programs, [DATA, LOG])


def test_all_is_in_the_data_directory_where_nothing_is_said(programs: ScriptedProcesses) -> None:
    assert asked(programs) == ServerPaths(DATA, DATA, DATA, (DATA,))


def test_redo_undo_and_logs_are_where_the_options_say(programs: ScriptedProcesses) -> None:
    found = asked(
        programs,
        **{
            "innodb-log-group-home-dir": f"{LOG}/redo",
            "innodb-undo-directory": f"{LOG}/undo/",
            "innodb-doublewrite-dir": f"{LOG}/twice",
            "innodb-temp-tablespaces-dir": f"{DATA}/temporary",
            "tmpdir": "/tmp",
            "log-bin": f"{LOG}/binary/binlog",
            "relay-log": "relay",
        },
    )
    assert (found.redo, found.undo) == (f"{LOG}/redo", f"{LOG}/undo")
    assert set(found.places) == {
        DATA,
        f"{LOG}/redo",
        f"{LOG}/undo",
        f"{LOG}/twice",
        f"{LOG}/binary",
        f"{DATA}/temporary",
    }


def test_a_directory_of_the_image_is_none_that_a_clone_makes(programs: ScriptedProcesses) -> None:
    """Its owner and its mode would be the server's otherwise: of /var/log, which is everybody's."""
    assert asked(programs, **{"log-bin": "/var/log/binlog"}).places == (DATA,)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"datadir": "/data/mysql"}, "of host.json /var/lib/mysql"),
        ({"innodb-data-home-dir": f"{LOG}/system"}, "innodb_data_home_dir is /var/lib/mysql-log/system"),
        (
            {"innodb-log-group-home-dir": "/mnt/redo"},
            "innodb_log_group_home_dir is /mnt/redo, which is on none",
        ),
        ({"innodb-undo-directory": "/var/lib/mysql-logs"}, "innodb_undo_directory is /var/lib/mysql-logs"),
    ],
)
def test_a_place_that_a_clone_does_not_reach_is_refused_before_anything_is_written(
    programs: ScriptedProcesses, options: dict[str, str], said: str
) -> None:
    with pytest.raises(CloneRefused, match=said):
        asked(programs, **options)
