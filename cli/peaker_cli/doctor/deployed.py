"""Checks of what watches and starts the workflows: deployed, on, and heard by somebody. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from peaker.domain.decoding import parsed_json, understood
from peaker.domain.reading import Unknown

from peaker_cli.doctor.finding import Area, Finding, Raw
from peaker_contract.cluster import ClusterSettings
from peaker_contract.errors import AwsCallRejected
from peaker_contract.names import named, of_cluster

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
    for statement in listed(policy.get("Statement")):
        if statement.get("Effect") != "Allow" or not isinstance(statement.get("Principal"), Mapping):
            continue
        patterns = [str(one) for one in listed(statement.get("Action"))]
        actions = {one for one in NEEDED_ACTIONS if any(fnmatchcase(one, pattern) for pattern in patterns)}
        names_source = "aws:source" in str(statement.get("Condition")).lower()
        for service in listed(statement["Principal"].get("Service")):
            if names_source and service == EVENTBRIDGE:
                continue
            allowed.setdefault(str(service), set()).update(actions)
    return {service for service, actions in allowed.items() if actions >= set(NEEDED_ACTIONS)}


def look_at_data_key(
    area: Area, settings: ClusterSettings, key: DataKey | Unknown | None
) -> Iterable[Finding]:
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


def listed(value: Any) -> list[Any]:
    """IAM writes a list of one as the thing itself."""
    return list(value) if isinstance(value, list) else [] if value is None else [value]


DEPLOYED = Area("deployed")
WORKFLOWS = ("scale_out", "scale_in", "roll_back")
# Of a cluster: these start workflows by their events, and these page a person.
STARTING_ALARMS = ("replica-shortage", "replica-surplus")
OPERATOR_ALARMS = (
    "forecast-degraded", "forecast-stale", "rules-cannot-be-met", "undo-incomplete", "sweep-silent",
    "replicas-held-by-floor",
)  # fmt: skip
CLUSTER_RULES = (
    "replica-shortage",
    "replica-surplus",
    "forecast",
    "replica-check",
    "sweep",
    "scheduled-check",
)
ENVIRONMENT_RULES = (
    "execution-stopped",
    "prices",
    "kept-snapshots",
    "chat",
)


@dataclass(frozen=True)
class DeployedFacts:
    """Answers by name. `subscribers` are the confirmed ones of the operators' topic."""

    workflows: Sequence[str] | Unknown
    alarms: Mapping[str, Raw] | Unknown
    rules: Mapping[str, bool] | Unknown
    subscribers: int | Unknown | None
    data_key: DataKey | Unknown | None


def look_at_deployed(settings: ClusterSettings, facts: DeployedFacts) -> list[Finding]:
    return [
        _workflows(settings, facts),
        *_alarms(settings, facts),
        _rules(settings, facts),
        *look_at_data_key(DEPLOYED, settings, facts.data_key),
    ]


def names_of(settings: ClusterSettings, wanted: Sequence[str]) -> list[str]:
    return [of_cluster(settings.environment, settings.name, one) for one in wanted]


def _deploy(settings: ClusterSettings) -> str:
    return f"npx cdk deploy -c env={settings.environment} '**'"


def _workflows(settings: ClusterSettings, facts: DeployedFacts) -> Finding:
    if isinstance(facts.workflows, Unknown):
        return DEPLOYED.unknown("workflows", facts.workflows)
    there = set(facts.workflows)
    missing = [one for one in WORKFLOWS if named(settings.environment, one) not in there]
    if missing:
        return DEPLOYED.refuses("workflows", f"not deployed: {', '.join(missing)}", _deploy(settings))
    return DEPLOYED.passes("workflows", ", ".join(WORKFLOWS))


def _alarms(settings: ClusterSettings, facts: DeployedFacts) -> Iterable[Finding]:
    if isinstance(facts.alarms, Unknown):
        yield DEPLOYED.unknown("alarms", facts.alarms)
        return
    wanted = names_of(settings, (*STARTING_ALARMS, *OPERATOR_ALARMS))
    if missing := [name for name in wanted if name not in facts.alarms]:
        yield DEPLOYED.refuses("alarms", f"not deployed: {', '.join(missing)}", _deploy(settings))
    else:
        yield DEPLOYED.passes("alarms", f"{len(wanted)} of the cluster", alarms=len(wanted))
    told = [facts.alarms[name] for name in names_of(settings, OPERATOR_ALARMS) if name in facts.alarms]
    yield _heard(told, facts.subscribers)
    for alarm in sorted(told, key=lambda one: str(one["AlarmName"])):
        if alarm["StateValue"] == "ALARM":
            name, why = alarm["AlarmName"], alarm.get("StateReason", "")
            runbook = name.removeprefix(of_cluster(settings.environment, settings.name, ""))
            yield DEPLOYED.warns(name, f"is in alarm: {why}", f"docs/runbooks/{runbook}.md")


def _heard(alarms: Sequence[Raw], subscribers: int | Unknown | None) -> Finding:
    check = "who is paged"
    if muted := [one["AlarmName"] for one in alarms if not one.get("ActionsEnabled", True)]:
        remedy = f"aws cloudwatch enable-alarm-actions --alarm-names {' '.join(muted)}"
        return DEPLOYED.warns(check, f"the actions of {', '.join(muted)} are off", remedy)
    if not alarms or any(not one.get("AlarmActions") for one in alarms):
        return DEPLOYED.warns(check, "nobody: the alarms have no action", "set alarm_email, and deploy")
    if isinstance(subscribers, Unknown):
        return DEPLOYED.unknown(check, subscribers)
    if not subscribers:
        remedy = "confirm the subscription in the mail that AWS sent to alarm_email"
        return DEPLOYED.warns(check, "nobody: the topic has no confirmed subscription", remedy, subscribers=0)
    return DEPLOYED.passes(check, f"{subscribers} confirmed subscriptions", subscribers=subscribers)


def _rules(settings: ClusterSettings, facts: DeployedFacts) -> Finding:
    if isinstance(facts.rules, Unknown):
        return DEPLOYED.unknown("rules and schedules", facts.rules)
    wanted = [
        *names_of(settings, CLUSTER_RULES),
        *(named(settings.environment, one) for one in ENVIRONMENT_RULES),
    ]
    if missing := [name for name in wanted if name not in facts.rules]:
        return DEPLOYED.refuses(
            "rules and schedules", f"not deployed: {', '.join(missing)}", _deploy(settings)
        )
    if off := [name for name in wanted if not facts.rules[name]]:
        remedy = "; ".join(f"aws events enable-rule --name {name}" for name in off)
        return DEPLOYED.warns("rules and schedules", f"paused: {', '.join(off)}", remedy)
    return DEPLOYED.passes("rules and schedules", f"{len(wanted)} on", rules=len(wanted))
