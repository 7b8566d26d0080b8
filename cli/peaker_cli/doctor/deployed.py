"""These checks find whether the parts that watch and start the workflows are deployed, on, and heard by
somebody. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from peaker.domain.reading import Unknown

from peaker_cli.doctor.data_key import DataKey, look_at_data_key
from peaker_cli.doctor.finding import Area, Finding
from peaker_contract.cluster import ClusterSettings
from peaker_contract.names import named, of_cluster

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
)


@dataclass(frozen=True)
class DeployedAlarm:
    """An alarm; `actions` are the ARNs that it tells."""

    name: str
    state: str
    reason: str
    actions_enabled: bool
    actions: tuple[str, ...]


@dataclass(frozen=True)
class DeployedFacts:
    """These answers are by name. `subscribers` are the confirmed ones of the operators' topic."""

    workflows: Sequence[str] | Unknown
    alarms: Mapping[str, DeployedAlarm] | Unknown
    rules: Mapping[str, bool] | Unknown
    subscribers: int | Unknown | None
    data_key: DataKey | Unknown | None


def look_at_deployed(settings: ClusterSettings, facts: DeployedFacts) -> list[Finding]:
    """Workflows, alarms, who hears them, rules and schedules, and the key of what is kept."""
    return [
        _workflows(settings, facts),
        *_alarms(settings, facts),
        _rules(settings, facts),
        *look_at_data_key(DEPLOYED, settings, facts.data_key),
    ]


def names_of(settings: ClusterSettings, wanted: Sequence[str]) -> list[str]:
    """Full names of what is the cluster's own."""
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
    for alarm in sorted(facts.alarms.values(), key=lambda one: one.name):
        if alarm.state == "ALARM" and alarm.name in names_of(settings, OPERATOR_ALARMS):
            runbook = alarm.name.removeprefix(of_cluster(settings.environment, settings.name, ""))
            yield DEPLOYED.warns(alarm.name, f"is in alarm: {alarm.reason}", f"docs/runbooks/{runbook}.md")


def _heard(alarms: Sequence[DeployedAlarm], subscribers: int | Unknown | None) -> Finding:
    check = "who is paged"
    if muted := [one.name for one in alarms if not one.actions_enabled]:
        remedy = f"aws cloudwatch enable-alarm-actions --alarm-names {' '.join(muted)}"
        return DEPLOYED.warns(check, f"the actions of {', '.join(muted)} are off", remedy)
    if not alarms or any(not one.actions for one in alarms):
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
