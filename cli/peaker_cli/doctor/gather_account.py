"""`peaker doctor` asks about the account here: bootstrap, image, type, quotas, prices, keys, roles. Read only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import unquote

from peaker.adapters.ec2.compute import Ec2Compute
from peaker.adapters.ec2.storage import Ec2Storage
from peaker.adapters.ec2.volume_keys import KmsVolumeKeys
from peaker.adapters.service_quotas import AwsServiceQuotas
from peaker.domain.decoding import parsed_json, understood
from peaker.domain.limits.account_limits import AccountUse
from peaker.domain.reading import Unknown
from peaker.domain.replicas.inventory import Volume
from peaker.usecases.plan.account_use import Sources, ask_account

from peaker_cli.aws_failures import unless
from peaker_cli.deployed_prices import deployed_prices
from peaker_cli.doctor.account import AWS_DEFAULT_KEY, AccountFacts, DefaultKey, Image, InstanceType
from peaker_cli.doctor.deployed import listed
from peaker_cli.doctor.finding import NotTold, Raw, ask
from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import AwsCallRejected
from peaker_contract.names import named


class AccountInquiry:
    """Asks about the account for one cluster. `client` gives boto3 clients."""

    def __init__(self, client: Callable[[str], Any], settings: ClusterSettings, now: datetime) -> None:
        self._client = client
        self._settings = settings
        self._now = now

    def facts(self, volumes: Sequence[Volume]) -> AccountFacts:
        """`volumes` are a base replica's data volumes."""
        return AccountFacts(
            bootstrap_version=ask("ssm:GetParameter", self._bootstrap),
            image=ask("ec2:DescribeImages", self._image),
            instance_type=ask("ec2:DescribeInstanceTypes", lambda: self._type(self._settings.instance_type)),
            use=self._use(),
            prices=ask("ssm:GetParameter", lambda: deployed_prices(self._client, self._settings, self._now)),
            keys=self._keys(volumes),
            default_key=ask("ec2:GetEbsEncryptionByDefault", self._default_key),
            profile=ask("iam:GetInstanceProfile", self._profile),
            passes=ask("iam:GetRolePolicy", self._passes),
            fallback_types={
                name: ask("ec2:DescribeInstanceTypes", lambda n=name: self._type(n))  # type: ignore[misc]
                for name in self._settings.fallback_instance_types
            },
        )

    def _bootstrap(self) -> int | None:
        ssm, name = self._client("ssm"), f"/cdk-bootstrap/{self._settings.bootstrap_qualifier}/version"
        found = unless(["ParameterNotFound"], lambda: ssm.get_parameter(Name=name))
        return None if found is None else int(found["Parameter"]["Value"])

    def _image(self) -> Image | None:
        ec2, wanted = self._client("ec2"), self._settings.image_id
        missing = ["InvalidAMIID.NotFound", "InvalidAMIID.Unavailable", "InvalidAMIID.Malformed"]
        answer = unless(missing, lambda: ec2.describe_images(ImageIds=[wanted]))
        found = answer["Images"] if answer else []
        if not found:
            return None
        devices = Ec2Compute(ec2, self._settings.environment).image_devices(wanted)
        return Image(found[0]["State"], found[0]["Architecture"], tuple(devices))

    def _type(self, wanted: str) -> InstanceType | None:
        ec2 = self._client("ec2")
        answer = unless(["InvalidInstanceType"], lambda: ec2.describe_instance_types(InstanceTypes=[wanted]))
        if not answer or not answer["InstanceTypes"]:
            return None
        filters = [{"Name": "instance-type", "Values": [wanted]}]
        pages = ec2.get_paginator("describe_instance_type_offerings").paginate(
            LocationType="availability-zone", Filters=filters
        )
        zones = tuple(one["Location"] for page in pages for one in page["InstanceTypeOfferings"])
        kind = answer["InstanceTypes"][0]
        return InstanceType(
            kind["VCpuInfo"]["DefaultVCpus"],
            tuple(kind["ProcessorInfo"]["SupportedArchitectures"]),
            zones,
            kind["MemoryInfo"]["SizeInMiB"],
        )

    def _use(self) -> AccountUse:
        """Counts the account's use as a plan does; resources that runs are about to make are in no list yet."""
        ec2, environment = self._client("ec2"), self._settings.environment
        compute = Ec2Compute(ec2, environment)
        sources = Sources(
            compute.on_demand_instances,
            compute.default_vcpus,
            compute.capacity_reservations,
            Ec2Storage(ec2, ec2, environment).volumes_of_type,
            AwsServiceQuotas(self._client("service-quotas")).value,
        )
        return ask_account(sources, self._settings, (), ask)

    def _keys(self, volumes: Sequence[Volume]) -> dict[str, str | Unknown | None]:
        """AWS's own key of a volume is usable like a named one: it is not told apart before it is asked."""
        wanted = {
            *self._settings.kms_key_arns,
            *(one.kms_key_id for one in volumes if one.kms_key_id),
            *self._image_keys(),
        }
        keys = KmsVolumeKeys(self._client("kms")) if wanted else None
        return {
            arn: _unless_denied(ask("kms:DescribeKey", lambda a=arn: keys.why_not_usable(a, self._settings)))  # type: ignore[misc]
            for arn in sorted(wanted)
            if keys is not None
        }

    def _default_key(self) -> DefaultKey | None:
        ec2 = self._client("ec2")
        if not ec2.get_ebs_encryption_by_default()["EbsEncryptionByDefault"]:
            return None
        key_id = str(ec2.get_ebs_default_kms_key_id()["KmsKeyId"])
        if key_id.endswith(AWS_DEFAULT_KEY):
            return DefaultKey(key_id, None)
        keys = KmsVolumeKeys(self._client("kms"))
        asked = ask("kms:DescribeKey", lambda: keys.why_not_usable(key_id, self._settings))
        return DefaultKey(key_id, _unless_denied(asked))

    def _image_keys(self) -> Sequence[str]:
        """Returns the keys of the image's snapshots; none where the image is missing or another account owns them."""
        compute = Ec2Compute(self._client("ec2"), self._settings.environment)
        found = ask("ec2:DescribeImages", lambda: compute.image_keys(self._settings.image_id))
        return () if isinstance(found, Unknown) else found

    def _profile(self) -> Raw | None:
        iam, name = self._client("iam"), self._settings.instance_profile
        if name is None:
            return None
        answer = unless(["NoSuchEntity"], lambda: iam.get_instance_profile(InstanceProfileName=name))
        return answer["InstanceProfile"] if answer else None

    def _passes(self) -> list[str]:
        """The roles that the deployed function launch_replica may pass, by the policies of its own role."""
        name = named(self._settings.environment, "launch_replica")
        role = self._client("lambda").get_function_configuration(FunctionName=name)["Role"].rsplit("/", 1)[-1]
        iam, found = self._client("iam"), []
        for page in iam.get_paginator("list_role_policies").paginate(RoleName=role):
            for policy in page["PolicyNames"]:
                document = iam.get_role_policy(RoleName=role, PolicyName=policy)["PolicyDocument"]
                found += list(_passed(document))
        return found


def _passed(document: Mapping[str, Any] | str) -> Iterator[str]:
    """Resources of the statements that allow iam:PassRole. IAM gives the document decoded, or percent-encoded.

    Raises AwsCallRejected for what is no policy.
    """
    with understood(AwsCallRejected, "iam:GetRolePolicy: the document"):
        yield from list(_resources(document))


def _resources(document: Mapping[str, Any] | str) -> Iterator[str]:
    whole = parsed_json(unquote(document)) if isinstance(document, str) else document
    for one in listed(whole["Statement"]):
        if one.get("Effect") == "Allow" and "iam:PassRole" in listed(one.get("Action")):
            yield from listed(one.get("Resource"))


def _unless_denied(why: str | Unknown | None) -> str | Unknown | None:
    """Returns a denied answer as NotTold: the functions may have rights that a person lacks."""
    if isinstance(why, str) and "AccessDenied" in why:
        return NotTold(f"{why}; `peaker plan` tries it as its function", why.split(": ")[0])
    return why
