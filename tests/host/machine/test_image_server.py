"""A peak replica boots from an image that knows nothing of Peaker: what its server is and reads is found, or refused.

The servers are those of the local cloud's images, asked in a changed root."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from host_bench import ScriptedProcesses, image_root
from peaker_host.machine import image_server
from peaker_host.machine.errors import ImageUnfit, ToolMissing
from peaker_host.machine.image_server import ImageServer, ServerUnit, known_units, undoing
from peaker_host.replicate.identity import replica_options

from localcloud.hosts.images import MARIADB_IMAGE_ID, MYSQL_IMAGE_ID

UNITS = "usr/lib/systemd/system"
# As the RPMs of Oracle and Percona bring it: it names no directory.
RPM_FILE = (
    "[mysqld]\ndatadir=/var/lib/mysql\nsocket=/var/lib/mysql/mysql.sock\n"
    "log-error=/var/log/mysqld.log\npid-file=/var/run/mysqld/mysqld.pid\n"
)


class Image:
    """An image's files, and the first command of a run on it."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_text(text)

    def as_rpm(self) -> None:
        """Oracle's server on RHEL or Amazon Linux: another unit, another option file, nothing below /etc/mysql."""
        (self.root / UNITS / "mysql.service").rename(self.root / UNITS / "mysqld.service")
        shutil.rmtree(self.root / "etc" / "mysql")
        self.write("etc/my.cnf", RPM_FILE)

    @property
    def host_json(self) -> dict[str, Any]:
        path = self.root / "etc" / "peaker" / "host.json"
        content: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        return content

    def python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Python in the image, with the host package."""
        argv = ["chroot", str(self.root), "env", "PYTHONPATH=/opt/tried", "python3", *arguments]
        return subprocess.run(argv, capture_output=True, text=True, check=False)

    def assemble(
        self, engine: str = "mysql", mount_point: str = "/var/lib/mysql", donor: dict[str, Any] | None = None
    ) -> tuple[str, str]:
        """The error and its message; the volume itself is on no host here."""
        volume = {
            "name": "data", "volume_id": "vol-0a1b2c3d4e5f60718", "device": "/dev/sdf",
            "mount_point": mount_point, "filesystem": "xfs",
        }  # fmt: skip
        argv = [
            "-m",
            "peaker_host",
            "assemble_storage",
            "--run-id",
            "r",
            "--volumes",
            json.dumps([volume]),
            "--wait-seconds",
            "0.01",
        ]
        argv += ["--engine", engine, "--health-port", "9201", "--donor", json.dumps(donor or {})]
        said = self.python(*argv)
        result = json.loads(said.stdout.splitlines()[-1])
        return str(result["error"]), str(result["message"])

    def goes_on(self, engine: str = "mysql", donor: dict[str, Any] | None = None) -> dict[str, Any]:
        """What host.json says once the image was found fit."""
        error, message = self.assemble(engine, donor=donor)
        assert error == "DeviceNotFound", message
        return self.host_json

    def refused(
        self,
        engine: str = "mysql",
        mount_point: str = "/var/lib/mysql",
        donor: dict[str, Any] | None = None,
    ) -> str:
        error, message = self.assemble(engine, mount_point, donor)
        assert error == "ImageUnfit", message
        return message


@pytest.fixture
def image(tmp_path: Path) -> Iterator[Image]:
    """Debian's MySQL."""
    with image_root(MYSQL_IMAGE_ID, tmp_path) as root:
        yield Image(root)


@pytest.fixture
def mariadb(tmp_path: Path) -> Iterator[Image]:
    with image_root(MARIADB_IMAGE_ID, tmp_path) as root:
        yield Image(root)


@pytest.mark.real
class TestFitImages:
    def test_debians_mysql_needs_no_host_json(self, image: Image) -> None:
        assert image.host_json == {}
        assert image.goes_on() == {"health_port": 9201, "mysql_server": "/usr/sbin/mysqld"}
        assert list((image.root / "etc/mysql/conf.d").iterdir()) == [], "what was tried is taken away again"

    def test_an_rpm_whose_option_file_names_no_directory_gets_the_second_file_that_its_server_reads(
        self, image: Image
    ) -> None:
        image.as_rpm()
        found = image.goes_on()
        assert (found["mysql_service"], found["error_log"]) == ("mysqld", "/var/log/mysqld.log")
        assert "config_dir" not in found, "the default"
        assert "!includedir /etc/mysql/conf.d/" in (image.root / "etc/mysql/my.cnf").read_text()
        assert (image.root / "etc/my.cnf").read_text() == RPM_FILE

    def test_a_directory_that_is_read_too_early_gives_way_to_a_later_one(self, image: Image) -> None:
        """Ubuntu reads conf.d and then mysql.conf.d, where people write their server_id."""
        image.write(
            "etc/mysql/my.cnf", "!includedir /etc/mysql/conf.d/\n!includedir /etc/mysql/mysql.conf.d/\n"
        )
        image.write("etc/mysql/mysql.conf.d/mysqld.cnf", "[mysqld]\nserver-id = 1\n")
        assert image.goes_on()["config_dir"] == "/etc/mysql/mysql.conf.d"

    def test_a_data_directory_below_the_mount_point_is_the_one_of_the_option_file(self, image: Image) -> None:
        image.as_rpm()
        image.write("etc/my.cnf", RPM_FILE.replace("datadir=/var/lib/mysql", "datadir=/var/lib/mysql/data/"))
        assert image.goes_on()["datadir"] == "/var/lib/mysql/data"

    def test_mariadb_is_known_by_its_own_unit_whatever_its_aliases(self, mariadb: Image) -> None:
        found = mariadb.goes_on("mariadb")
        assert (found["engine"], found["mysql_service"]) == ("mariadb", "mariadb")

    def test_what_the_image_says_holds_and_the_clusters_settings_win(self, image: Image) -> None:
        image.write(
            "etc/peaker/host.json", '{"mysql_service": "mysql", "engine": "mariadb", "health_port": 9300}'
        )
        image.write("etc/systemd/system/mysqld.service", "[Service]\nExecStart=/usr/sbin/mysqld\n")
        found = image.goes_on()
        assert (found["mysql_service"], found["engine"], found["health_port"]) == ("mysql", "mysql", 9201)


@pytest.mark.real
class TestUnfitImages:
    def test_no_unit(self, image: Image) -> None:
        (image.root / UNITS / "mysql.service").unlink()
        assert "name its unit as mysql_service in /etc/peaker/host.json of the image" in image.refused()
        assert image.host_json == {}

    def test_a_unit_that_is_masked_is_none(self, image: Image) -> None:
        (image.root / "etc/systemd/system/mysql.service").symlink_to("/dev/null")
        assert "systemd has none of the units mysql, mysqld, mariadb" in image.refused()

    def test_several_units(self, image: Image) -> None:
        image.write("etc/systemd/system/mariadb.service", "[Service]\nExecStart=/usr/sbin/mariadbd\n")
        assert "several units may be the server's: mysql, mariadb: name the one" in image.refused()

    @pytest.mark.parametrize(
        ("engine", "which", "says"), [("mysql", "mariadb", "MariaDB"), ("mariadb", "image", "9.7")]
    )
    def test_another_engine(self, request: pytest.FixtureRequest, engine: str, which: str, says: str) -> None:
        message = request.getfixturevalue(which).refused(engine)
        assert says in message
        assert f"the cluster's engine is {engine}: set image_id" in message

    def test_an_option_file_of_its_own_that_names_no_directory(self, image: Image) -> None:
        image.write("srv/my.cnf", RPM_FILE)
        image.write(
            f"{UNITS}/mysql.service", "[Service]\nExecStart=/usr/sbin/mysqld --defaults-file=/srv/my.cnf\n"
        )
        assert "as the last line into /srv/my.cnf in the image" in image.refused()

    def test_options_that_are_read_after_those_of_peaker(self, image: Image) -> None:
        image.write(
            "etc/mysql/my.cnf", "!includedir /etc/mysql/conf.d/\n[mysqld]\nserver_id = 7\nread-only = 0\n"
        )
        assert "/etc/mysql/conf.d is read, but server_id=7, read_only=0 after it" in image.refused()

    def test_a_data_directory_on_none_of_the_volumes(self, image: Image) -> None:
        message = image.refused(mount_point="/srv/data")
        assert (
            "datadir of the image's server is /var/lib/mysql, on none of the volumes (/srv/data)" in message
        )

    def test_two_data_directories(self, image: Image) -> None:
        image.write("etc/peaker/host.json", '{"datadir": "/srv/mysql"}')
        assert "datadir of the server is /var/lib/mysql, of host.json /srv/mysql" in image.refused()


# Of the image itself: Debian's MySQL in the local cloud.
LIKE = {
    "server version": [9, 7, 4],
    "lower_case_table_names": "0",
    "innodb_page_size": "16384",
    "innodb_data_file_path": "ibdata1:12M:autoextend",
    "datadir": "/var/lib/mysql",
    "innodb_data_home_dir": "/var/lib/mysql",
    "innodb_log_group_home_dir": "/var/lib/mysql-log",
    "innodb_undo_directory": "/var/lib/mysql",
    "innodb_doublewrite_dir": "/var/lib/mysql",
    "owner of the data": [27306, 27306],
    "SELinux": "",
    "AppArmor": ["/var/lib/mysql"],
}


@pytest.mark.real
class TestImagesAgainstTheirDonor:
    """Before a volume is looked at: what differs is refused with both values."""

    def test_all_that_differs_is_refused_at_once(self, image: Image) -> None:
        differs: dict[str, Any] = {
            "server version": [9, 7, 5],
            "lower_case_table_names": "1",
            "innodb_page_size": "8192",
            "innodb_data_file_path": "ibdata1:1G;ibdata2:1G:autoextend",
            "innodb_undo_directory": "/var/lib/mysql/undo",
            "owner of the data": [27, 27],
            "keyring component": {"component": "component_keyring_file", "key_file": "/var/lib/keys"},
        }
        message = image.refused(donor={**LIKE, **differs})
        for says in (
            "the image's server is 9.7.4, the donor's 9.7.5: an older server",
            "lower_case_table_names of the image is 0, of the donor 1",
            "innodb_page_size of the image is 16384, of the donor 8192",
            "innodb_data_file_path of the image is ibdata1:12M:autoextend, of the donor ibdata1:1G;ibdata2:1G",
            "innodb_undo_directory of the image is /var/lib/mysql, of the donor /var/lib/mysql/undo",
            "uid 27306 gid 27306 in the image, the donor's files are of uid 27",
            "encrypted with keys of component_keyring_file, the image's server loads none",
        ):
            assert says in message
        assert "to another series; take an image of 8.4" in image.refused(
            donor={**LIKE, "server version": [8, 4, 6]}
        )

    def test_an_option_file_like_the_donors_is_taken(self, image: Image) -> None:
        image.write("etc/mysql/conf.d/aa.cnf", "[mysqld]\nlower-case-table-names = 1\ninnodb_page_size=8K\n")
        assert image.goes_on(donor={**LIKE, "lower_case_table_names": "1", "innodb_page_size": "8192"})

    def test_a_keyring_without_its_keys_is_refused(self, image: Image) -> None:
        image.write("usr/sbin/mysqld.my", '{"components": "file://component_keyring_file"}')
        keyring = {"component": "component_keyring_file", "key_file": "/srv/keys/main"}
        donor = {**LIKE, "keyring component": keyring}
        assert "keys are in /srv/keys/main, on none of its volumes" in image.refused(donor=donor)
        image.write("srv/keys/main", "keys")
        assert image.goes_on(donor=donor)

    def test_without_a_login_for_the_copy_the_file_is_named(self, image: Image) -> None:
        (image.root / "etc/peaker/admin.cnf").unlink()
        donor = {**LIKE, "administrator": "password"}
        says = "put an option file with its login into /etc/peaker/admin.cnf of the image"
        assert says in image.refused(donor=donor)
        image.write("etc/peaker/admin.cnf", "[client]\nuser=root\npassword=p\n")
        assert image.goes_on(donor=donor)

    def test_the_channels_files_must_be_in_the_image_or_on_a_volume(self, image: Image) -> None:
        (image.root / "srv/alias").symlink_to("/var/lib/mysql")
        files = ["/etc/mysql/tls/ca.pem", "/srv/alias/cert.pem", "/var/lib/mysql/key.pem"]
        donor = {**LIKE, "files of the channel": files}
        says = "replication needs /etc/mysql/tls/ca.pem, which"
        assert says in image.refused(donor=donor)
        image.write("etc/mysql/tls/ca.pem", "a certificate")
        assert image.goes_on(donor=donor)

    def test_without_the_channels_login_its_file_is_named(self, image: Image) -> None:
        donor = {**LIKE, "login of the channel": "not stored"}
        says = "the donor's channel stores no password, and the image has no /etc/peaker/replication.json"
        assert says in image.refused(donor=donor)
        image.write("etc/peaker/replication.json", '{"user": "repl", "password": "p"}')
        assert image.goes_on(donor=donor)

    def test_without_fio_or_sysstat_the_packages_are_named(self, image: Image) -> None:
        (image.root / "usr/bin/fio").unlink()
        (image.root / "usr/bin/iostat").unlink()
        assert "install fio, sysstat in it" in image.refused(donor=LIKE)

    def test_an_enforced_profile_must_name_the_donors_directory(self, image: Image) -> None:
        image.write(
            "sys/kernel/security/apparmor/profiles", "/usr/sbin/mysqld (enforce)\nfirefox (complain)\n"
        )
        image.write(
            "etc/apparmor.d/usr.sbin.mysqld",
            "/usr/sbin/mysqld {\n  /var/lib/mysql/ r,\n  /var/lib/mysql/** rwk,\n}\n",
        )
        assert image.goes_on(donor=LIKE)
        donor = {**LIKE, "AppArmor": ["/var/lib/mysql", "/srv/logs"]}
        assert "write /var/lib/mysql, the donor's files are in /srv/logs" in image.refused(donor=donor)
        image.write("etc/apparmor.d/local/usr.sbin.mysqld", "/srv/logs/** rwk,\n")
        assert image.goes_on(donor=donor)

    def test_enforced_selinux_wants_a_label_of_data(self, image: Image) -> None:
        image.write("sys/fs/selinux/enforce", "1")
        says = image.refused(donor=LIKE)
        assert "SELinux is enforced in the image, the donor's data directory is labelled not at all" in says
        assert image.goes_on(donor={**LIKE, "SELinux": "system_u:object_r:mysqld_db_t:s0"})

    def test_a_real_donor_says_what_its_copies_need(self, image: Image) -> None:
        """A server with pages of 8 KiB, lower-case names, a table encrypted with a component's key, and a password."""
        image.write("usr/sbin/mysqld.my", '{"components": "file://component_keyring_file"}')
        image.write(
            "usr/lib/mysql/plugin/component_keyring_file.cnf",
            '{"path": "/srv/keys/main", "read_only": false}',
        )
        for name in ("d", "keys"):
            (image.root / "srv" / name).mkdir()
            shutil.chown(image.root / "srv" / name, 27306, 27306)
        options = ["--no-defaults", "--user=mysql", "--datadir=/srv/d", "--innodb-page-size=8192"]
        options += ["--lower-case-table-names=1", "--innodb-buffer-pool-size=16M"]
        server = ["chroot", str(image.root), "/usr/sbin/mysqld", *options]
        subprocess.run([*server, "--initialize-insecure"], check=True, capture_output=True)
        shutil.chown(image.root / "srv/keys/main", 27306, 27306)  # made by root, before the server is mysql
        image.write("etc/peaker/admin.cnf", "[client]\nuser=root\nsocket=/srv/d/s\n")
        running = subprocess.Popen([*server, "--skip-networking", "--mysqlx=OFF", "--socket=/srv/d/s"])
        try:
            said = image.python(
                "-c",
                "import json\n"
                "from peaker_host.database.mysql_client import admin_client\n"
                "from peaker_host.layouts.image_fit import donor_facts\n"
                "from peaker_host.machine.settings import Machine\n"
                "client = admin_client(Machine())\n"
                "assert not client.why_down(120)\n"
                "client.execute('CREATE TABLE mysql.secret (n INT) ENCRYPTION = \"Y\"')\n"
                "client.execute('ALTER USER root@localhost IDENTIFIED BY \"p\"')\n"
                "print('password=p', file=open('/etc/peaker/admin.cnf', 'a'), flush=True)\n"
                "print(json.dumps(donor_facts(client, 'mysql', ['/srv/d'])))\n",
            )
        finally:
            running.terminate()
            running.wait(60)
        assert said.returncode == 0, said.stderr
        facts = json.loads(said.stdout)
        assert facts == {
            **LIKE,
            "lower_case_table_names": "1",
            "innodb_page_size": "8192",
            **{name: "/srv/d" for name in LIKE if name.endswith(("dir", "directory"))},
            "keyring component": {"component": "component_keyring_file", "key_file": "/srv/keys/main"},
            "administrator": "password",
            "login of the channel": "not stored",
            "AppArmor": ["/srv/d"],
        }


class TestWhatIsAsked:
    SHOWN = (
        "Id=mysqld.service\nLoadState=loaded\n"
        "ExecStart={ path=/usr/sbin/mysqld ; argv[]=/usr/sbin/mysqld $MYSQLD_OPTS ; ignore_errors=no ; pid=0 }\n"
    )

    def test_aliases_of_one_unit_are_one(self, programs: ScriptedProcesses) -> None:
        programs.on("systemctl show", answer=self.SHOWN)
        assert known_units(programs, ("mysql", "mysqld")) == [
            ServerUnit("mysqld", ("/usr/sbin/mysqld", "$MYSQLD_OPTS"))
        ]

    @pytest.mark.parametrize("said", ["", "Id=mysql.service\n", "LoadState=loaded\n", "\x00=\n=\n"])
    def test_an_answer_that_says_no_unit_is_none(self, programs: ScriptedProcesses, said: str) -> None:
        assert known_units(programs.on("systemctl show", answer=said), ("mysql",)) == []

    def test_a_unit_that_starts_a_script_has_its_program_on_the_path(
        self, programs: ScriptedProcesses
    ) -> None:
        programs.on("mysqld --version", answer=ToolMissing("mysqld is not installed"))
        programs.on("mariadbd --version", answer="mariadbd  Ver 11.4.2-MariaDB for Linux")
        server = ImageServer(programs, ServerUnit("mariadb", ("/usr/bin/start-it",)), image_server.PROGRAMS)
        assert (server.program, server.engine) == ("mariadbd", "mariadb")

    def test_no_program_is_refused(self, programs: ScriptedProcesses) -> None:
        programs.on("--version", answer=ToolMissing("not installed"))
        with pytest.raises(ImageUnfit, match="name its program as mysql_server"):
            ImageServer(programs, ServerUnit("mysql"), image_server.PROGRAMS)

    def test_a_file_that_was_there_stays_as_it_was(self, programs: ScriptedProcesses, tmp_path: Path) -> None:
        """A parked replica's options stand in it."""
        kept = tmp_path / image_server.OPTIONS_FILE
        kept.write_text("[mysqld]\nserver_id = 5\n")
        programs.on("--version", answer="Ver 8.4.3").on("--print-defaults", answer=self.read(kept))
        server = ImageServer(programs, ServerUnit("mysql"), image_server.PROGRAMS)
        assert server.reads(str(tmp_path)) == []
        assert kept.read_text() == "[mysqld]\nserver_id = 5\n"

    @staticmethod
    def read(path: Path) -> Callable[[str], str]:
        def options(_text: str) -> str:
            lines = [line.replace(" = ", "=") for line in path.read_text().splitlines() if "=" in line]
            return "mysqld would have been started with the following arguments:\n--" + " --".join(lines)

        return options

    @pytest.mark.parametrize("engine", ["mysql", "mariadb"])
    def test_what_peaker_writes_undoes_nothing_of_itself(self, engine: str) -> None:
        lines = [line.partition(" = ") for line in replica_options(engine, 5).splitlines() if "=" in line]
        found = [(name, value) for name, _, value in lines]
        assert undoing(found) == ["server_id=5"], "which is the only one that must not be given twice"
