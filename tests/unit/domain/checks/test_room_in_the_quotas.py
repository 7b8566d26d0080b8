"""vCPUs and EBS storage against the account's quotas: what fits, what fits as another type, what nobody knows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from peaker.domain.document.plan import Check
from peaker.domain.limits.account_limits import (
    HIGH_MEMORY,
    IOPS,
    STANDARD,
    STORAGE,
    AccountUse,
    Quota,
    QuotaUse,
    X,
    vcpu_quota,
    vcpus_in_use,
)
from peaker.domain.planning.checks.account_quotas import Launches, ebs_storage, vcpus
from peaker.domain.reading import Known, Reading, Unknown
from peaker.domain.replicas.data_volumes import PlannedVolume

from tests.support.builders import planned_volume

LARGE, WIDE = "r6i.large", "x2idn.16xlarge"
VCPUS = {LARGE: 2, "r6i.xlarge": 4, WIDE: 64, "m7i.large": 2}
GP3, IO2, IO2_IOPS = STORAGE["gp3"], STORAGE["io2"], IOPS["io2"]
DATA, LOG = planned_volume("data", "gp3", 512, 3_000, 125), planned_volume("log", "gp3", 512, 3_000, 125)
FAST = planned_volume("data", "io2", 1_024, 40_000, 1_000)
DENIED = Unknown("servicequotas:GetServiceQuota: AccessDenied")


def account(*quotas: tuple[Quota, float, float], reserved: dict[str, int] | None = None) -> AccountUse:
    """Quotas with their value and what is in use."""
    uses = {quota.code: QuotaUse(Known(value), Known(used)) for quota, value, used in quotas}
    return AccountUse(uses, VCPUS, reserved or {})


def built(count: int, *types: str) -> Launches:
    return Launches(types or (LARGE,), count)


class TestVcpus:
    @pytest.mark.parametrize(
        ("in_use", "verdict", "fit"),
        [(4, "pass", 2), (12, "pass", 2), (12.5, "warn", 2), (16, "warn", 2), (16.5, "refuse", 1), (18.5, "refuse", 0)],
    )  # fmt: skip
    def test_two_replicas_of_two_against_twenty(self, in_use: float, verdict: str, fit: int) -> None:
        found = vcpus(built(2), account((STANDARD, 20, in_use)))
        assert (found.verdict, found.numbers["fit"]) == (verdict, fit)
        assert found.numbers["wanted"] == 4

    def test_what_does_not_fit_says_how_many_would_and_where_to_ask(self) -> None:
        found = vcpus(built(3), account((STANDARD, 8, 4)))
        assert "4 in use, 6 more needed, the quota is 8: 2 of 3 replicas would fit" in found.detail
        # Ten are 80 % of thirteen: with that nothing is warned of.
        assert "--service-code ec2 --quota-code L-1216C47A --desired-value 13" in found.remedy

    def test_a_later_type_of_another_quota_is_said_and_refuses_nothing(self) -> None:
        found = vcpus(built(2, LARGE, WIDE), account((STANDARD, 4, 2), (X, 128, 0)))
        assert (found.verdict, found.numbers["fit"]) == ("warn", 2)
        assert f"not all fit as {LARGE}; 1 as {WIDE} (L-7295265B) would" in found.detail

    def test_a_later_type_that_nobody_knows_may_help_and_is_unknown(self) -> None:
        known = account((STANDARD, 4, 2))
        found = vcpus(
            built(2, LARGE, WIDE), replace(known, quotas={**known.quotas, X.code: QuotaUse(DENIED, Known(0))})
        )
        assert (found.verdict, "AccessDenied" in found.detail) == ("unknown", True)

    def test_a_parked_replica_takes_its_vcpus_again(self) -> None:
        returns = Launches((LARGE,), builds=1, returns=("r6i.xlarge",))
        assert vcpus(returns, account((STANDARD, 10, 4))).verdict == "warn"
        assert vcpus(returns, account((STANDARD, 9, 4))).numbers["fit"] == 1

    def test_reserved_room_is_in_use_already(self) -> None:
        """Two empty places of the cluster: both launch into them, and the account is full."""
        full = account((STANDARD, 8, 8), reserved={LARGE: 2})
        assert vcpus(built(2), full).numbers == {
            "in_use": 8, "wanted": 0, "quota": 8, "replicas": 2, "fit": 2,
        }  # fmt: skip
        assert vcpus(built(3), full).verdict == "refuse"

    @pytest.mark.parametrize(
        ("use", "types"),
        [
            (AccountUse({STANDARD.code: QuotaUse(DENIED, Known(0))}, VCPUS), (LARGE,)),
            (AccountUse({STANDARD.code: QuotaUse(Known(8), DENIED)}, VCPUS), (LARGE,)),
            (AccountUse({STANDARD.code: QuotaUse(Known(8), Known(8))}, DENIED), (LARGE,)),
            (AccountUse({STANDARD.code: QuotaUse(Known(8), Known(8))}, {}), (LARGE,)),
            (AccountUse({}, VCPUS), (LARGE,)),
            (account((STANDARD, 8, 8)), ("g5.xlarge",)),
        ],
    )
    def test_what_is_unknown_refuses_nothing(self, use: AccountUse, types: tuple[str, ...]) -> None:
        assert vcpus(built(4, *types), use).verdict == "unknown"


class TestStorage:
    def look(self, *volumes: PlannedVolume, count: int = 2, **quotas: QuotaUse) -> Check:
        by_name = {"gp3": GP3, "io2": IO2, "iops": IO2_IOPS}
        return ebs_storage(volumes, count, AccountUse({by_name[n].code: u for n, u in quotas.items()}, VCPUS))

    @pytest.mark.parametrize(
        ("in_use", "verdict", "fit"),
        [(6, "pass", 2), (7, "warn", 2), (8, "warn", 2), (8.5, "refuse", 1), (10, "refuse", 0)],
    )  # fmt: skip
    def test_all_volumes_of_a_type_count_together(self, in_use: float, verdict: str, fit: int) -> None:
        found = self.look(DATA, LOG, gp3=QuotaUse(Known(10), Known(in_use)))
        assert (found.verdict, found.numbers["fit"]) == (verdict, fit)
        assert found.numbers["L-7A658B76_wanted"] == 2

    def test_provisioned_iops_have_a_quota_of_their_own(self) -> None:
        found = self.look(
            FAST, io2=QuotaUse(Known(20), Known(0)), iops=QuotaUse(Known(100_000), Known(40_000))
        )
        assert (found.verdict, found.numbers["fit"]) == ("refuse", 1)
        assert "L-8D977E7E" in found.remedy
        assert "L-09BD8365" not in found.remedy

    def test_a_refusal_of_what_is_known_stands_beside_what_is_not(self) -> None:
        full = QuotaUse(Known(10), Known(10))
        found = self.look(
            LOG, FAST, gp3=full, io2=QuotaUse(DENIED, Known(0)), iops=QuotaUse(DENIED, Known(0))
        )
        assert (found.verdict, "AccessDenied" in found.detail) == ("refuse", True)

    def test_what_is_unknown_refuses_nothing(self) -> None:
        assert self.look(DATA, gp3=QuotaUse(Known(1), DENIED)).verdict == "unknown"
        assert self.look(DATA).verdict == "unknown"


@pytest.mark.parametrize(
    ("instance_type", "quota"),
    [("r6i.large", STANDARD), ("i4i.xlarge", STANDARD), ("im4gn.large", STANDARD), ("x2idn.16xlarge", X),
     ("u7i-6tb.112xlarge", HIGH_MEMORY), ("hpc7a.96xlarge", None), ("inf2.xlarge", None), ("g5.xlarge", None)],
)  # fmt: skip
def test_families_have_quotas_of_their_own(instance_type: str, quota: Quota | None) -> None:
    assert vcpu_quota(instance_type) == quota


@pytest.mark.parametrize(
    ("types", "used"),
    [([LARGE, "m7i.large", WIDE], Known(4.0)), ([], Known(0.0)), (["g5.xlarge"], Known(0.0)),
     (["r9z.large"], Unknown("EC2 names no vCPUs of r9z.large"))],
)  # fmt: skip
def test_what_runs_counts_by_its_family(types: list[str], used: Reading) -> None:
    assert vcpus_in_use(STANDARD, types, VCPUS) == used
