"""A cluster of real MariaDB servers: a peak replica comes up warm, takes reads, and is retired."""

from __future__ import annotations

import os
from typing import Any

import pytest

from cloud_rig.resources import eventually
from tests.mariadb.conftest import (
    CERTIFICATE,
    CLIENT_CERTIFICATE,
    CLIENT_KEY,
    LEFT_OUT_DOMAIN,
    MariaDbCluster,
)

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(os.geteuid() != 0, reason="hosts and volumes need root"),
]


@pytest.fixture(scope="module")
def built(mariadb: MariaDbCluster) -> dict[str, Any]:
    """The receipt of a scale_out."""
    return mariadb.run("scale_out")


@pytest.fixture(scope="module")
def replica(mariadb: MariaDbCluster, built: dict[str, Any]) -> str:
    """The instance that was built."""
    [one] = mariadb.replicas() - {mariadb.cluster.base_replica_id}
    return one


def test_it_is_proven_warm(built: dict[str, Any]) -> None:
    assert built["steps"]["VerifyStorage"]["numbers"]["verdict"] == "warm"


def test_it_is_a_server_of_its_own_that_accepts_no_writes(mariadb: MariaDbCluster, replica: str) -> None:
    version, server_id, read_only = mariadb.asked(
        replica, "SELECT VERSION(), @@server_id, @@read_only + 0"
    ).split()
    assert "MariaDB" in version
    assert server_id not in ("1", "2")
    assert read_only == "1"


def test_it_follows_the_source_by_gtid(mariadb: MariaDbCluster, replica: str) -> None:
    mariadb.asked(mariadb.cluster.source_id, "CREATE TABLE orders.written_later SELECT 42 AS answer")
    known = "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_NAME = 'written_later'"
    eventually(lambda: mariadb.asked(replica, known) == "1")
    assert "Slave_Pos" in mariadb.asked(replica, "SHOW SLAVE STATUS")


def test_its_channel_is_encrypted_verified_and_certified_as_its_donors_is(
    mariadb: MariaDbCluster, replica: str
) -> None:
    shown = mariadb.channel(replica)
    assert shown["Master_SSL_Allowed"] == shown["Master_SSL_Verify_Server_Cert"] == "Yes"
    assert shown["Master_SSL_CA_File"] == CERTIFICATE
    assert (shown["Master_SSL_Cert"], shown["Master_SSL_Key"]) == (CLIENT_CERTIFICATE, CLIENT_KEY)
    assert shown["Slave_IO_Running"] == "Yes"


def test_it_leaves_out_what_its_donor_leaves_out(mariadb: MariaDbCluster, replica: str) -> None:
    make = "CREATE TABLE orders.{name} SELECT 42 AS answer"
    mariadb.asked(
        mariadb.cluster.source_id,
        f"SET SESSION gtid_domain_id = {LEFT_OUT_DOMAIN}; {make.format(name='left_out')}; "
        f"SET SESSION gtid_domain_id = 0; {make.format(name='taken')}",
    )
    came = "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_NAME IN ('left_out', 'taken')"
    eventually(lambda: mariadb.asked(replica, came) == "taken")
    assert mariadb.channel(replica)["Replicate_Ignore_Domain_Ids"] == str(LEFT_OUT_DOMAIN)


def test_the_pages_of_its_donor_are_in_memory_whatever_the_donor_calls_their_list(
    mariadb: MariaDbCluster, built: dict[str, Any]
) -> None:
    base = mariadb.cluster.base_replica_id
    assert mariadb.asked(base, "SELECT @@innodb_buffer_pool_filename") == "page_list"
    dumped = built["steps"]["PrepareDonor"]["numbers"]["buffer_pool_pages"]
    assert built["steps"]["LoadBufferPool"]["numbers"]["pages"] >= 0.9 * dumped


def test_its_share_of_the_reads_rose_by_what_was_measured(built: dict[str, Any]) -> None:
    reasons = [window["reason"] for window in built["steps"]["RampTraffic"]["numbers"]["windows"]]
    assert any(reason.startswith("mean") for reason in reasons), reasons


def test_readers_reach_it(mariadb: MariaDbCluster, replica: str) -> None:
    assert len(mariadb.servers_that_answer()) == 2


def test_it_is_drained_and_parked(mariadb: MariaDbCluster, replica: str) -> None:
    mariadb.let_hours_pass(6)
    receipt = mariadb.run("scale_in")
    assert receipt["steps"]["DrainReplica"]["numbers"]["connections"] == 0
    assert mariadb.replicas() == {mariadb.cluster.base_replica_id}
    assert mariadb.servers_that_answer() == {"2"}


def test_it_comes_back_where_it_stood_without_a_prewarm(mariadb: MariaDbCluster, replica: str) -> None:
    """What the source wrote while it was parked reaches it, the domain that is left out does not."""
    mariadb.asked(mariadb.cluster.source_id, "CREATE TABLE orders.written_meanwhile SELECT 42 AS answer")
    receipt = mariadb.run("scale_out")
    assert "StartParkedReplica" in receipt["steps"]
    assert "ReportPrewarm" not in receipt["steps"]
    assert replica in mariadb.replicas()
    names = "('left_out', 'taken', 'written_meanwhile')"
    came = f"SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_NAME IN {names} ORDER BY 1"
    assert mariadb.asked(replica, came).split() == ["taken", "written_meanwhile"]
    shown = mariadb.channel(replica)
    assert (shown["Master_SSL_Allowed"], shown["Using_Gtid"]) == ("Yes", "Slave_Pos")


def test_one_whose_source_has_purged_what_it_lacks_does_not_join(
    mariadb: MariaDbCluster, replica: str
) -> None:
    source, base = mariadb.cluster.source_id, mariadb.cluster.base_replica_id
    mariadb.asked(base, "STOP SLAVE")
    mariadb.asked(source, "CREATE TABLE orders.purged_soon SELECT 42 AS answer")
    mariadb.asked(source, "FLUSH BINARY LOGS")
    newest = mariadb.asked(source, "SHOW MASTER STATUS").split()[0]
    # A source keeps what it still sends; that a replica is gone it would notice after a quarter of an hour.
    senders = "FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%'"
    known = mariadb.asked(source, f"SELECT ID {senders}").split()
    for sender in known:
        mariadb.asked(source, f"KILL {sender}")
    left = f"SELECT COUNT(*) {senders} AND ID IN ({', '.join(known)})"
    eventually(lambda: mariadb.asked(source, left) == "0")
    mariadb.asked(source, f"PURGE BINARY LOGS TO '{newest}'")
    assert mariadb.asked(source, "SHOW BINARY LOGS").split()[0] == newest
    address = mariadb.cluster.source_address
    said = mariadb.host_command(base, f"start_replication --run-id purged --source-host {address}")
    assert said["error"] == "BinlogsGone", said
    assert "build it from a newer snapshot" in said["message"]
