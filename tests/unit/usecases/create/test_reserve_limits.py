"""ReserveLimits: a run asks once, waits for what others have, goes without what is not worth it, and gives it back."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from peaker.domain.limits.admission import Admission, VolumeRates
from peaker.domain.limits.reservations import Reservation, Reservations
from peaker.domain.limits.start_slots import next_slot
from peaker.domain.planning.learning.past_steps import PastSteps
from peaker.domain.planning.plan import ScaleOutPlan
from peaker.domain.reading import Unknown
from peaker.domain.runs.failure import Failure
from peaker.domain.runs.ledger import ResourceKind, ResourceState, of_kind
from peaker.domain.runs.run import FailedStep, PlanStep, StepInput
from peaker.domain.runs.run_memory import Placement
from peaker.domain.storage.snapshot_sets import CopiedBytes
from peaker.usecases.create.choose_donor import choose_donor
from peaker.usecases.create.create_snapshots import create_snapshots
from peaker.usecases.create.create_volumes import create_volumes
from peaker.usecases.create.reserve_limits import reserve_limits
from peaker.usecases.plan.plan_scale_out import plan_scale_out
from peaker.usecases.run.held_lease import holder_of
from peaker.usecases.undo.undo_run import undo_run

from peaker_contract import errors
from tests.support.builders import BASE, RUN_ID, data_volumes_of, leased, orders, with_cluster
from tests.support.fakes import NOON, FakePastRuns, FakePorts, fake_ports

# Two volumes of so much at 300 MiB/s: in nine of ten cases some minutes sooner than at the default rate.
SIZE_GIB = 200
MIB = 1024**2
# For what another cluster has for five minutes: the way to the volumes takes three, of which 30 % are left for chance.
WAIT_SECONDS = 184.1


class KnownSets(FakePastRuns):
    """Past sets were complete after two minutes."""

    def past_steps(self, cluster: str) -> PastSteps:
        return PastSteps(copies=[CopiedBytes(120.0, 2 * SIZE_GIB * 1024.0 * MIB)] * 12)


@pytest.fixture
def ports() -> FakePorts:
    plain = fake_ports(orders(initialization_rate_mib_per_s=300))
    made = FakePorts(**{**vars(plain), "past_runs": KnownSets()})
    made.compute.ebs_promise = lambda _: Unknown("a type that bears all")  # type: ignore[method-assign]
    with_cluster(made)
    for volume in data_volumes_of(BASE, size_gib=SIZE_GIB):
        made.storage.add(volume)
    return made


def planned(ports: FakePorts) -> ScaleOutPlan:
    plan_scale_out(ports, PlanStep(**leased(ports, "PlanScaleOut").model_dump()))
    return ports.ledger.run(RUN_ID).required(ScaleOutPlan, "test")


def used(ports: FakePorts, amount: float, minutes: float) -> None:
    """Another cluster has so much of the rate for so long."""
    other = Reservation(
        run_id="other",
        cluster="carts",
        amount=amount,
        begins_at=NOON,
        ends_at=NOON + timedelta(minutes=minutes),
    )
    assert ports.shared_limits.keep_reservations(Reservations(made=(other,)))


def reserved(ports: FakePorts) -> Any:
    return reserve_limits(ports, leased(ports, "ReserveLimits")).numbers


def own(ports: FakePorts) -> Reservation | None:
    return ports.shared_limits.reservations().of(RUN_ID)


def ready_for_volumes(ports: FakePorts) -> StepInput:
    choose_donor(ports, leased(ports, "ChooseDonor"))
    create_snapshots(ports, leased(ports, "CreateSnapshots"))
    given = leased(ports, "CreateVolumes")
    ports.ledger.settle(holder_of(given), Placement(zone="us-east-1b", instance_type="r6i.large"))
    return given


def rates(ports: FakePorts) -> list[int | None]:
    return [spec.initialization_rate_mib_per_s for spec in ports.storage.specs]


class TestWhatIsFree:
    def test_is_reserved_at_once_until_the_volumes_have_arrived(self, ports: FakePorts) -> None:
        planned(ports)
        numbers = reserved(ports)
        assert (numbers["wait_seconds"], numbers["rate_mib_per_s"]) == (0, 600)
        found = own(ports)
        assert found is not None
        # 200 GiB at 300 MiB/s take 683 s, or a fifth more; the way to the volumes three minutes; and half more.
        assert timedelta(seconds=60) < found.begins_at - NOON < timedelta(seconds=180)
        assert timedelta(seconds=1_025) < found.ends_at - NOON < timedelta(seconds=1_700)

    def test_a_run_without_a_rate_takes_its_turn_to_start_and_nothing_else(self) -> None:
        ports = with_cluster(fake_ports(orders()))
        planned(ports)
        assert reserved(ports)["rate_mib_per_s"] == 0
        assert ports.shared_limits.reservations().version == 0
        assert ports.shared_limits.start_slots().version == 1

    def test_a_repeated_call_reserves_nothing_more(self, ports: FakePorts) -> None:
        planned(ports)
        first = reserved(ports)
        ports.clock.advance(seconds=40)
        assert reserved(ports) == first
        assert (ports.shared_limits.reservations().version, ports.shared_limits.start_slots().version) == (
            1,
            1,
        )

    def test_a_call_that_died_before_it_kept_the_answer_finds_its_reservation(
        self, ports: FakePorts, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        planned(ports)
        with monkeypatch.context() as dying:
            dying.setattr(ports.ledger, "settle_first", lambda *_: (_ for _ in ()).throw(TimeoutError()))
            with pytest.raises(TimeoutError):
                reserved(ports)
        before = own(ports)
        ports.clock.advance(seconds=30)
        reserved(ports)
        assert own(ports) == before

    def test_another_run_that_reserves_at_the_same_moment_is_seen(self, ports: FakePorts) -> None:
        planned(ports)
        ports.shared_limits.before_a_write = lambda: used(ports, 4_900, 5)
        with pytest.raises(errors.ReservationNotDue, match="waits for initialization rate"):
            reserved(ports)

    def test_a_run_that_lost_its_lease_reserves_nothing(self, ports: FakePorts) -> None:
        planned(ports)
        given = leased(ports, "ReserveLimits")
        ports.lease.acquire("orders", RUN_ID, "scale_out", NOON, NOON + timedelta(hours=6), fence=True)
        with pytest.raises(errors.LeaseLost):
            reserve_limits(ports, given)
        assert ports.shared_limits.start_slots().version == 0


class TestWhatOthersHave:
    def test_is_waited_for_with_a_reason_and_a_time(self, ports: FakePorts) -> None:
        planned(ports)
        used(ports, 4_900, 5)
        with pytest.raises(errors.ReservationNotDue, match="waits for initialization rate until 12:03:04"):
            reserved(ports)
        ports.clock.advance(minutes=5)
        numbers = reserved(ports)
        assert (numbers["wait_seconds"], numbers["waited_for"]) == (WAIT_SECONDS, "initialization rate")

    def test_is_gone_without_where_the_wait_is_longer_than_it_is_worth(self, ports: FakePorts) -> None:
        planned(ports)
        used(ports, 4_900, 300)
        numbers = reserved(ports)
        assert (numbers["wait_seconds"], numbers["rate_mib_per_s"]) == (0, 0)
        assert "600 MiB/s are free at 17:00:00" in numbers["notes"][0]
        given = ready_for_volumes(ports)
        assert (
            "at the default rate: no initialization rate" in create_volumes(ports, given).numbers["notes"][0]
        )
        assert rates(ports) == [None, None]

    def test_a_run_whose_turn_to_start_has_not_come_waits_for_it(self, ports: FakePorts) -> None:
        planned(ports)
        for _ in range(95):
            assert ports.shared_limits.keep_start_slots(next_slot(ports.shared_limits.start_slots(), NOON)[1])
        with pytest.raises(errors.ReservationNotDue, match="its turn to start until 12:06:04"):
            reserved(ports)

    def test_the_plan_counts_the_wait_in_its_lead_time(self, ports: FakePorts) -> None:
        before = planned(ports).lead_time
        used(ports, 4_900, 5)
        after = planned(ports)
        assert before is not None
        assert after.lead_time is not None
        assert after.lead_time.parts["reservation"] == WAIT_SECONDS
        assert after.lead_time.seconds - before.seconds == pytest.approx(WAIT_SECONDS, abs=0.2)
        [check] = [one for one in after.checks if one.name == "shared limits"]
        assert (check.verdict, check.numbers["wait_seconds"]) == ("pass", WAIT_SECONDS)

    def test_the_plan_says_what_a_run_goes_without_and_what_can_be_done(self, ports: FakePorts) -> None:
        used(ports, 4_900, 300)
        plan = planned(ports)
        assert [volume.initialization_rate_mib_per_s for volume in plan.volumes] == [None, None]
        assert plan.price.once == 0
        [check] = [one for one in plan.checks if one.name == "shared limits"]
        assert check.verdict == "warn"
        assert "L-A37D9CF3" in check.remedy


class TestWhenTheVolumesAreMade:
    def test_the_reservation_ends_when_their_bytes_have_arrived(self, ports: FakePorts) -> None:
        planned(ports)
        reserved(ports)
        given = ready_for_volumes(ports)
        ports.clock.advance(minutes=7)
        create_volumes(ports, given)
        found = own(ports)
        assert found is not None
        assert rates(ports) == [300, 300]
        assert found.begins_at == NOON + timedelta(minutes=7)
        assert (found.ends_at - found.begins_at).total_seconds() == pytest.approx(
            SIZE_GIB * 1024 / 300 * 1.2 + 60, abs=1
        )

    def test_a_run_that_came_too_late_takes_nothing_from_others(self, ports: FakePorts) -> None:
        planned(ports)
        reserved(ports)
        given = ready_for_volumes(ports)
        ports.clock.advance(hours=9)
        there = ports.shared_limits.reservations()
        later = there.made[0].model_copy(
            update={
                "run_id": "other",
                "cluster": "carts",
                "amount": 4_900,
                "ends_at": NOON + timedelta(hours=10),
            }
        )
        assert ports.shared_limits.keep_reservations(there.model_copy(update={"made": (later,)}))
        notes = create_volumes(ports, given).numbers["notes"]
        assert rates(ports) == [None, None]
        assert "at the default rate" in notes[0]

    def test_a_run_that_comes_sooner_than_it_said_gives_back_what_it_cannot_use_yet(
        self, ports: FakePorts
    ) -> None:
        planned(ports)
        used(ports, 4_900, 5)
        with pytest.raises(errors.ReservationNotDue):
            reserved(ports)
        given = ready_for_volumes(ports)
        ports.clock.advance(minutes=4)
        reserved(ports)
        notes = create_volumes(ports, given).numbers["notes"]
        assert "600 MiB/s are free at 12:05:00" in notes[0]
        assert own(ports) is None

    def test_a_repeated_call_asks_for_the_same_volumes_again(self, ports: FakePorts) -> None:
        planned(ports)
        reserved(ports)
        given = ready_for_volumes(ports)
        create_volumes(ports, given)
        used_up = ports.shared_limits.reservations()
        ports.clock.advance(hours=9)
        create_volumes(ports, given)
        assert ports.shared_limits.reservations() == used_up
        assert ports.ledger.run(RUN_ID).required(VolumeRates, "test").rates == {"data": 300, "log": 300}

    def test_a_run_of_the_version_before_takes_the_rates_of_its_plan(self, ports: FakePorts) -> None:
        planned(ports)
        given = ready_for_volumes(ports)
        create_volumes(ports, given)
        assert rates(ports) == [300, 300]
        assert ports.shared_limits.reservations().version == 0


def test_an_undo_gives_back_what_the_run_had(ports: FakePorts) -> None:
    planned(ports)
    reserved(ports)
    given = leased(ports, "UndoScaleOut")
    failure = Failure(failed_step="LaunchReplica", error="CapacityUnavailable", cause="none")
    undo_run(ports, FailedStep(**given.model_dump(), failure=failure))
    assert own(ports) is None


def test_an_undo_does_not_wait_for_reservations_that_nobody_can_read(
    ports: FakePorts, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned(ports)
    reserved(ports)

    def unreadable() -> Reservations:
        raise errors.LedgerInconsistent("the ledger's item limits initialization_rate cannot be read")

    monkeypatch.setattr(ports.shared_limits, "reservations", unreadable)
    failure = Failure(failed_step="LaunchReplica", error="CapacityUnavailable", cause="none")
    given = leased(ports, "UndoScaleOut")
    undone = undo_run(ports, FailedStep(**given.model_dump(), failure=failure))
    assert undone.outcome == "rolled_back"


def test_a_run_that_waits_is_undone_like_any_other(ports: FakePorts) -> None:
    planned(ports)
    used(ports, 4_900, 5)
    with pytest.raises(errors.ReservationNotDue):
        reserved(ports)
    given = leased(ports, "UndoScaleOut")
    failure = Failure(failed_step="ReserveLimits", error="Stopped", cause="by a person")
    undo_run(ports, FailedStep(**given.model_dump(), failure=failure))
    assert [one.run_id for one in ports.shared_limits.reservations().made] == ["other"]
    assert ports.ledger.run(RUN_ID).part(Admission) is not None
    rows = of_kind(ports.ledger.resources(RUN_ID), ResourceKind.INSTANCE)
    assert all(row.state is ResourceState.UNDONE for row in rows)


def test_an_account_with_a_larger_quota_need_not_wait(ports: FakePorts) -> None:
    """Two volumes at 300 MiB/s beside another cluster's 4,700, where the account may have 8,000."""
    ports.account_quotas.values["L-A37D9CF3"] = 8_000.0
    used(ports, 4_700, minutes=5)
    assert planned(ports).lead_time.parts.get("reservation", 0.0) == 0.0
    assert reserved(ports)["wait_seconds"] == 0


@pytest.mark.parametrize(
    "error", [errors.Throttled("slow down"), errors.AwsCallRejected("servicequotas:GetServiceQuota: denied")]
)
def test_service_quotas_that_do_not_answer_keep_nobody_from_building(
    ports: FakePorts, error: Exception
) -> None:
    """AWS's default holds, and the plan says why."""
    ports.account_quotas.error = error
    [check] = [one for one in planned(ports).checks if one.name == "shared limits"]
    assert check.numbers["quota_mib_per_s"] == 5_000
    assert str(error) in check.detail
    assert reserved(ports)["rate_mib_per_s"] == 600
