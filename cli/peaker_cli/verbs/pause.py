"""`peaker pause` and `peaker resume`: whether a cluster's rules start runs, and its alarms page."""

from __future__ import annotations

from peaker_cli.asking import Yes, agree
from peaker_cli.control_plane import ControlPlane
from peaker_cli.deployment import DeploymentOptions
from peaker_cli.printing import AsJson, echo, echo_json
from peaker_cli.status.gather import StatusReader
from peaker_contract.names import STARTING_RULES, of_cluster

EPILOG = "Examples: peaker pause orders --env prod; peaker resume orders --yes"
# Pages that a paused cluster would send for no reason.
_MUTED = ("forecast-degraded", "rules-cannot-be-met")


def pause_command(
    cluster: str, deployment: DeploymentOptions, yes: Yes = False, as_json: AsJson = False
) -> None:
    """Let no alarm and no schedule start a run of CLUSTER. Its replicas serve on, and a run at work goes on."""
    _switch(ControlPlane.of(deployment), cluster, False, yes, as_json)


def resume_command(
    cluster: str, deployment: DeploymentOptions, yes: Yes = False, as_json: AsJson = False
) -> None:
    """Let CLUSTER's rules start runs again, every one of them that is disabled, and its alarms page."""
    _switch(ControlPlane.of(deployment), cluster, True, yes, as_json)


def _switch(control: ControlPlane, cluster: str, on: bool, yes: bool, as_json: bool) -> None:
    """Does all of it each time: what is as it should be already stays so."""
    reader = StatusReader(control)
    reader.settings(cluster)
    starting = {of_cluster(control.environment, cluster, one) for one in STARTING_RULES}
    enabled = reader.rules(cluster)
    rules = sorted(name for name, is_on in enabled.items() if is_on is not on and (on or name in starting))
    alarms = [of_cluster(control.environment, cluster, one) for one in _MUTED]
    does = "enables" if on else "disables"
    told = [f"{does} the rule {name}" for name in rules] or [f"no rule of {cluster} is left to be switched"]
    for line in (*told, f"{does} the actions of the alarms {', '.join(alarms)}"):
        echo(line, err=as_json)
    agree(f"{'Resume' if on else 'Pause'} {cluster}?", yes)
    events, cloudwatch = control.client("events"), control.client("cloudwatch")
    for name in rules:
        (events.enable_rule if on else events.disable_rule)(Name=name)
    (cloudwatch.enable_alarm_actions if on else cloudwatch.disable_alarm_actions)(AlarmNames=alarms)
    state = "resumed" if on else "paused"
    if as_json:
        echo_json({"cluster": cluster, "state": state, "rules": rules, "alarms": alarms})
    else:
        echo(f"{cluster} is {state}; {control.line('status' if on else 'resume', cluster)}")
