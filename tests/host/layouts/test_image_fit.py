"""The comparison of a donor with an image: each fact's rule, and what is unknown."""

from __future__ import annotations

from typing import Any

import pytest
from host_bench import ScriptedProcesses, table, variables
from peaker_host.database.mysql_client import admin_client
from peaker_host.layouts.image_fit import compare, donor_facts, image_facts, needs
from peaker_host.layouts.image_sides import Image
from peaker_host.machine.errors import CommandFailed, ToolMissing
from peaker_host.machine.image_server import PROGRAMS, ImageServer, ServerUnit
from peaker_host.machine.settings import Machine, Settings

DONOR = {"server version": [8, 4, 6], "owner of the data": [27, 27]}
IMAGE = {"server version": [8, 4, 6], "owner of the data": [27, 27, "mysql"], "programs": []}


def judged(donor: dict[str, Any], image: dict[str, Any]) -> tuple[list[str], list[str]]:
    return compare({**DONOR, **donor}, {**IMAGE, **image})


@pytest.mark.parametrize(
    ("image", "reasons", "said"),
    [
        ({}, [], []),
        (
            {"server version": [8, 4, 9]},
            [],
            ["the image's server is 8.4.9, the donor's 8.4.6: newer within the series"],
        ),
        (
            {"owner of the data": [27, 999, "mysql"]},
            [],
            ["mysql has uid 27 gid 999 in the image, the donor's files are of uid 27 gid 27"],
        ),
        (
            {"owner of the data": ["mysql"]},
            ["the image has no account mysql, the donor's files are of uid 27 gid 27"],
            [],
        ),
    ],
    ids=["the same", "newer", "another group", "no account"],
)
def test_what_is_refused_and_what_is_only_said(
    image: dict[str, Any], reasons: list[str], said: list[str]
) -> None:
    assert judged({}, image) == (reasons, said)


def test_a_fact_that_cannot_be_read_is_said_and_refuses_only_where_it_is_essential() -> None:
    reasons, said = judged({"AppArmor": ["/var/lib/mysql"]}, {"AppArmor": None, "owner of the data": None})
    assert (reasons, said) == (
        [],
        ["owner of the data of the image is unknown", "AppArmor of the image is unknown"],
    )
    assert judged({}, {"server version": None})[0] == ["server version of the image is unknown"]
    assert judged({"server version": None}, {})[0] == ["server version of the donor is unknown"]


def test_a_fact_that_the_donor_does_not_have_is_not_asked_for() -> None:
    assert compare({}, {"programs": []}) == ([], [])


def test_a_label_that_the_donor_enforces_itself_is_right() -> None:
    assert judged({"SELinux": "enforced u:object_r:orders_t:s0"}, {"SELinux": True}) == ([], [])
    assert judged({"SELinux": "u:object_r:default_t:s0"}, {"SELinux": True})[0] != []
    assert judged({"SELinux": ""}, {"SELinux": False}) == ([], [])


def image_of(programs: ScriptedProcesses, options: str = "--user=nobody") -> Image:
    programs.on("--version", answer="mysqld  Ver 8.4.6 for Linux on x86_64 (MySQL Community Server - GPL)")
    programs.on("--print-defaults", answer=f"mysqld would have been started with:\n{options}")
    server = ImageServer(programs, ServerUnit("mysqld"), PROGRAMS)
    return Image(Machine.of(Settings(), programs), server, ["/var/lib/mysql"], "/nowhere")


def test_an_image_is_asked_in_the_words_of_its_own_programs(programs: ScriptedProcesses) -> None:
    programs.on("fio --enghelp=libaio", answer="libaio options")
    programs.on("fio --enghelp=io_uring", answer="")
    programs.on("iostat -V", answer=ToolMissing("iostat is not installed"))
    programs.on(
        "--verbose --help",
        answer="mysqld  Ver 8.4.6\n\ninnodb-undo-directory     (No default value)\ninnodb-page-size    16384\n",
    )
    image = image_of(programs)
    asked = {**DONOR, "innodb_undo_directory": "/var/lib/mysql", "innodb_page_size": "16384", "datadir": "/x"}
    found = image_facts(image, asked)
    assert found["innodb_undo_directory"] == "/var/lib/mysql"
    assert found["programs"] == ["sysstat"]
    assert found["owner of the data"][2] == "nobody"
    assert len(programs.said("--help")) == 1, "asked once for all"


def test_what_an_image_does_not_say_is_unknown(programs: ScriptedProcesses) -> None:
    programs.on("fio", answer=CommandFailed("fio did not end")).on("iostat").on("--help", answer="nothing\n")
    found = image_facts(image_of(programs), {**DONOR, "innodb_page_size": "16384"})
    assert (found["programs"], found["innodb_page_size"]) == (None, None)


def donor_of(programs: ScriptedProcesses, engine: str = "mysql", **changes: str) -> dict[str, Any]:
    """Of a server that has no rows of what the test does not say."""
    programs.rules.append(((), ""))
    told = {"version": "8.4.6-6", "innodb_page_size": "16384", "innodb_log_group_home_dir": "./", **changes}
    programs.on("SHOW GLOBAL VARIABLES", answer=variables(**told))
    return donor_facts(admin_client(Machine.of(Settings(), programs)), engine, ["/tmp"])


@pytest.mark.parametrize(
    ("variables", "place"),
    [
        ({"innodb_doublewrite_dir": "/srv/doublewrite"}, "/srv/doublewrite"),
        ({"innodb_doublewrite_dir": "", "innodb_data_home_dir": "/srv/innodb"}, "/srv/innodb"),
        ({"innodb_doublewrite_dir": "", "innodb_data_home_dir": ""}, "/tmp"),
    ],
)
def test_a_directory_that_is_not_given_is_where_the_server_takes_it_to_be(
    programs: ScriptedProcesses, variables: dict[str, str], place: str
) -> None:
    """In another one the image's server would not find the pages that a crash-consistent copy has torn."""
    assert donor_of(programs, **variables)["innodb_doublewrite_dir"] == place
    options = " ".join(f"--{name}={value}" for name, value in variables.items())
    image = image_of(programs, options)
    image.datadir = "/tmp"
    assert image.path("innodb_doublewrite_dir") == place


def test_mariadb_has_no_directory_of_its_own_for_doublewrites(programs: ScriptedProcesses) -> None:
    assert "innodb_doublewrite_dir" not in donor_of(programs, "mariadb", innodb_data_home_dir="/srv/innodb")


COMPONENT = table(
    {"STATUS_KEY": "Component_name", "STATUS_VALUE": "component_keyring_file"},
    {"STATUS_KEY": "Data_file", "STATUS_VALUE": "/srv/keys/main"},
)


def test_a_component_counts_only_where_something_is_encrypted(programs: ScriptedProcesses) -> None:
    programs.on("keyring_component_status", answer=COMPONENT)
    programs.on("INNODB_TABLESPACES", answer=table({"n": "0"}))
    assert "keyring component" not in donor_of(programs)
    assert "keyring component" in donor_of(programs, binlog_encryption="ON")
    programs.on("INNODB_TABLESPACES", answer=table({"n": "3"}))
    assert donor_of(programs)["keyring component"] == {
        "component": "component_keyring_file",
        "key_file": "/srv/keys/main",
    }


def test_a_keyring_that_cannot_be_asked_is_said(programs: ScriptedProcesses) -> None:
    programs.on("keyring_component_status", answer=CommandFailed("denied"))
    donor = donor_of(programs)
    assert donor["keyring component"] is None
    assert compare(donor, {"keyring component": {}}) == ([], ["keyring component of the donor is unknown"])


NATIVE = "mysql_native_password"


def test_an_image_must_let_in_the_accounts_that_its_donor_lets_in(programs: ScriptedProcesses) -> None:
    """MySQL 8.4 has their plugin off by default, and 9 has none; MariaDB's is always there."""
    assert NATIVE not in donor_of(programs)
    programs.on(f"'{NATIVE}'", answer=table({"PLUGIN_NAME": NATIVE}))
    donor = donor_of(programs)
    assert donor[NATIVE] == "ON"
    assert "mysql_native_password = ON" in needs(donor)
    assert NATIVE not in donor_of(programs, "mariadb")


@pytest.mark.parametrize(
    ("options", "fits"),
    [
        ("", False),
        ("--mysql-native-password=off", False),
        ("--mysql-native-password", True),
        ("--mysql_native_password=FORCE", True),
        ("--loose-mysql-native-password=1", True),
    ],
)
def test_an_image_that_keeps_them_out_is_refused(
    programs: ScriptedProcesses, options: str, fits: bool
) -> None:
    programs.on("fio").on("iostat").on("--help", answer="mysql-native-password     OFF\n")
    found = image_facts(image_of(programs, options), {NATIVE: "ON"})
    reasons = compare({NATIVE: "ON"}, found)[0]
    assert reasons == [] if fits else "put mysql_native_password = ON into the image's options" in reasons[0]


SOCKET, DENIED = table({"plugin": "auth_socket"}), CommandFailed("ERROR 1142 (42000): SELECT command denied")
PASSWORD_OF_ALL = "--password=*****"


@pytest.mark.parametrize(
    ("root_without_password", "options", "reasons", "said"),
    [
        (SOCKET, "", [], []),
        ("", "", ["root@localhost of the donor's server needs a password"], []),
        ("", PASSWORD_OF_ALL, [], []),
        (DENIED, "", [], ["nobody may log in at the copy"]),
        (DENIED, PASSWORD_OF_ALL, [], []),
    ],
    ids=["by the socket", "a password", "a password in my.cnf", "unknown", "unknown, a password in my.cnf"],
)
def test_peaker_must_get_into_the_copy(
    programs: ScriptedProcesses,
    root_without_password: Any,
    options: str,
    reasons: list[str],
    said: list[str],
) -> None:
    """The RPMs of Oracle and Percona give root@localhost a password, which comes with the copy."""
    programs.on("fio").on("iostat").on("FROM mysql.user", answer=root_without_password)
    donor = {name: value for name, value in donor_of(programs).items() if name == "administrator"}
    found = compare(donor, image_facts(image_of(programs, options), donor))
    for words, wanted in zip(found, (reasons, said), strict=True):
        assert len(words) == len(wanted)
        assert all(one in word for word, one in zip(words, wanted, strict=True))


@pytest.mark.parametrize(
    ("engine", "shown", "files"),
    [
        ("mysql", {"Source_SSL_Allowed": "Yes", "Source_SSL_CA_File": "/etc/ca.pem"}, ["/etc/ca.pem"]),
        ("mysql", {"Source_SSL_Allowed": "Yes", "Source_SSL_Cipher": "A", "Source_SSL_Key": "key.pem"}, None),
        ("mysql", {"Source_SSL_Allowed": "No", "Source_SSL_CA_File": "/etc/ca.pem"}, None),
        ("mysql", {"Source_SSL_Allowed": "No", "Source_public_key_path": "/etc/key.pem"}, ["/etc/key.pem"]),
        (
            "mariadb",
            {"Master_SSL_Allowed": "Yes", "Master_SSL_Cert": "/etc/c", "Master_SSL_Key": "/etc/k"},
            ["/etc/c", "/etc/k"],
        ),
    ],
)
def test_the_channel_names_files_that_its_source_is_asked_with(
    programs: ScriptedProcesses, engine: str, shown: dict[str, str], files: list[str] | None
) -> None:
    """A name without a directory is one of the data directory, which the copy has."""
    programs.on("SHOW REPLICA STATUS" if engine == "mysql" else "SHOW SLAVE STATUS", answer=table(shown))
    assert donor_of(programs, engine).get("files of the channel") == files


@pytest.mark.parametrize(("stored", "needed"), [(table({"Channel_name": ""}), False), ("", True)])
def test_a_channel_whose_password_is_not_stored_needs_one_in_the_image(
    programs: ScriptedProcesses, stored: str, needed: bool
) -> None:
    """START REPLICA USER = ... PASSWORD = ... keeps none; a client's certificate may take its place."""
    programs.on("User_password <> '' OR Ssl_cert <> ''", answer=stored)
    donor = donor_of(programs)
    assert ("login of the channel" in donor, "replication.json" in needs(donor)) == (needed, needed)
    assert "login of the channel" not in donor_of(programs, "mariadb"), "whose image always needs it"


def test_doctor_says_what_the_image_must_have(programs: ScriptedProcesses) -> None:
    programs.on("keyring_component_status", answer="")
    told = needs({**donor_of(programs), "owner of the data": [27, 27]})
    assert told.startswith("a server of 8.4.6 or newer in its series, its account of uid 27 gid 27, ")
    assert "innodb_page_size 16384" in told
    assert needs({}).startswith("a server of an unknown version; fio")
