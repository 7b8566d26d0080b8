"""images/prepare-image.sh makes an image that the host package takes; nothing is installed here, package managers only
note what they were asked for, and the server is that of the local cloud's image."""

from __future__ import annotations

import os
import re
import shlex
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from host_bench import image_root
from peaker_host.layouts.image_rules import FACTS
from peaker_host.layouts.image_sides import Image as ImageHost

from localcloud.hosts.images import MYSQL_IMAGE_ID
from tests.host.machine.test_image_server import Image

REPOSITORY = Path(__file__).resolve().parents[3]
RECIPE = REPOSITORY / "images" / "prepare-image.sh"
DISTRIBUTIONS = {
    "amzn": 'ID="amzn"\nVERSION_ID="2023"\n',
    "rhel": 'ID="rhel"\nVERSION_ID="9.6"\n',
    "rocky": 'ID="rocky"\nVERSION_ID="9.6"\n',
    "ubuntu": "ID=ubuntu\nVERSION_ID=24.04\nVERSION_CODENAME=noble\n",
}
# Programs of the host package by the recipe's package.
PROGRAMS = {
    "fio": ("fio",), "sysstat": ("iostat",), "xfsprogs": ("xfs_db",), "e2fsprogs": ("debugfs",),
    "nvme-cli": ("nvme",), "mdadm": ("mdadm",), "lvm2": ("lvs", "vgchange"), "python3": ("python3",),
}  # fmt: skip
# A package's first start leaves a data directory with an identity.
_INSTALLS = 'case "$*" in *server*) mkdir -p /var/lib/mysql; echo uuid >/var/lib/mysql/auto.cnf;; esac'
_FETCHES = 'while [ $# -gt 1 ]; do [ "$1" != -o ] || echo key >"$2"; shift; done'
FAKES = {
    "dnf": _INSTALLS, "apt-get": _INSTALLS, "curl": _FETCHES, "apt-mark": "", "dpkg": "", "rpm": "exit 1",
    "groupadd": "echo mysql:x:27: >>/etc/group", "useradd": "echo mysql:x:27:27::/:/bin/false >>/etc/passwd",
    "snap": "exit 1", "systemctl": "", "semanage": "", "restorecon": "", "shutdown": "",
    "amazon-ssm-agent": 'echo "SSM Agent version: ${AGENT_VERSION:-3.3.2746.0}"',
}  # fmt: skip
OWNER = "27:27"
DONOR = {"server version": [9, 7, 0], "datadir": "/var/lib/mysql", "owner of the data": [27, 27]}


class Instance(Image):
    """A fresh instance of a distribution, whose package managers note what they are asked for."""

    def begins_as(self, distribution: str) -> None:
        self.write("etc/os-release", DISTRIBUTIONS[distribution] + "PRETTY_NAME=Something\n")
        if distribution != "ubuntu":
            self.as_rpm()
        for name, does in FAKES.items():
            self.write(f"opt/fakes/{name}", f'#!/bin/sh\necho "{name} $*" >>/opt/log\n{does}\n')
            (self.root / "opt/fakes" / name).chmod(0o755)
        self._run(
            "sed -i /^mysql:/d /etc/passwd /etc/group /etc/shadow; rm -rf /var/lib/mysql; mkdir -p /etc/yum.repos.d"
        )

    def recipe(self, **variables: str) -> subprocess.CompletedProcess[str]:
        self.write("opt/recipe", RECIPE.read_text())
        given = {"OWNER": OWNER, "PATH": f"/opt/fakes:{os.environ['PATH']}", **variables}
        return self._run(
            f"exec env {shlex.join(f'{name}={value}' for name, value in given.items())} bash /opt/recipe"
        )

    def _run(self, script: str) -> subprocess.CompletedProcess[str]:
        argv = ["chroot", str(self.root), "sh", "-c", script]
        return subprocess.run(argv, capture_output=True, text=True, check=False)

    @property
    def asked(self) -> str:
        return (self.root / "opt/log").read_text()


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[Instance]:
    with image_root(MYSQL_IMAGE_ID, tmp_path) as root:
        yield Instance(root)


@pytest.mark.real
@pytest.mark.parametrize(
    ("distribution", "server"),
    [("amzn", "mysql"), ("rhel", "percona"), ("rocky", "mysql"), ("ubuntu", "percona")],
)
def test_what_it_makes_is_taken_for_an_image_of_the_donors_copies(
    instance: Instance, distribution: str, server: str
) -> None:
    instance.begins_as(distribution)
    said = instance.recipe(SERVER=server)
    assert said.returncode == 0, said.stderr
    assert said.stdout.splitlines()[-1].startswith("prepare-image: ready: ")
    found = instance.goes_on(donor=DONOR)
    unit = "mysql" if distribution == "ubuntu" else "mysqld"
    assert found.get("config_dir", "/etc/mysql/conf.d") == (
        "/etc/mysql/conf.d" if distribution == "ubuntu" else "/etc/my.cnf.d"
    )
    for place in ("/var/lib/mysql", "/var/lib/mysql-log"):
        facts = (instance.root / place.lstrip("/")).stat()
        assert (facts.st_uid, facts.st_gid, stat.S_IMODE(facts.st_mode)) == (27, 27, 0o750)
        assert not list((instance.root / place.lstrip("/")).iterdir()), "no identity, no data"
    defaults = instance.python("-c", "import os; os.execvp('mysqld', ['mysqld', '--print-defaults'])").stdout
    assert "--gtid_mode=ON" in defaults
    start = instance.root / f"etc/systemd/system/{unit}.service.d/start.conf"
    assert "TimeoutStartSec=infinity" in start.read_text()
    assert f"systemctl disable --now {unit}\n" in instance.asked
    assert instance.asked.splitlines()[-1] == "shutdown -h now"
    assert ("fio-engine-libaio" in instance.asked) == (distribution != "ubuntu")
    assert instance.recipe(SERVER=server).returncode == 0, "a second run changes nothing"


@pytest.mark.real
def test_the_servers_profile_lets_it_write_every_directory(instance: Instance) -> None:
    instance.begins_as("ubuntu")
    (instance.root / "etc/apparmor.d").mkdir(exist_ok=True)
    assert instance.recipe(DIRECTORIES="/var/lib/mysql /srv/orders").returncode == 0
    instance.write("sys/kernel/security/apparmor/profiles", "/usr/sbin/mysqld (enforce)\n")
    [profile] = [one for one in FACTS if one.name == "AppArmor"]
    host = ImageHost.__new__(ImageHost)
    host._root = str(instance.root)  # type: ignore[attr-defined]
    host.server = type("Server", (), {"program": "/usr/sbin/mysqld"})  # type: ignore[assignment]
    assert profile.rule(["/srv/orders"], profile.of_image(host, None)) == (False, "")


@pytest.mark.real
def test_the_login_for_a_root_with_a_password_is_roots_alone(instance: Instance) -> None:
    instance.begins_as("amzn")
    lines = "[client]\nuser=peaker_admin\npassword=p"
    assert instance.recipe(ADMIN_CNF=lines).returncode == 0
    kept = instance.root / "etc/peaker/admin.cnf"
    assert (kept.read_text(), stat.S_IMODE(kept.stat().st_mode)) == (f"{lines}\n", 0o600)


@pytest.mark.real
@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"SERVER": "mariadb"}, "SERVER must be mysql or percona, got mariadb"),
        ({"DIRECTORIES": "/srv"}, "DIRECTORIES: /srv must be a directory such as /var/lib/mysql"),
        ({"DIRECTORIES": "/var/lib/dpkg"}, "/var/lib/dpkg holds data: begin with a fresh instance"),
        ({"AGENT_VERSION": "3.3.987.0"}, "SSM agent 3.3.987.0; 3.3.2746.0 or newer is needed"),
    ],
)
def test_what_no_image_can_be_made_of_is_refused(
    instance: Instance, variables: dict[str, str], says: str
) -> None:
    instance.begins_as("ubuntu")
    said = instance.recipe(**variables)
    assert (said.returncode, said.stderr.splitlines()[-1]) == (1, f"prepare-image: {says}")
    assert "shutdown" not in instance.asked if (instance.root / "opt/log").exists() else True


def test_every_program_of_the_host_package_has_its_package() -> None:
    line = re.search(r"^PACKAGES=\((.*)\)$", RECIPE.read_text(), re.MULTILINE)
    assert line is not None
    assert line[1].split() == list(PROGRAMS)
    package = "".join(one.read_text() for one in (REPOSITORY / "host").rglob("*.py"))
    missing = [name for names in PROGRAMS.values() for name in names if f'"{name}"' not in package]
    assert missing == []


def test_the_recipe_is_clean_to_shellcheck() -> None:
    checked = [str(Path(sys.executable).with_name("shellcheck")), str(RECIPE)]
    said = subprocess.run(checked, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stdout
