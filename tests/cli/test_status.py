"""`peaker status` and `peaker watch` against the deployed stacks."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import termios
from typing import Any

import pytest

from tests.support.deployed_product import DeployedProduct, eventually, peaker_command, peaker_environment


def test_the_document_has_every_figure_or_says_why_not(product: DeployedProduct) -> None:
    def known() -> dict[str, Any] | None:
        """With a load and a forecast of now: where the machine stalled while the clock was fast, the last are old."""
        for function in ("check_replicas", "forecast_load"):
            product.cloud.client("lambda").invoke(
                FunctionName=f"peaker-local-{function}", Payload=json.dumps({"cluster": "orders"}).encode()
            )
        found: dict[str, Any] = product.peaker("status", "orders", "--json").document
        return found if all("value" in found["capacity"][name] for name in ("load", "forecast")) else None

    status = eventually(known)
    [base] = [one for one in status["replicas"] if one["role"] == "base"]
    assert base["instance_id"] == product.cluster.base_replica_id
    assert base["serves"] is True
    assert base["lag_seconds"]["value"] == 0.0
    assert 0 < base["share_of_reads"]["value"] <= 1
    capacity = status["capacity"]
    assert 100 < capacity["load"]["value"] < 250
    assert 100 < capacity["forecast"]["value"] < 300
    assert capacity["capacity"]["value"] == 500.0 * capacity["serving"]["value"]
    assert status["decision"]["outcome"] in ("hold", "act")
    assert status["decision"]["reason"]
    table = product.peaker("status", "orders").out
    for word in (
        product.cluster.base_replica_id,
        product.cluster.source_id,
        "base",
        "healthy",
        "500 each",
        "at least 1, at most 3",
    ):
        assert word in table


def test_without_a_cluster_there_is_a_line_per_cluster(product: DeployedProduct) -> None:
    said = product.peaker("status")
    verdict, head, line, *_ = said.out.splitlines()
    assert verdict.split(":")[0] in ("OK", "WAITING", "PAUSED", "UNKNOWN", "FAILED", "SHORT")
    assert head.split()[:3] == ["cluster", "load", "capacity"]
    assert line.split()[0] == "orders"
    assert [one["cluster"] for one in product.peaker("status", "--json").document] == ["orders"]


def test_what_aws_refuses_to_tell_is_unknown_with_its_reason_and_not_zero(product: DeployedProduct) -> None:
    refused = {
        "elbv2:DescribeTargetHealth": "serves",
        "cloudwatch:DescribeAlarms": "alarms",
        "cloudwatch:GetMetricData": "load",
    }
    for target in refused:
        product.cloud.faults.add(target, "AccessDenied", times=-1)
    said = product.peaker("status", "orders", "--json")
    assert said.status == 2, "the load that is unknown is worse than what else is"
    status = said.document
    assert status["verdict"]["word"] == "FAILED"
    assert "AccessDenied" in status["alarms"]["unknown"]
    assert "AccessDenied" in status["capacity"]["load"]["unknown"]
    for one in status["replicas"]:
        assert "AccessDenied" in one["serves"]["unknown"]
        assert "AccessDenied" in one["share_of_reads"]["unknown"]
    table = product.peaker("status", "orders").out
    assert "unknown" in table
    assert "AccessDenied" in table


@pytest.mark.parametrize(
    ("option", "news", "no_news"),
    [((), " UTC orders: ", "no news: "), (("--json",), '"cluster": "orders"', '{"unknown": "')],
)
def test_a_watch_that_is_no_terminal_appends_lines_whatever_aws_answers_and_ends_with_ctrl_c(
    product: DeployedProduct, option: tuple[str, ...], news: str, no_news: str
) -> None:
    def next_line() -> str:
        assert watching.stdout is not None
        line = watching.stdout.readline()
        assert not option or json.loads(line)
        return line

    watching = subprocess.Popen(
        peaker_command("watch", "--every", "1", *option, *product.where),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=peaker_environment(),
    )
    try:
        assert all(news in next_line() for _ in range(2))
        product.cloud.faults.add("ssm:GetParametersByPath", "InternalServerError", times=-1)
        eventually(lambda: no_news in next_line())
        product.cloud.faults.clear()
        eventually(lambda: news in next_line())
        watching.send_signal(signal.SIGINT)
        _, errors = watching.communicate(timeout=300)
    finally:
        watching.kill()
    assert (watching.returncode, errors) == (0, "")


def test_a_watch_on_a_terminal_ends_with_ctrl_c_and_gives_the_cursor_back(product: DeployedProduct) -> None:
    ours, its = os.openpty()
    environment = peaker_environment(TERM="xterm", LINES="100")
    watching = subprocess.Popen(
        peaker_command("watch", "orders", "--every", "1", *product.where),
        stdin=its, stdout=its, stderr=its, env=environment, start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )  # fmt: skip
    os.close(its)
    try:
        shown = read_terminal(ours, until=b"alarms")
        os.write(ours, b"\x03")
        shown += read_terminal(ours)
        assert watching.wait(300) == 0
    finally:
        watching.kill()
        os.close(ours)
    assert shown.count(b"\x1b[?25l") == shown.count(b"\x1b[?25h") == 1
    assert b"Traceback" not in shown
    assert b"peaker: stopped" not in shown


def read_terminal(terminal: int, until: bytes | None = None) -> bytes:
    """What a terminal shows until it has shown that, or until its other end is closed."""
    shown = b""
    while until is None or until not in shown:
        try:
            shown += os.read(terminal, 65536)
        except OSError:  # the last process on it is gone
            assert until is None, shown.decode()
            break
    return shown
