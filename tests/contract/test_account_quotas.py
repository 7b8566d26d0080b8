"""What the account may have: one suite for the fake and for Service Quotas of the local cloud."""

from __future__ import annotations

from itertools import count

import boto3
import pytest
from botocore.stub import Stubber
from peaker.adapters.ec2 import compute, storage
from peaker.adapters.ec2.compute import Ec2Compute
from peaker.adapters.ec2.storage import Ec2Storage
from peaker.adapters.service_quotas import AwsServiceQuotas
from peaker.domain.limits.account_limits import DEFAULT_REGION_RATE, INITIALIZATION_RATE_QUOTA, Quota
from peaker.domain.reading import Unknown
from peaker.ports.cloud import AccountQuotas

from sim import others
from sim.workflows.virtual_time import START as NOON
from tests.contract.conftest import Adapters

UNKNOWN = Quota("ebs", "L-00000000")


@pytest.fixture(params=["hostile", "service quotas"])
def quotas(request: pytest.FixtureRequest) -> AccountQuotas:
    """An account that was never given more."""
    if request.param == "hostile":
        return others.AccountQuotas({INITIALIZATION_RATE_QUOTA.code: DEFAULT_REGION_RATE.mib_per_s})
    aws: Adapters = request.getfixturevalue("aws")
    return AwsServiceQuotas(aws.cloud.client("service-quotas"))


def test_an_account_that_was_given_nothing_has_the_default(quotas: AccountQuotas) -> None:
    assert quotas.value(INITIALIZATION_RATE_QUOTA) == DEFAULT_REGION_RATE.mib_per_s


def test_a_quota_that_there_is_not_has_no_value(quotas: AccountQuotas) -> None:
    assert quotas.value(UNKNOWN) is None


def test_what_the_account_was_given_goes_before_the_default(aws: Adapters) -> None:
    given = Quota("ebs", "L-09BD8365")
    before = AwsServiceQuotas(aws.cloud.client("service-quotas")).value(given)
    aws.cloud.quotas.give(given.service, given.code, 77.0)
    assert (before, AwsServiceQuotas(aws.cloud.client("service-quotas")).value(given)) == (20.0, 77.0)


def test_an_account_of_more_pages_than_are_read_is_unknown(
    aws: Adapters, monkeypatch: pytest.MonkeyPatch
) -> None:
    ec2 = aws.cloud.client("ec2")
    aws.cloud.client("ec2").create_volume(AvailabilityZone="us-east-1a", Size=1, VolumeType="gp3")
    for module in (compute, storage):
        monkeypatch.setattr(module, "MOST_PAGES", 0)
    assert isinstance(Ec2Compute(ec2, "local").on_demand_instances(), Unknown)
    assert isinstance(Ec2Storage(ec2, ec2, "local").volumes_of_type("gp3"), Unknown)


def test_an_account_whose_lists_take_too_long_is_unknown(aws: Adapters) -> None:
    """Of a function's 60 s; a quota that is unknown refuses no plan."""
    ec2 = aws.cloud.client("ec2")
    clock = count(0.0, 11.0)
    seconds = lambda: next(clock)  # noqa: E731
    for found in (
        Ec2Compute(ec2, "local", seconds).on_demand_instances(),
        Ec2Storage(ec2, ec2, "local", seconds).volumes_of_type("gp3"),
    ):
        assert isinstance(found, Unknown)
        assert "took more than 10 s" in found.why


def test_spot_instances_and_those_on_dedicated_hosts_count_in_other_quotas() -> None:
    """Only what EC2 answers: the local cloud has neither."""
    ec2 = boto3.client(
        "ec2", region_name="us-east-1", aws_access_key_id="nobody", aws_secret_access_key="nothing"
    )
    at = {"InstanceType": "r6i.large", "LaunchTime": NOON, "State": {"Name": "running"}}
    zone = {"AvailabilityZone": "us-east-1a"}
    listed = [
        {**at, "InstanceId": "i-demand", "Placement": {**zone, "Tenancy": "default"}},
        {**at, "InstanceId": "i-dedicated", "Placement": {**zone, "Tenancy": "dedicated"}},
        {**at, "InstanceId": "i-spot", "Placement": zone, "InstanceLifecycle": "spot"},
        {**at, "InstanceId": "i-host", "Placement": {**zone, "Tenancy": "host"}},
    ]
    with Stubber(ec2) as stubbed:
        stubbed.add_response("describe_instances", {"Reservations": [{"Instances": listed}]})
        found = Ec2Compute(ec2, "local").on_demand_instances()
    assert not isinstance(found, Unknown)
    assert [one.instance_id for one in found] == ["i-demand", "i-dedicated"]
