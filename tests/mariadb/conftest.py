"""A MariaDB cluster as its owner runs it: real hosts and volumes, Peaker deployed, readers at the endpoint."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from peaker_cli.control_plane import ControlPlane

from cloud_rig.real_machine import IMAGES, STATE, free_port
from environments.schema import Environment, load_environment
from lab import seed
from lab.cluster import Hosts, RunningCluster, bring_up
from lab.endpoint import Endpoint
from lab.local_cloud import RunningCloud, local_cloud
from lab.prepare import prepare
from lab.readers import pooled_readers
from lab.servers import MARIADB
from localcloud.cleanup import clean
from localcloud.deploy import deploy
from localcloud.hosts.images import ensure_image
from peaker_contract.names import cluster_parameter
from stacks import application
from tests.mariadb.certificate import self_signed

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT, CLUSTER, REGION = "local", "orders", "us-east-1"
DATASET = seed.Dataset(MARIADB, table_size=10_000)
# Cloud seconds per real second: waits of the workflows shrink, the work of hosts does not.
CLOCK_SCALE = 30.0
# Transactions a second, of fourteen statements each: enough that a window of the ramp can be compared.
READS_PER_S = 10.0
LIMIT_SECONDS = 900.0
# The clock may go forward only, and the bring-up took some of it.
DAYS_AHEAD = timedelta(days=1)
# So few statements on a busy machine are no comparison: which margin ends a ramp is what the domain's tests tell.
SHORT = {
    "ramp": {"shares": (1.0,), "step_seconds": 30, "latency_margin": 100.0},
    "retirement": {"idle_seconds": 60, "park": "always"},
}
# What the source writes there is not for the replicas.
LEFT_OUT_DOMAIN = 7
_AS_ROOT = "mysql --user=root --socket=/run/mysqld/mysqld.sock"
# In the data directory, so that each copy has them: the source's certificate, and the replicas' own with its key.
CERTIFICATE = "/var/lib/mysql/source.pem"
CLIENT_CERTIFICATE, CLIENT_KEY = "/var/lib/mysql/replica.pem", "/var/lib/mysql/replica-key.pem"
_ENCRYPTED_SOURCE = """
mkdir -p /etc/mysql/tls
printf '%s' '{certificate}' >/etc/mysql/tls/cert.pem
printf '%s' '{key}' >/etc/mysql/tls/key.pem
printf '%s' '{client_certificate}' >/etc/mysql/tls/client.pem
chown mysql /etc/mysql/tls/key.pem
chmod 400 /etc/mysql/tls/key.pem
cat >/etc/mysql/conf.d/tls.cnf <<'OPTIONS'
[mysqld]
ssl_cert=/etc/mysql/tls/cert.pem
ssl_key=/etc/mysql/tls/key.pem
ssl_ca=/etc/mysql/tls/client.pem
OPTIONS
systemctl restart mysql
{as_root} -e "ALTER USER '{user}' REQUIRE X509"
"""
_ENCRYPTED_CHANNEL = """
printf '%s' '{certificate}' >{path}
printf '%s' '{client_certificate}' >{client_path}
printf '%s' '{client_key}' >{key_path}
chown mysql {path} {client_path} {key_path}
chmod 400 {key_path}
{as_root} -e "STOP SLAVE; CHANGE MASTER TO MASTER_SSL = 1,
MASTER_SSL_CA = '{path}', MASTER_SSL_CERT = '{client_path}', MASTER_SSL_KEY = '{key_path}',
MASTER_SSL_VERIFY_SERVER_CERT = 1, IGNORE_DOMAIN_IDS = ({domain}); START SLAVE"
"""


@dataclass(frozen=True)
class MariaDbCluster:
    """The cluster, and what tests ask of it."""

    cloud: RunningCloud
    control: ControlPlane
    cluster: RunningCluster
    endpoint: Endpoint

    def run(self, workflow: str) -> dict[str, Any]:
        """Start a workflow by hand and wait for its end; the run's receipt, its steps by name."""
        arn = self.control.start(workflow, {"cluster": CLUSTER})
        ended = self.control.wait(arn, LIMIT_SECONDS, lambda _: None, poll_seconds=0.5)
        assert ended.status == "SUCCEEDED", ended.failure
        assert not ended.is_refused, ended.output
        receipt = self.control.find_receipt(str(self.control.runs(CLUSTER, 1)[0]["run_id"]))
        assert receipt is not None
        return {**receipt, "steps": {step["step"]: step for step in receipt["steps"]}}

    def replicas(self) -> set[str]:
        """Instance ids of the replicas that run."""
        filters = [
            {"Name": "tag:peaker:role", "Values": ["replica"]},
            {"Name": "instance-state-name", "Values": ["running"]},
        ]
        found = self.control.client("ec2").describe_instances(Filters=filters)["Reservations"]
        return {one["InstanceId"] for entry in found for one in entry["Instances"]}

    def let_hours_pass(self, hours: float) -> None:
        """The cloud's clock goes on by so much, wherever it is: a slow machine's runs took hours of it."""
        now = datetime.fromisoformat(self.cloud.admin("clock")["now"])
        self.cloud.set_clock(CLOCK_SCALE, now + timedelta(hours=hours))

    def asked(self, instance_id: str, statement: str) -> str:
        """What a server answers to its administrator."""
        return self._script(instance_id, f'{_AS_ROOT} --batch -Ne "{statement}"')

    def channel(self, instance_id: str) -> dict[str, str]:
        """What a server shows of its replication channel."""
        lines = self._script(instance_id, f'{_AS_ROOT} -e "SHOW SLAVE STATUS\\G"').splitlines()
        return {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}

    def host_command(self, instance_id: str, command: str) -> dict[str, Any]:
        """The result line of a command of the host package."""
        said = self._script(instance_id, f"python3 /opt/peaker/current/peaker_host.pyz {command} || true")
        found: dict[str, Any] = json.loads(said.splitlines()[-1])
        return found

    def _script(self, instance_id: str, script: str) -> str:
        return Hosts(self.control.client("ssm")).script(instance_id, script).strip()

    def servers_that_answer(self) -> set[str]:
        """Ids of the servers that new connections to the read endpoint reach."""
        return {self._server_of_a_connection() for _ in range(30)}

    def _server_of_a_connection(self) -> str:
        login = [f"--user={self.endpoint.user}", f"--password={self.endpoint.password}"]
        where = [f"--host={self.endpoint.host}", f"--port={self.endpoint.port}"]
        command = ["mariadb", "--no-defaults", "--batch", "-Ne", "SELECT @@server_id", *where, *login]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=240).stdout.strip()


@pytest.fixture(scope="session")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDbCluster]:
    """A source and a base replica, prepared by `peaker prepare-base`, behind the read endpoint."""
    ensure_image(MARIADB.image_id, IMAGES)
    state_dir = STATE / f"test-mariadb-{os.getpid()}"
    state_dir.mkdir(parents=True)
    (state_dir / "images").symlink_to(IMAGES)
    try:
        kept = prepare(state_dir, print, DATASET)
        templates = _synthesized(tmp_path_factory.mktemp("templates"))
        with local_cloud(ROOT, state_dir, free_port()) as cloud:
            control = ControlPlane(ENVIRONMENT, REGION, cloud.endpoint_url)
            deploy(templates, cloud.endpoint_url, progress=lambda _: None)
            parameter = control.client("ssm").get_parameter(Name=cluster_parameter(ENVIRONMENT, CLUSTER))
            settings = json.loads(parameter["Parameter"]["Value"])
            prepare_base = cloud.prepare_base(ENVIRONMENT, CLUSTER, REGION)
            cluster = bring_up(control.client, cloud.admin, settings, kept, prepare_base, print)
            endpoint = Endpoint(
                "127.0.0.1", cluster.listener_port, seed.APPLICATION_USER, seed.APPLICATION_PASSWORD,
                DATASET.database, DATASET.tables, DATASET.table_size,
            )  # fmt: skip
            _encrypt_channel(Hosts(control.client("ssm")), cluster)
            cloud.load_steadily(settings["load_metric"], 140.0)
            cloud.set_clock(CLOCK_SCALE, datetime.now(UTC) + DAYS_AHEAD)
            with pooled_readers(endpoint, state_dir, READS_PER_S):
                yield MariaDbCluster(cloud, control, cluster, endpoint)
    finally:
        clean(state_dir)
        (state_dir / "images").unlink()
        shutil.rmtree(state_dir)


def _encrypt_channel(hosts: Hosts, cluster: RunningCluster) -> None:
    """The owner's source wants a certificate of its replicas; the base replica verifies it, and leaves a domain out."""
    certificate, key = self_signed(cluster.source_address)
    client_certificate, client_key = self_signed("127.0.0.1")
    hosts.script(
        cluster.source_id,
        _ENCRYPTED_SOURCE.format(
            certificate=certificate,
            key=key,
            client_certificate=client_certificate,
            user=seed.REPLICATION_USER,
            as_root=_AS_ROOT,
        ),
    )
    hosts.script(
        cluster.base_replica_id,
        _ENCRYPTED_CHANNEL.format(
            certificate=certificate,
            path=CERTIFICATE,
            client_certificate=client_certificate,
            client_path=CLIENT_CERTIFICATE,
            client_key=client_key,
            key_path=CLIENT_KEY,
            domain=LEFT_OUT_DOMAIN,
            as_root=_AS_ROOT,
        ),
    )


def _synthesized(output: Path) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(application, "load_environment", _of_mariadb)
        application.build_app(environment=ENVIRONMENT, output=output, checked=False).synth()
    return output


def _of_mariadb(name: str, now: datetime | None = None) -> Environment:
    """The local environment, whose cluster is one of MariaDB servers."""
    given = load_environment(name, now=now)
    [cluster] = given.clusters
    endpoint = cluster.read_endpoint.model_copy(update={"listener_port": free_port()})
    changes: dict[str, Any] = {
        block: getattr(cluster, block).model_copy(update=new) for block, new in SHORT.items()
    }
    changes |= {"engine": MARIADB.engine, "image_id": MARIADB.image_id, "read_endpoint": endpoint}
    return given.model_copy(update={"clusters": (cluster.model_copy(update=changes),)})
