"""Checks of the account: bootstrap, quotas, prices, keys, image, type, instance profile. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from peaker.domain.limits.account_limits import AccountUse
from peaker.domain.planning.checks.account_quotas import EBS_STORAGE, Launches, ebs_storage, vcpus
from peaker.domain.planning.plan_refusals import taken_devices
from peaker.domain.prices.price_table import PriceTable
from peaker.domain.reading import Unknown
from peaker.domain.replicas.data_volumes import planned_volumes
from peaker.domain.replicas.inventory import Volume

from peaker_cli.doctor.finding import Area, Finding, Raw, Verdict
from peaker_contract.cluster import ClusterSettings
from peaker_contract.field_types import DEFAULT_BOOTSTRAP_QUALIFIER

ACCOUNT = Area("account")
# What the templates of the pinned CDK ask of the bootstrap (rule CheckBootstrapVersion).
BOOTSTRAP_VERSION = 6
_BOOTSTRAP = "npx cdk bootstrap -c env={environment}"


@dataclass(frozen=True)
class InstanceType:
    """An instance type as EC2 describes it. `zones` are those that offer it."""

    vcpus: int
    architectures: tuple[str, ...]
    zones: tuple[str, ...]
    memory_mib: int


@dataclass(frozen=True)
class Image:
    """An image as EC2 describes it."""

    state: str
    architecture: str
    devices: tuple[str, ...] = ()


# Of an account that never chose another one; its policy lets in whoever may use EBS.
AWS_DEFAULT_KEY = "alias/aws/ebs"


@dataclass(frozen=True)
class DefaultKey:
    """The key under which EBS puts every new volume that has none; `why_not` is why EBS could not use it."""

    key_id: str
    why_not: str | Unknown | None


@dataclass(frozen=True)
class AccountFacts:
    """These answers describe the account; None is AWS's `there is none`.

    `use` is what it may have of EC2 and EBS, and has; `keys` by ARN with why EBS could not use it. `passes` are
    the roles that launch_replica may pass. `default_key` is None where new volumes are not encrypted by default.
    `fallback_types` are the settings' other types, by name.
    """

    bootstrap_version: int | Unknown | None
    image: Image | Unknown | None
    instance_type: InstanceType | Unknown | None
    use: AccountUse
    prices: PriceTable | Unknown
    keys: Mapping[str, str | Unknown | None]
    default_key: DefaultKey | Unknown | None
    profile: Raw | Unknown | None
    passes: Sequence[str] | Unknown
    fallback_types: Mapping[str, InstanceType | Unknown | None] = field(default_factory=dict)


def look_at_account(
    settings: ClusterSettings, facts: AccountFacts, room: int, like: Mapping[str, Volume]
) -> list[Finding]:
    """`room` is how many replicas may still be built; `like` are a base replica's data volumes by name."""
    return [
        _bootstrap(settings, facts),
        _image(settings, facts),
        _type(settings, facts),
        *_fallback_types(settings, facts),
        *_quotas(settings, facts, room, like),
        _prices(settings, facts, like),
        *_keys(settings, facts, like),
        _default_key(settings, facts),
        *_profile(settings, facts),
    ]


def _bootstrap(settings: ClusterSettings, facts: AccountFacts) -> Finding:
    version, check = facts.bootstrap_version, "bootstrap"
    remedy, qualifier = _BOOTSTRAP.format(environment=settings.environment), settings.bootstrap_qualifier
    if qualifier != DEFAULT_BOOTSTRAP_QUALIFIER:
        remedy += f" --qualifier {qualifier}"
    if isinstance(version, Unknown):
        return ACCOUNT.unknown(check, version)
    if version is None:
        detail = f"CDK is not bootstrapped in {settings.region} with the qualifier {qualifier}"
        return ACCOUNT.refuses(check, detail, f"{remedy}; if it has another one, set bootstrap_qualifier")
    if version < BOOTSTRAP_VERSION:
        detail = f"version {version} of CDK's bootstrap, needed is {BOOTSTRAP_VERSION}"
        return ACCOUNT.refuses(check, detail, remedy, version=version, needed=BOOTSTRAP_VERSION)
    return ACCOUNT.passes(check, f"version {version}, needed is {BOOTSTRAP_VERSION}", version=version)


def _image(settings: ClusterSettings, facts: AccountFacts) -> Finding:
    image, check = facts.image, "image"
    if isinstance(image, Unknown):
        return ACCOUNT.unknown(check, image)
    remedy = "set image_id to an image of this account and region, and deploy"
    if image is None:
        return ACCOUNT.refuses(check, f"there is no {settings.image_id} in {settings.region}", remedy)
    if image.state != "available":
        return ACCOUNT.refuses(check, f"{settings.image_id} is {image.state}", remedy)
    if taken := taken_devices(image.devices, settings.volumes):
        detail = f"{settings.image_id} {'; '.join(taken)}"
        return ACCOUNT.refuses(check, detail, "change `device` of these volumes, and deploy")
    kind = facts.instance_type
    if isinstance(kind, InstanceType) and image.architecture not in kind.architectures:
        return ACCOUNT.refuses(
            check,
            f"{settings.image_id} is {image.architecture}, {settings.instance_type} is {', '.join(kind.architectures)}",
            "set image_id or instance_type so that both are of one architecture, and deploy",
        )
    return ACCOUNT.passes(check, f"{settings.image_id} is available, {image.architecture}")


def _type(settings: ClusterSettings, facts: AccountFacts) -> Finding:
    kind, check, name = facts.instance_type, "instance type", settings.instance_type
    if isinstance(kind, Unknown):
        return ACCOUNT.unknown(check, kind)
    remedy = "set instance_type, or subnets of other zones, and deploy"
    if kind is None:
        return ACCOUNT.refuses(check, f"EC2 knows no {name} in {settings.region}", remedy)
    missing = sorted(set(settings.subnets) - set(kind.zones))
    if missing:
        detail = f"{name} is not offered in {', '.join(missing)}"
        if len(missing) == len(settings.subnets):
            return ACCOUNT.refuses(check, detail, remedy)
        return ACCOUNT.warns(check, f"{detail}; the other zones serve", remedy)
    return ACCOUNT.passes(check, f"{name}, {kind.vcpus} vCPUs, in every zone", vcpus=kind.vcpus)


def _fallback_types(settings: ClusterSettings, facts: AccountFacts) -> Iterable[Finding]:
    """One that cannot serve is left out of every plan, so it only warns."""
    for name, kind in facts.fallback_types.items():
        check, remedy = f"fallback {name}", f"take {name} out of fallback_instance_types, and deploy"
        usual = facts.instance_type
        if isinstance(kind, Unknown):
            yield ACCOUNT.unknown(check, kind)
        elif kind is None:
            yield ACCOUNT.warns(check, f"EC2 knows no {name} in {settings.region}", remedy)
        elif not set(kind.zones) & set(settings.subnets):
            yield ACCOUNT.warns(check, f"{name} is offered in none of {', '.join(settings.subnets)}", remedy)
        elif isinstance(usual, InstanceType) and not set(kind.architectures) & set(usual.architectures):
            told = f"{name} is {', '.join(kind.architectures)}, {settings.instance_type} is "
            yield ACCOUNT.warns(check, f"{told}{', '.join(usual.architectures)}", remedy)
        elif isinstance(usual, InstanceType) and kind.memory_mib < usual.memory_mib:
            told = f"{name} has {kind.memory_mib:,} MiB of memory, {settings.instance_type} has "
            yield ACCOUNT.warns(check, f"{told}{usual.memory_mib:,}", remedy)
        else:
            offered = sorted(set(kind.zones) & set(settings.subnets))
            yield ACCOUNT.passes(check, f"{name}, {kind.vcpus} vCPUs, in {', '.join(offered)}")


def _quotas(
    settings: ClusterSettings, facts: AccountFacts, room: int, like: Mapping[str, Volume]
) -> Iterable[Finding]:
    """Checks the quotas for all replicas that may still be built; a fallback that cannot serve is none."""
    sound = [one.check for one in _fallback_types(settings, facts) if one.verdict is Verdict.PASS]
    fallbacks = [one for one in settings.fallback_instance_types if f"fallback {one}" in sound]
    yield ACCOUNT.of_check(
        vcpus(Launches((settings.instance_type, *fallbacks), room), facts.use), facts.use.unknowns
    )
    if missing := [one.name for one in settings.volumes if one.name not in like]:
        yield ACCOUNT.unknown(
            EBS_STORAGE, Unknown(f"no base replica shows how large {', '.join(missing)} is")
        )
        return
    volumes = planned_volumes(like, settings, None)
    yield ACCOUNT.of_check(ebs_storage(volumes, room, facts.use), facts.use.unknowns)


def _prices(settings: ClusterSettings, facts: AccountFacts, like: Mapping[str, Volume]) -> Finding:
    table, check = facts.prices, "prices"
    if isinstance(table, Unknown):
        return ACCOUNT.unknown(check, table)
    hour = table.instance_hour(settings.instance_type)
    volumes = [
        table.volume_hour(one.volume_type, like[one.name].size_gib, one.iops, one.throughput_mib_per_s)
        for one in settings.volumes
        if one.name in like
    ]
    unknown = [one.why for one in (hour, *volumes) if isinstance(one, Unknown)]
    if not unknown and not isinstance(hour, Unknown):
        total = hour.value + sum(one.value for one in volumes if not isinstance(one, Unknown))
        detail = f"{settings.instance_type} with its volumes: ${total:.4f} an hour by {table.source}"
        return ACCOUNT.passes(check, detail, hourly_usd=round(total, 4))
    remedy = "set instance_hourly_usd, or let Peaker's function refresh_prices reach the Price List API"
    told = "; ".join(dict.fromkeys(unknown))
    if settings.limits.max_hourly_cost_usd is not None:
        return ACCOUNT.refuses(check, f"{told}; a plan refuses, because max_hourly_cost_usd is set", remedy)
    return ACCOUNT.warns(check, told, remedy)


def _keys(settings: ClusterSettings, facts: AccountFacts, like: Mapping[str, Volume]) -> Iterable[Finding]:
    if not facts.keys:
        yield ACCOUNT.passes("keys", "no customer-managed key is named or used")
    for arn, why in sorted(facts.keys.items()):
        check = f"key {arn.rsplit('/', 1)[-1]}"
        of = ", ".join(volume.volume_id for volume in like.values() if volume.kms_key_id == arn)
        held = f" ({of} is under it)" if of else ""
        if isinstance(why, Unknown):
            yield ACCOUNT.unknown(check, why)
        elif why is None:
            yield ACCOUNT.passes(
                check, f"EBS could use {arn}{held}, as you are; a plan tries it as its function"
            )
        else:
            yield ACCOUNT.refuses(
                check, f"{arn}{held}: {why}", f"name it in kms_key_arns of {settings.name}, enable it, let its key "
                "policy allow the account's IAM policies, and deploy"
            )  # fmt: skip


def _default_key(settings: ClusterSettings, facts: AccountFacts) -> Finding:
    """Checks the key of volumes and root volumes without one of their own; one that EBS cannot use vanishes."""
    key, check = facts.default_key, "default encryption"
    if isinstance(key, Unknown):
        return ACCOUNT.unknown(check, key)
    if key is None:
        return ACCOUNT.passes(check, "new volumes are encrypted where their snapshot is")
    if key.why_not is None or key.key_id.endswith(AWS_DEFAULT_KEY):
        return ACCOUNT.passes(check, f"new volumes are put under {key.key_id}, which EBS could use")
    named = key.key_id in settings.kms_key_arns
    why = key.why_not.why if isinstance(key.why_not, Unknown) else key.why_not
    if named and isinstance(key.why_not, Unknown):
        return ACCOUNT.unknown(check, key.why_not)
    return ACCOUNT.refuses(
        check, f"new volumes are put under {key.key_id}, the account's default key of EBS: {why}",
        f"name it in kms_key_arns of {settings.name}, enable it, let its key policy allow the account's IAM policies, "
        "and deploy; or take another default: aws ec2 modify-ebs-default-kms-key-id",
    )  # fmt: skip


def _profile(settings: ClusterSettings, facts: AccountFacts) -> Iterable[Finding]:
    name, profile, check = settings.instance_profile, facts.profile, "instance profile"
    if name is None:
        yield ACCOUNT.warns(
            check,
            "the settings name none: only Systems Manager's default host management could reach the replicas",
            "set instance_profile to one with the permission set `host`, and deploy",
        )
        return
    if isinstance(profile, Unknown):
        yield ACCOUNT.unknown(check, profile)
        return
    if profile is None or not profile["Roles"]:
        what = f"there is no instance profile {name}" if profile is None else f"{name} holds no role"
        remedy = (
            "make it, with a role that has AmazonSSMManagedInstanceCore: aws iam create-instance-profile, "
        )
        yield ACCOUNT.refuses(check, what, f"{remedy}aws iam add-role-to-instance-profile")
        return
    role_arn = str(profile["Roles"][0]["Arn"])
    yield ACCOUNT.passes(check, f"{name} holds {role_arn}")
    yield _pass_role(role_arn, facts.passes)


def _pass_role(role_arn: str, passed: Sequence[str] | Unknown) -> Finding:
    if isinstance(passed, Unknown):
        return ACCOUNT.unknown("PassRole", passed)
    if any(fnmatchcase(role_arn, pattern) for pattern in passed):
        return ACCOUNT.passes("PassRole", f"launch_replica may pass {role_arn}")
    named = ", ".join(passed) or "no role"
    detail = f"launch_replica may pass {named}, and the instance profile holds {role_arn}"
    remedy = f"set instance_role_arn: {role_arn} in the environment's file, and deploy"
    return ACCOUNT.refuses("PassRole", detail, remedy)
