"""This check tells whether AWS's services may use the key of the environment's data (`data_key_arn`): its
state, its policy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from peaker.domain.decoding import parsed_json, understood
from peaker.domain.reading import Unknown

from peaker_cli.doctor.finding import Area, Finding
from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import AwsCallRejected

CHECK = "data key"
EVENTBRIDGE = "events.amazonaws.com"
AWS_TOPIC_KEY = "alias/aws/sns"
# What a service that acts as itself calls on the key, and what does not work without it.
NEEDED_ACTIONS = ("kms:GenerateDataKey", "kms:Decrypt")
NEEDED_SERVICES: Mapping[str, str] = {
    "cloudwatch.amazonaws.com": "alarms page nobody",
    EVENTBRIDGE: "what EventBridge cannot deliver is lost",
    "sns.amazonaws.com": "a page that no mail server takes is lost",
    "logs.{region}.amazonaws.com": "no log group can be made under it",
}


@dataclass(frozen=True)
class DataKey:
    """`services`: whom its policy lets in. `deletion_at` where it is pending deletion."""

    arn: str
    state: str
    services: Sequence[str]
    deletion_at: str = ""


def read_data_key(client: Callable[[str], Any], topic_arn: str) -> DataKey | None:
    """The key of the operators' topic; None where that is AWS's own."""
    attributes = client("sns").get_topic_attributes(TopicArn=topic_arn)["Attributes"]
    key_id = attributes.get("KmsMasterKeyId", "")
    if not key_id or key_id.endswith(AWS_TOPIC_KEY):
        return None
    kms = client("kms")
    key = kms.describe_key(KeyId=key_id)["KeyMetadata"]
    policy = kms.get_key_policy(KeyId=key_id, PolicyName="default")["Policy"]
    deletion = key.get("DeletionDate")
    at = f"{deletion:%Y-%m-%d}" if deletion else ""
    return DataKey(key["Arn"], key["KeyState"], sorted(services_let_in(policy)), at)


def services_let_in(policy: str) -> set[str]:
    """The service principals that some statement allows all of NEEDED_ACTIONS.

    Conditions are not weighed, but for one that shuts EventBridge out always: it tells KMS no source of its call.
    Raises AwsCallRejected for what is no policy.
    """
    with understood(AwsCallRejected, "kms:GetKeyPolicy: the document"):
        return _let_in(parsed_json(policy))


def _let_in(policy: Mapping[str, Any]) -> set[str]:
    allowed: dict[str, set[str]] = {}
    for statement in _listed(policy.get("Statement")):
        if statement.get("Effect") != "Allow" or not isinstance(statement.get("Principal"), Mapping):
            continue
        patterns = [str(one) for one in _listed(statement.get("Action"))]
        actions = {one for one in NEEDED_ACTIONS if any(fnmatchcase(one, pattern) for pattern in patterns)}
        names_source = "aws:source" in str(statement.get("Condition")).lower()
        for service in _listed(statement["Principal"].get("Service")):
            if names_source and service == EVENTBRIDGE:
                continue
            allowed.setdefault(str(service), set()).update(actions)
    return {service for service, actions in allowed.items() if actions >= set(NEEDED_ACTIONS)}


def look_at_data_key(
    area: Area, settings: ClusterSettings, key: DataKey | Unknown | None
) -> Iterable[Finding]:
    """One line where there is such a key."""
    if key is None:
        return
    if isinstance(key, Unknown):
        yield area.unknown(CHECK, key)
        return
    if key.state != "Enabled":
        until = f" and goes on {key.deletion_at}" if key.deletion_at else ""
        remedy = f"aws kms cancel-key-deletion --key-id {key.arn}; aws kms enable-key --key-id {key.arn}"
        yield area.refuses(
            CHECK, f"{key.arn} is {key.state}{until}: topic, queues, logs and ledger with it", remedy
        )
        return
    needed = {one.format(region=settings.region): why for one, why in NEEDED_SERVICES.items()}
    missing = {one: why for one, why in needed.items() if one not in key.services}
    if missing:
        detail = "; ".join(f"{one} is not let in: {why}" for one, why in missing.items())
        remedy = f"add to its policy what `python -m stacks.data_key {settings.environment}` prints"
        yield area.refuses(CHECK, f"the policy of {key.arn}: {detail}", remedy)
        return
    yield area.passes(CHECK, f"{key.arn} is enabled and lets {', '.join(needed)} in")


def _listed(value: Any) -> list[Any]:
    """IAM writes a list of one as the thing itself."""
    return list(value) if isinstance(value, list) else [] if value is None else [value]
