"""Prewarm as the workflow sees it: what it starts, when it may go on, when it gives up, what it measures."""

from __future__ import annotations

import json
from typing import Any, Literal

import pytest
from peaker.domain.reading import Unknown
from peaker.domain.runs.ledger import ResourceKind
from peaker.domain.runs.run import PrewarmStep, StepInput
from peaker.domain.storage.block_list import runs_of
from peaker.usecases.create.launch_replica import launch_replica
from peaker.usecases.plan.plan_scale_out import plan_scale_out
from peaker.usecases.run.held_lease import lease_end
from peaker.usecases.run.run_memory import intend
from peaker.usecases.warm.report_prewarm import PrewarmProgress, report_prewarm
from peaker.usecases.warm.start_prewarm import start_prewarm
from peaker.usecases.warm.verify_storage import verify_storage

from peaker_contract import errors
from sim.calm import CalmPorts, calm_ports
from tests.support.builders import leased, orders, with_cluster
from tests.support.peak import answers
from tests.unit.usecases.create.test_building import plan_step

LIMITS = {"max_hourly_cost_usd": 10, "minimum_lifetime_minutes": 0, "prewarm_deadline_minutes": 30}
ALL = {"serve_when": "all"}
HOT = {"serve_when": "hot", "background_rate_mib_per_s": 24}


def world(**changes: Any) -> CalmPorts:
    """A run whose instance is launched and whose prewarm has just started."""
    ports = with_cluster(calm_ports(orders(**changes)))
    plan_scale_out(ports, plan_step(ports))
    launch_replica(ports, leased(ports, "LaunchReplica"))
    ports.clock.advance(seconds=15)
    given, now = leased(ports, "ReportPrewarm"), ports.clock.now()
    ports.ledger.start_step(given.holder, "StartPrewarm", now, lease_end(now))
    return ports


def reported(
    ports: CalmPorts, until: Literal["database", "serving"] = "serving", **numbers: Any
) -> PrewarmProgress:
    answers(ports, "report_prewarm", **{"state": "running", "blocks_done": 1, "blocks_total": 9, **numbers})
    return report_prewarm(
        ports, PrewarmStep(**leased(ports, "ReportPrewarm").model_dump(), until=until, starts=1)
    )


def recorded(ports: CalmPorts, progress: PrewarmProgress) -> None:
    """As the handler does around the use case."""
    given: StepInput = leased(ports, "ReportPrewarm")
    now = ports.clock.now()
    ports.ledger.start_step(given.holder, given.step, now, lease_end(now))
    ports.ledger.finish_step(given.holder, given.step, now, progress.numbers)


class TestStart:
    def test_the_rest_of_the_snapshot_follows_slowly_where_the_block_list_names_it(self) -> None:
        ports = world()
        answers(ports, "start_prewarm", pid=1)
        start_prewarm(ports, leased(ports, "StartPrewarm"))
        assert ports.commands.parameters[-1]["RemainderRateMibPerS"] == "0"
        listed = world()
        TestBlockList().snapshots(listed)
        listed.snapshot_blocks.held_by = {name: runs_of([1, 2]) for name in ("snap-data", "snap-log")}
        answers(listed, "start_prewarm", pid=1)
        start_prewarm(listed, leased(listed, "StartPrewarm"))
        sent = listed.commands.parameters[-1]
        assert sent["RemainderRateMibPerS"] == "8"


class TestBlockList:
    def snapshots(self, ports: CalmPorts) -> None:
        given = leased(ports, "CreateSnapshots")
        for name in ("data", "log"):
            row = intend(ports, given, ResourceKind.SNAPSHOT, name)
            ports.ledger.made(given.holder, row, f"snap-{name}", ports.clock.now())

    def started(self, ports: CalmPorts) -> dict[str, Any]:
        answers(ports, "start_prewarm", pid=1, block_list_missing="")
        summary = start_prewarm(ports, leased(ports, "StartPrewarm"))
        return {**summary.numbers, "text": summary.text}

    def test_the_host_gets_what_the_snapshots_hold(self) -> None:
        ports = world()
        self.snapshots(ports)
        ports.snapshot_blocks.held_by["snap-data"] = runs_of([0, 1, 2, 9])
        numbers = self.started(ports)
        (text,) = ports.run_files.published.values()
        assert json.loads(text)["volumes"] == {"data": "0-2,9", "log": "0-7"}
        assert ports.commands.parameters[-1]["BlockListUrl"].startswith("https://files.test/")
        assert numbers["blocks_in_snapshots"] == {"data": 4, "log": 8}
        assert "within the snapshots' block list" in numbers["text"]

    @pytest.mark.parametrize(
        ("held", "said"),
        [
            (Unknown("snap-data has more than 700 pages"), "more than 700 pages"),
            (errors.AwsCallRejected("ebs:ListSnapshotBlocks: AccessDenied"), "AccessDenied"),
            (errors.ResourceNotFound("no such snapshot"), "ResourceNotFound"),
        ],
    )
    def test_without_a_list_the_prewarm_starts_and_says_why(self, held: Any, said: str) -> None:
        ports = world()
        self.snapshots(ports)
        ports.snapshot_blocks.held_by["snap-data"] = held
        numbers = self.started(ports)
        assert ports.commands.parameters[-1]["BlockListUrl"] == ""
        assert said in numbers["block_list_missing"]
        assert said in numbers["text"]
        assert ports.run_files.published == {}


class TestUntilTheDatabaseMayStart:
    @pytest.mark.parametrize(
        ("prewarm", "until", "numbers", "state"),
        [
            (ALL, "database", {"hot_warm_seconds": 12.5, "eta_seconds": 9000}, "hot"),
            (ALL, "serving", {"hot_warm_seconds": 12.5, "eta_seconds": 9000}, "running"),
            (HOT, "serving", {"hot_warm_seconds": 12.5, "eta_seconds": 9000}, "hot"),
            (HOT, "serving", {"hot_warm_seconds": None, "eta_seconds": 9000}, "running"),
            # Another look would come no sooner than they are warm; a replica that serves on them waits for all.
            (ALL, "database", {"hot_eta_seconds": 20.0, "eta_seconds": 9000}, "hot"),
            (ALL, "database", {"hot_eta_seconds": 20.1, "eta_seconds": 9000}, "running"),
            (HOT, "serving", {"hot_eta_seconds": 1.0, "eta_seconds": 9000}, "running"),
            (ALL, "database", {"hot_warm_seconds": None, "eta_seconds": 9000}, "running"),
            (ALL, "database", {"state": "done"}, "done"),
            (ALL, "serving", {"used_warm_seconds": 300.0, "eta_seconds": 0}, "done"),
            (ALL, "database", {"state": "dead", "hot_warm_seconds": 12.5}, "hot"),
            (ALL, "serving", {"state": "dead", "hot_warm_seconds": 12.5}, "dead"),
            (ALL, "database", {"state": "dead", "hot_eta_seconds": 1.0}, "dead"),
        ],
    )
    def test_what_is_warm_is_held_against_what_comes_next(
        self, prewarm: dict[str, Any], until: Any, numbers: dict[str, Any], state: str
    ) -> None:
        assert reported(world(prewarm=prewarm), until, **numbers).state == state

    def test_an_engine_that_was_started_four_times_and_died_is_given_up(self) -> None:
        ports = world()
        answers(ports, "report_prewarm", state="dead", blocks_done=1, blocks_total=9)
        given = PrewarmStep(**leased(ports, "ReportPrewarm").model_dump(), until="serving", starts=4)
        with pytest.raises(errors.PrewarmFailed, match="died four times, at last so: dead: 1 of 9 blocks"):
            report_prewarm(ports, given)

    def test_the_deadline_is_that_of_everything(self) -> None:
        ports = world(limits={**orders().limits.model_dump(), "prewarm_deadline_minutes": 60})
        slow = {"eta_seconds": 9000, "hot_eta_seconds": 60, "elapsed_seconds": 300}
        recorded(ports, reported(ports, "database", **slow))
        with pytest.raises(errors.PrewarmDeadlineExceeded, match="everything can be warm after"):
            reported(ports, "database", **slow)


class TestServeWhen:
    @pytest.mark.parametrize(("prewarm", "scope"), [(HOT, "hot"), (ALL, "used")])
    def test_the_proof_is_about_the_blocks_that_had_to_be_warm(
        self, prewarm: dict[str, Any], scope: str
    ) -> None:
        ports = world(prewarm=prewarm)
        answers(ports, "verify_storage", verdict="warm", volumes=[])
        verify_storage(ports, leased(ports, "VerifyStorage"))
        assert ports.commands.parameters[-1]["Scope"] == scope


LOAD: dict[str, Any] = {
    "seconds": 5,
    "iostat": {
        "device": "nvme1n1",
        "r/s": 1790.0,
        "rkB/s": 28640.0,
        "r_await": 4.4,
        "rareq-sz": 16.0,
        "aqu-sz": 8.0,
        "util": 99.0,
    },
}


class TestProof:
    def verified(self, ports: CalmPorts, **numbers: Any) -> dict[str, Any]:
        volumes = [{"name": name, "load": LOAD} for name in ("data", "log")]
        answers(ports, "verify_storage", **{"verdict": "warm", "volumes": volumes, **numbers})
        return dict(verify_storage(ports, leased(ports, "VerifyStorage")).numbers)

    def test_all_volumes_together_are_held_against_the_instance_s_baseline(self) -> None:
        iops, amount = self.verified(world())["against_plan"]
        assert (iops["delivered"], iops["promised"]) == (3580.0, 3600)
        assert (iops["promised_by"], iops["verdict"]) == ("instance baseline", "delivered")
        assert (amount["promised"], amount["verdict"]) == (77.49, "below")

    def test_the_summary_says_await_before_and_after(self) -> None:
        ports = world()
        answers(ports, "verify_storage", verdict="warm", await_cold_ms=31.4, await_first_ms=0.81, volumes=[])
        assert "cold 31.4 ms, first 0.81 ms" in verify_storage(ports, leased(ports, "VerifyStorage")).text


LARGE_VOLUMES = [{"name": "data", "blocks_used": 300_000}, {"name": "log", "blocks_used": 9_000}]


class TestLooks:
    """A proof that cannot tell, or finds something cold, does not throw hours of prewarm away."""

    def look(self, ports: CalmPorts, verdict: str, volumes: list[dict[str, Any]]) -> Any:
        answers(ports, "verify_storage", verdict=verdict, volumes=volumes, reason=f"said {verdict}")
        return verify_storage(ports, leased(ports, "VerifyStorage"))

    def open(self, ports: CalmPorts, verdict: str, volumes: list[dict[str, Any]]) -> str:
        with pytest.raises(errors.StorageProofOpen) as caught:
            self.look(ports, verdict, volumes)
        return str(caught.value)

    def sent(self, ports: CalmPorts) -> list[tuple[str, int]]:
        return [(one["Remedy"], int(one["SampleBlocks"])) for one in ports.commands.parameters]

    def test_unknown_samples_again_later_and_more(self) -> None:
        ports = world()
        assert "more is sampled 60 s later" in self.open(ports, "unknown", LARGE_VOLUMES)
        ports.clock.advance(seconds=59)
        assert "follows in 1 s" in self.open(ports, "warm", LARGE_VOLUMES)
        ports.clock.advance(seconds=1)
        summary = self.look(ports, "warm", LARGE_VOLUMES)
        assert self.sent(ports) == [("none", 256), ("none", 1024)]
        assert [look["verdict"] for look in summary.numbers["looks"]] == ["unknown", "warm"]
        assert summary.text.startswith("warm at look 2")

    def test_what_is_cold_is_warmed_again_and_proven_again(self) -> None:
        ports = world()
        assert "cold neighbourhoods" in self.open(ports, "not_warm", LARGE_VOLUMES)
        self.look(ports, "warm", LARGE_VOLUMES)
        assert self.sent(ports) == [("none", 256), ("cold", 1024)]

    def test_what_is_cold_twice_fails_the_build_and_says_every_look(self) -> None:
        ports = world()
        self.open(ports, "not_warm", LARGE_VOLUMES)
        with pytest.raises(errors.StorageNotWarm, match="looks: not_warm, not_warm"):
            self.look(ports, "not_warm", LARGE_VOLUMES)


class TestDeadline:
    def test_it_fails_as_soon_as_it_cannot_be_met_and_says_what_can(self) -> None:
        ports = world(limits=LIMITS)
        ports.clock.advance(minutes=9)
        late = reported(ports, eta_seconds=3060, elapsed_seconds=540, rate_mib_per_s=80)
        assert (late.state, late.pause_seconds) == ("running", 20)
        recorded(ports, late)
        ports.clock.advance(minutes=1)
        with pytest.raises(errors.PrewarmDeadlineExceeded) as caught:
            reported(ports, eta_seconds=3000, hot_eta_seconds=120, elapsed_seconds=600, rate_mib_per_s=80)
        said = str(caught.value)
        assert "3000 s are still needed at 80 MiB/s, 1200 s are left" in said
        assert (
            "everything can be warm after 60 min, the hot set after 12 min (prewarm.serve_when: hot)" in said
        )

    def test_one_report_of_a_slow_moment_fails_nothing(self) -> None:
        """A stall of 2 s once made 6.7 h of 52 min, in the one report that saw it."""
        ports = world(limits=LIMITS)
        for eta in (1100, 24_120, 1040, 24_120, 980):
            ports.clock.advance(minutes=1)
            progress = reported(ports, eta_seconds=eta, elapsed_seconds=600, rate_mib_per_s=80)
            recorded(ports, progress)
            assert progress.state == "running"

    def test_a_rate_of_the_first_minute_is_not_believed(self) -> None:
        assert reported(world(limits=LIMITS), eta_seconds=9000, elapsed_seconds=59).state == "running"

    def test_the_hot_set_s_time_counts_where_it_is_enough(self) -> None:
        ports = world(limits=LIMITS, prewarm=HOT)
        ports.clock.advance(minutes=10)
        progress = reported(ports, eta_seconds=90_000, hot_eta_seconds=60, elapsed_seconds=600)
        assert progress.state == "running"
