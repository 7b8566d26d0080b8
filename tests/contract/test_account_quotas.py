"""What the account may have: one suite for the fake and for Service Quotas of the local cloud."""

from __future__ import annotations

import pytest
from peaker.adapters.service_quotas import AwsServiceQuotas
from peaker.domain.limits.account_limits import INITIALIZATION_RATE, INITIALIZATION_RATE_QUOTA, Quota
from peaker.ports import AccountQuotas

from tests.contract.conftest import Adapters
from tests.support.fakes import FakeAccountQuotas

UNKNOWN = Quota("ebs", "L-00000000")


@pytest.fixture(params=["fake", "service quotas"])
def quotas(request: pytest.FixtureRequest) -> AccountQuotas:
    """An account that was never given more."""
    if request.param == "fake":
        fake = FakeAccountQuotas()
        fake.values[INITIALIZATION_RATE_QUOTA.code] = INITIALIZATION_RATE.capacity
        return fake
    aws: Adapters = request.getfixturevalue("aws")
    return AwsServiceQuotas(aws.cloud.client("service-quotas"))


def test_an_account_that_was_given_nothing_has_the_default(quotas: AccountQuotas) -> None:
    assert quotas.value(INITIALIZATION_RATE_QUOTA) == INITIALIZATION_RATE.capacity


def test_a_quota_that_there_is_not_has_no_value(quotas: AccountQuotas) -> None:
    assert quotas.value(UNKNOWN) is None


def test_what_the_account_was_given_goes_before_the_default(aws: Adapters) -> None:
    given = Quota("ebs", "L-09BD8365")
    before = AwsServiceQuotas(aws.cloud.client("service-quotas")).value(given)
    aws.cloud.quotas.give(given.service, given.code, 77.0)
    assert (before, AwsServiceQuotas(aws.cloud.client("service-quotas")).value(given)) == (20.0, 77.0)
