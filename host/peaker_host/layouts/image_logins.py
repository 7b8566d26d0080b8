"""Facts of who is let in: clients and Peaker by the copy's server, the copy by its source."""

from __future__ import annotations

from typing import Any, List, Tuple

from peaker_host.layouts.image_sides import ABSENT, FITS, Donor, Fact, Image, Words
from peaker_host.machine.errors import HostError

# MySQL 8.4 has it and is without it by default, later ones have none; MariaDB always has it.
NATIVE_PASSWORD = "mysql_native_password"


def _native_of_donor(donor: Donor) -> str:
    has_it = (
        "SELECT PLUGIN_NAME FROM information_schema.PLUGINS"
        " WHERE PLUGIN_NAME = 'mysql_native_password' AND PLUGIN_STATUS = 'ACTIVE'"
    )
    return "ON" if donor.engine == "mysql" and donor.server.rows(has_it) else ABSENT


def _native_rule(_donor: Any, image: Any) -> Words:
    """Given without a value, which is empty here, it is on."""
    if image.upper() not in ("OFF", "0", "FALSE"):
        return FITS
    return True, (
        f"the donor's server has {NATIVE_PASSWORD} on, the image's off: it would refuse the accounts that use it; put "
        f"{NATIVE_PASSWORD} = ON into the image's options"
    )


def _administrator_of_donor(donor: Donor) -> str:
    """A copy has its donor's accounts. The least login of an administrator may not read them."""
    without_password = (
        "SELECT plugin FROM mysql.user WHERE User = 'root' AND Host = 'localhost'"
        " AND (plugin = 'auth_socket' OR authentication_string = '')"
    )
    try:
        return ABSENT if donor.engine != "mysql" or donor.server.rows(without_password) else "password"
    except HostError:
        return "unknown"


def _login_of_image(image: Image, _donor: Any) -> bool:
    """An option file of all clients may give a password too, which the client shows as stars."""
    if image.has(image.machine.admin_defaults_file):
        return True
    argv = [image.machine.mysql_client, "--print-defaults"]
    return "--password=" in image.processes.run(argv, environment={"HOME": "/nonexistent"}).stdout


def _administrator_rule(donor: Any, image: Any) -> Words:
    if image:
        return FITS
    remedy = (
        "put an option file with its login into /etc/peaker/admin.cnf of the image, readable by root alone"
    )
    if donor == "password":
        return (
            True,
            f"root@localhost of the donor's server needs a password, and the image has none: {remedy}",
        )
    return (
        False,
        f"nobody may log in at the copy if root@localhost of the donor's server needs a password: {remedy}",
    )


def _channel_files_of_donor(donor: Donor) -> Any:
    """The files of the channel's encryption, or the key that takes its place; no directory is the data directory."""
    mysql = donor.engine == "mysql"
    rows = donor.server.rows("SHOW REPLICA STATUS" if mysql else "SHOW SLAVE STATUS")
    status = rows[0] if rows else {}
    is_encrypted = status.get("Source_SSL_Allowed" if mysql else "Master_SSL_Allowed") == "Yes"
    named = {
        value for name, value in status.items() if ("_SSL_" if is_encrypted else "_public_key_path") in name
    }
    return sorted(path for path in named if path and path.startswith("/")) or ABSENT


def _missing_of_channel(image: Image, donor: Any) -> List[str]:
    """A name that SSM does not carry as it is cannot be looked for."""
    return [path for path in donor if "?" not in path and not image.has(path)]


def _channel_rule(_donor: Any, image: Any) -> Words:
    if not image:
        return FITS
    return True, (
        f"replication needs {', '.join(image)}, which neither the image nor a volume has: put it into the image, "
        "readable by the server's account"
    )


def _channel_login_of_donor(donor: Donor) -> str:
    """Tells whether MySQL stores the channel's login; one with a client's certificate may be without a password."""
    stored = (
        "SELECT Channel_name FROM mysql.slave_master_info"
        " WHERE User_name <> '' AND (User_password <> '' OR Ssl_cert <> '')"
    )
    return ABSENT if donor.engine != "mysql" or donor.server.rows(stored) else "not stored"


def _channel_login_rule(_donor: Any, image: Any) -> Words:
    if image:
        return FITS
    return True, (
        "the donor's channel stores no password, and the image has no /etc/peaker/replication.json: put "
        '{"user": "...", "password": "..."} there, readable by root alone'
    )


LOGINS: Tuple[Fact, ...] = (
    Fact(
        NATIVE_PASSWORD, _native_of_donor, lambda image, _donor: image.option(NATIVE_PASSWORD), _native_rule
    ),
    Fact("administrator", _administrator_of_donor, _login_of_image, _administrator_rule),
    Fact("files of the channel", _channel_files_of_donor, _missing_of_channel, _channel_rule),
    Fact(
        "login of the channel",
        _channel_login_of_donor,
        lambda image, _donor: image.has(image.machine.replication_credentials_file),
        _channel_login_rule,
    ),
)
