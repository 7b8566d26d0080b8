"""peaker doctor on the account: bootstrap, image, quotas, prices, keys, the role that is passed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ClientError
from peaker.domain.limits.account_limits import STANDARD, STORAGE, AccountUse, QuotaUse, X
from peaker.domain.prices.fetched_prices import price_table
from peaker.domain.prices.price_table import US_EAST_1
from peaker.domain.reading import Known, Unknown
from peaker.domain.replicas.inventory import Volume
from peaker_cli.doctor.account import AccountFacts, DefaultKey, Image, InstanceType, look_at_account
from peaker_cli.doctor.finding import Finding, NotTold, ask

from peaker_contract.cluster import ClusterSettings
from sim.workflows.virtual_time import START as NOON
from tests.support.builders import BASE, data_volumes_of, orders

ROLE = "arn:aws:iam::123456789012:role/peaker-replica"
KEY = "arn:aws:kms:us-east-1:123456789012:key/ab"
NOT_TOLD = NotTold("no", "kms:DescribeKey")
WITH_DATA = Image("available", "x86_64", ("/dev/xvda", "/dev/xvdf"))
LIKE = {str(volume.name): volume for volume in data_volumes_of(BASE, size_gib=512)}


def kind(*zones: str, architecture: str = "x86_64", memory_mib: int = 16_384) -> InstanceType:
    return InstanceType(2, (architecture,), zones, memory_mib)


def use(quota: float | Unknown = 64.0) -> AccountUse:
    """vCPUs as given, of which four are in use, and room for fifty TiB of gp3, of which one is."""
    value = quota if isinstance(quota, Unknown) else Known(quota)
    quotas = {
        STANDARD.code: QuotaUse(value, Known(4.0)),
        STORAGE["gp3"].code: QuotaUse(Known(50.0), Known(1.0)),
    }
    return AccountUse(quotas, {"r6i.large": 2, "x2gd.xlarge": 4})


GOOD = AccountFacts(
    bootstrap_version=28,
    image=Image("available", "x86_64"),
    instance_type=kind("us-east-1a", "us-east-1b"),
    use=use(),
    prices=US_EAST_1,
    keys={},
    default_key=None,
    profile={"Roles": [{"Arn": ROLE}]},
    passes=[ROLE],
)


def looked(
    settings: ClusterSettings | None = None, like: dict[str, Volume] | None = None, **facts: Any
) -> dict[str, Finding]:
    given = settings or orders()
    found = look_at_account(given, replace(GOOD, **facts), 2, LIKE if like is None else like)
    return {one.check: one for one in found}


def test_a_sound_account_passes_in_every_line() -> None:
    assert {one.verdict.value for one in looked().values()} == {"pass"}


@pytest.mark.parametrize(
    ("found", "verdict", "detail"),
    [
        (kind("us-east-1b"), "pass", "r5.large, 2 vCPUs, in us-east-1b"),
        (kind("us-east-1f"), "warn", "offered in none of us-east-1a"),
        (kind("us-east-1a", architecture="arm64"), "warn", "r5.large is arm64, r6i.large is x86_64"),
        (kind("us-east-1a", memory_mib=8_192), "warn", "8,192 MiB of memory, r6i.large has 16,384"),
        (None, "warn", "EC2 knows no r5.large in us-east-1"),
        (Unknown("not allowed"), "unknown", "not allowed"),
    ],
)
def test_a_fallback_type_is_looked_at(
    found: InstanceType | Unknown | None, verdict: str, detail: str
) -> None:
    line = looked(fallback_types={"r5.large": found})["fallback r5.large"]
    assert (line.verdict.value, detail in line.detail) == (verdict, True), line


@pytest.mark.parametrize(("qualifier", "option"), [("hnb659fds", ""), ("acme", " --qualifier acme")])
def test_a_bootstrap_is_made_under_the_qualifier_that_the_deployment_looks_for(
    qualifier: str, option: str
) -> None:
    found = looked(orders(bootstrap_qualifier=qualifier), bootstrap_version=None)["bootstrap"]
    advised = f"npx cdk bootstrap -c env=local{option}; if it has another one, set bootstrap_qualifier"
    assert (found.verdict.value, found.remedy, qualifier in found.detail) == ("refuse", advised, True)


@pytest.mark.parametrize(
    ("facts", "check", "verdict", "detail"),
    [
        ({"bootstrap_version": 5}, "bootstrap", "refuse", "version 5 of CDK's bootstrap, needed is 6"),
        ({"image": None}, "image", "refuse", "there is no ami-"),
        ({"image": Image("pending", "x86_64")}, "image", "refuse", "is pending"),
        ({"image": Image("available", "arm64")}, "image", "refuse", "is arm64, r6i.large is x86_64"),
        ({"image": WITH_DATA}, "image", "refuse", "maps /dev/xvdf, where data is to be attached (/dev/sdf)"),
        ({"instance_type": None}, "instance type", "refuse", "knows no r6i.large"),
        ({"instance_type": kind("us-east-1b")}, "instance type", "warn", "us-east-1a"),
        ({"instance_type": kind("us-east-1f")}, "instance type", "refuse", "not offered"),
        ({"profile": None}, "instance profile", "refuse", "there is no instance profile"),
        ({"profile": {"Roles": []}}, "instance profile", "refuse", "holds no role"),
        ({"passes": []}, "PassRole", "refuse", "may pass no role"),
        ({"passes": ["arn:aws:iam::123456789012:role/*"]}, "PassRole", "pass", ROLE),
        ({"keys": {KEY: None}}, "key ab", "pass", "EBS could use"),
        ({"keys": {KEY: "its state is Disabled"}}, "key ab", "refuse", "Disabled"),
        ({"keys": {KEY: NOT_TOLD}}, "key ab", "unknown", "no"),
        ({"default_key": DefaultKey("alias/aws/ebs", None)}, "default encryption", "pass", "alias/aws/ebs"),
        ({"default_key": DefaultKey(KEY, None)}, "default encryption", "pass", "EBS could use"),
        ({"default_key": DefaultKey(KEY, "it is not in kms_key_arns")}, "default encryption", "refuse", KEY),
        ({"default_key": DefaultKey(KEY, NOT_TOLD)}, "default encryption", "refuse", "no"),
        ({"default_key": NotTold("no", "ec2:GetEbsDefaultKmsKeyId")}, "default encryption", "unknown", "no"),
    ],
)
def test_what_is_wrong_has_its_own_line(facts: dict[str, Any], check: str, verdict: str, detail: str) -> None:
    line = looked(**facts)[check]
    assert (line.verdict.value, detail in line.detail) == (verdict, True), line
    assert line.remedy or verdict == "pass"


class TestQuotas:
    @pytest.mark.parametrize(
        ("quota", "verdict"), [(64.0, "pass"), (8.0, "warn"), (7.0, "refuse"), (5.0, "refuse")]
    )
    def test_processors_are_those_of_all_replicas_that_may_still_be_built(
        self, quota: float, verdict: str
    ) -> None:
        line = looked(use=use(quota))["vCPUs"]
        assert line.verdict.value == verdict
        assert (line.numbers["in_use"], line.numbers["wanted"], line.numbers["quota"]) == (4.0, 4, quota)
        assert ("--quota-code L-1216C47A --desired-value 10" in line.remedy) is (verdict != "pass")

    def test_a_fallback_that_cannot_serve_helps_no_one(self) -> None:
        settings = orders(fallback_instance_types=["x2gd.xlarge"])
        quotas = {**use(4.0).quotas, X.code: QuotaUse(Known(64.0), Known(0.0))}
        given = replace(use(), quotas=quotas)
        sound, arm = kind("us-east-1a"), kind("us-east-1a", architecture="arm64")
        verdicts = [
            looked(settings, use=given, fallback_types={"x2gd.xlarge": one})["vCPUs"].verdict.value
            for one in (sound, arm)
        ]
        assert verdicts == ["warn", "refuse"]

    def test_storage_is_that_of_all_volumes_of_a_type(self) -> None:
        numbers, code = looked()["EBS storage"].numbers, STORAGE["gp3"].code
        assert [numbers[f"{code}_{one}"] for one in ("in_use", "wanted", "quota")] == [1.0, 2.0, 50.0]

    def test_without_a_base_replica_nobody_knows_how_large_a_volume_is(self) -> None:
        assert looked(like={})["EBS storage"].verdict.value == "unknown"

    @pytest.mark.parametrize(
        "told", [Unknown("no answer"), NotTold("denied", "servicequotas:GetServiceQuota")]
    )
    def test_a_quota_that_is_not_told_is_unknown(self, told: Unknown) -> None:
        line = looked(use=use(told))["vCPUs"]
        assert line.verdict.value == "unknown"
        assert ("servicequotas:GetServiceQuota" in line.remedy) is isinstance(told, NotTold)


class TestPrices:
    def test_an_unknown_price_refuses_where_a_budget_is_set_and_else_warns(self) -> None:
        nowhere = price_table(orders(region="eu-west-1"), Unknown("nobody asked"), NOON)
        with_budget = looked(prices=nowhere)["prices"]
        assert with_budget.verdict.value == "refuse"
        free = orders(limits={"minimum_lifetime_minutes": 60, "prewarm_deadline_minutes": 2880})
        assert looked(free, prices=nowhere)["prices"].verdict.value == "warn"

    def test_an_hour_is_that_of_instance_and_volumes(self) -> None:
        assert looked()["prices"].numbers["hourly_usd"] > 0.126


class TestWhatIsNotTold:
    def denied(self, code: str, message: str) -> NotTold:
        def read() -> None:
            raise ClientError({"Error": {"Code": code, "Message": message}}, "GetRolePolicy")

        told = ask("iam:GetRolePolicy", read)
        assert isinstance(told, NotTold)
        return told

    def test_the_permission_is_the_one_that_aws_names(self) -> None:
        sentence = "User: a is not authorized to perform: lambda:GetFunctionConfiguration on resource: b"
        assert self.denied("AccessDeniedException", sentence).permission == "lambda:GetFunctionConfiguration"
        assert self.denied("AccessDenied", "no").permission == "iam:GetRolePolicy"

    def test_a_throttled_call_lacks_no_permission(self) -> None:
        assert self.denied("Throttling", "Rate exceeded").permission == ""

    def test_credentials_that_have_expired_end_the_command(self) -> None:
        with pytest.raises(ClientError):
            self.denied("ExpiredTokenException", "The security token included in the request is expired")


def test_without_an_instance_profile_it_is_said_who_could_reach_the_replicas() -> None:
    found = looked(orders(instance_profile=None), profile=None)
    assert found["instance profile"].verdict.value == "warn"
    assert "PassRole" not in found
