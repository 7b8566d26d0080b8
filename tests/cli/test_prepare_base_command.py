"""`peaker prepare-base` against the deployed product: what a person reads, and what is in the way."""

from __future__ import annotations

from tests.support.deployed_product import DeployedProduct, Said

REFUSED = {
    "ok": False,
    "error": "BaseNotPrepared",
    "message": "1 refused: health account: /etc/peaker/health.cnf: the file is not there",
    "steps": [
        {"name": "version", "state": "already there", "detail": "8.4.3", "remedy": ""},
        {
            "name": "health account",
            "state": "refused",
            "detail": "/etc/peaker/health.cnf: the file is not there",
            "remedy": "on the source: CREATE USER 'peaker_health'@'localhost'. Or --create-account-here",
        },
    ],
}


def prepare(product: DeployedProduct, *options: str) -> Said:
    return product.peaker("prepare-base", "orders", product.cluster.base_replica_id, *options)


def test_a_base_replica_is_prepared_once_and_the_second_time_nothing_changes(
    product: DeployedProduct,
) -> None:
    base = product.cluster.base_replica_id
    product.hosts_are_bare()
    first = prepare(product)
    assert first.status == 0, first.err
    assert "host package" in first.out
    assert "admin.cnf written" in first.out
    assert f"peaker register-base orders {base} --env local" in first.out
    assert f"installing the host package on {base}" in first.err
    second = prepare(product, "--json")
    assert second.status == 0
    assert {step["state"] for step in second.document["steps"][3:]} == {"already there"}
    assert (second.document["prepared"], second.document["instance_id"]) == (True, base)


def test_what_is_in_the_way_is_told_with_its_remedy(product: DeployedProduct) -> None:
    product.answers.script("prepare_base", REFUSED, REFUSED)
    said = prepare(product)
    assert said.status == 1
    assert "already there" in said.out
    assert "CREATE USER 'peaker_health'@'localhost'" in said.out
    assert "is not prepared: 1 refused (health account)" in said.err
    asked = prepare(product, "--json")
    assert (asked.status, asked.document["prepared"], asked.document["next"]) == (1, False, None)
    assert asked.document["steps"][-1]["remedy"].startswith("on the source")


def test_the_source_is_never_prepared(product: DeployedProduct) -> None:
    product.answers.asked.clear()
    said = product.peaker("prepare-base", "orders", product.cluster.source_id)
    assert said.status == 1
    assert "is the source of orders" in said.err
    assert not [one for one in product.answers.asked if one[1] == product.cluster.source_id]


def test_the_options_reach_the_host(product: DeployedProduct) -> None:
    assert prepare(product, "--admin-defaults-file", "/root/dba.cnf", "--create-account-here").status == 0
    sent = product.cloud.client("ssm").list_commands(InstanceId=product.cluster.base_replica_id)["Commands"]
    newest = max(
        (one for one in sent if one["DocumentName"] == "Peaker-local-prepare_base"),
        key=lambda one: one["RequestedDateTime"],
    )
    given = {name: values[0] for name, values in newest["Parameters"].items()}
    assert (given["AdminDefaultsFile"], given["HealthAccount"]) == ("/root/dba.cnf", "here")
    assert given["Filesystems"] == "/var/lib/mysql=xfs,/var/lib/mysql-log=xfs"


def test_a_path_that_could_be_no_file_is_a_wrong_call(product: DeployedProduct) -> None:
    said = prepare(product, "--admin-defaults-file", "my.cnf; reboot")
    assert said.status == 2
    assert "--admin-defaults-file" in said.err
