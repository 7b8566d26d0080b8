"""`peaker doctor`: what the first run of a cluster would fail on, before it begins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from peaker.adapters.ssm.commands import SsmCommands
from peaker.domain.reading import Unknown
from peaker.domain.replicas.data_volumes import data_volumes
from peaker.domain.replicas.inventory import Instance, Volume
from rich.console import RenderableType
from rich.text import Text

from peaker_cli.control_plane import ControlPlane
from peaker_cli.deployment import DeploymentOptions
from peaker_cli.doctor.account import look_at_account
from peaker_cli.doctor.deployed import look_at_deployed
from peaker_cli.doctor.endpoint import look_at_endpoint
from peaker_cli.doctor.finding import Finding, Verdict
from peaker_cli.doctor.gather import Inquiry
from peaker_cli.doctor.hosts import HostLook, base_replicas, look_at_host, look_at_hosts, sources_of
from peaker_cli.doctor.metrics import look_at_metrics
from peaker_cli.doctor.network import look_at_network
from peaker_cli.failures import ControlPlaneError
from peaker_cli.printing import AsJson, OneOrAll, console, echo, echo_json, progress, table_of
from peaker_cli.status.gather import StatusReader
from peaker_contract.cluster import ClusterSettings
from peaker_contract.names import ROLE_TAG

EPILOG = "Examples: peaker doctor orders --env prod; peaker doctor --env prod --json"
_STYLES = {Verdict.PASS: "green", Verdict.WARN: "yellow", Verdict.REFUSE: "red", Verdict.UNKNOWN: "magenta"}
# Replicas that count against max_replicas (domain/planning/plan.py); parked ones are stopped.
_COUNTED = ("pending", "running")


@dataclass(frozen=True)
class Diagnosis:
    """Every finding of one cluster, in the order in which it was looked at."""

    cluster: str
    environment: str
    region: str
    findings: tuple[Finding, ...]

    @property
    def refused(self) -> list[Finding]:
        return [one for one in self.findings if one.verdict is Verdict.REFUSE]

    @property
    def counts(self) -> Counter[str]:
        return Counter(one.verdict.value for one in self.findings)

    def document(self) -> dict[str, Any]:
        counts = self.counts
        return {
            "cluster": self.cluster,
            "environment": self.environment,
            "region": self.region,
            "verdict": "refuse" if self.refused else "warn" if counts["warn"] else "pass",
            "counts": {one.value: counts[one.value] for one in Verdict},
            "findings": [asdict(one) for one in self.findings],
        }


def doctor_command(
    deployment: DeploymentOptions,
    cluster: OneOrAll = None,
    as_json: AsJson = False,
) -> None:
    """Say what the first run of CLUSTER would fail on: account, network, hosts, read endpoint, metrics.

    Each line is pass, warn, refuse, or unknown where AWS would not tell; status 1 when one is refused.
    Nothing is changed. Without CLUSTER all of them, the worst first.
    """
    control = ControlPlane.of(deployment)
    reader = StatusReader(control)
    found = sorted(
        (diagnose(control, reader.settings(name)) for name in reader.deployed(cluster)),
        key=lambda one: (-len(one.refused), -one.counts["warn"], -one.counts["unknown"]),
    )
    if as_json:
        documents = [one.document() for one in found]
        echo_json(documents if cluster is None else documents[0])
    else:
        for one in found:
            echo(verdict_line(one))
            console().print(render(one))
            for line in remedies(one.findings):
                echo(line)
    if refused := [one for one in found if one.refused]:
        raise ControlPlaneError("; ".join(map(verdict_line, refused)))


def diagnose(control: ControlPlane, settings: ClusterSettings) -> Diagnosis:
    """Ask AWS and the hosts, and judge. Raises ControlPlaneError and AWS's errors about credentials."""
    inquiry = Inquiry(control.client, settings, control.clock.now())
    progress("looking at the hosts")
    instances = inquiry.instances()
    known = [] if isinstance(instances, Unknown) else instances
    looks = _look_at_hosts(control, inquiry, settings, known)
    like = _volumes_of_a_donor(settings, looks)
    running = [look.replica.instance_id for look in looks]
    source = next((one.instance_id for one in sources_of(known)), None)
    room = max(0, settings.max_replicas - _counted(known))
    progress("looking at the account")
    account = look_at_account(settings, inquiry.account(list(like.values())), room, like)
    progress("looking at read endpoint and network")
    endpoint = inquiry.endpoint()
    network = look_at_network(settings, inquiry.network(running, source, endpoint), room)
    progress("looking at metrics, alarms and schedules")
    findings = (
        *account,
        *network,
        *look_at_hosts(settings, instances, looks),
        *look_at_endpoint(settings, endpoint, running),
        *look_at_metrics(settings, inquiry.metrics()),
        *look_at_deployed(settings, inquiry.deployed()),
    )
    return Diagnosis(settings.name, settings.environment, control.region, findings)


def render(diagnosis: Diagnosis) -> RenderableType:
    rows = (
        (Text(one.verdict.value, style=_STYLES[one.verdict]), Text(f"{one.area}: {one.check}: {one.detail}"))
        for one in diagnosis.findings
    )
    return table_of(("verdict", "area, check and what was found"), rows, whole=("verdict",))


def remedies(findings: Sequence[Finding]) -> list[str]:
    """Lists the remedies of findings that do not pass, the refused first; lines of their own, to be copied."""
    rank = {Verdict.REFUSE: 0, Verdict.WARN: 1, Verdict.UNKNOWN: 2}
    wrong = sorted((one for one in findings if one.verdict in rank), key=lambda one: rank[one.verdict])
    return [f"\n{one.area}: {one.check}: {one.remedy}" for one in wrong if one.remedy]


def verdict_line(diagnosis: Diagnosis) -> str:
    """The first line: whether a run would fail, and on what."""
    if diagnosis.refused:
        named = ", ".join(f"{one.area}: {one.check}" for one in diagnosis.refused)
        return f"a run of {diagnosis.cluster} would fail: {len(diagnosis.refused)} refused ({named})"
    counts = diagnosis.counts
    others = ", ".join(f"{counts[name]} {name}" for name in ("warn", "unknown") if counts[name])
    told = f" ({others})" if others else ""
    return f"nothing found that a run of {diagnosis.cluster} would fail on{told}; what it would build: peaker plan"


def _look_at_hosts(
    control: ControlPlane, inquiry: Inquiry, settings: ClusterSettings, instances: Sequence[Instance]
) -> list[HostLook]:
    """Looks at the running base replicas. The source is never asked: nothing of Peaker's runs there."""
    ssm = control.client("ssm")
    commands = SsmCommands(ssm, ssm, control.environment)
    looks = []
    for one in base_replicas(instances):
        if one.state == "running":
            name = one.instance_id
            progress(f"looking at {name}")
            looks.append(look_at_host(commands, settings, one, inquiry.volumes(name), inquiry.agent(name)))
    return looks


def _volumes_of_a_donor(settings: ClusterSettings, looks: Sequence[HostLook]) -> Mapping[str, Volume]:
    """Returns the volumes of the base replica that shows most of them: a peak replica's will be like these."""
    found = (data_volumes(look.replica, settings.volumes) for look in looks)
    return max(found, key=len, default={})


def _counted(instances: Sequence[Instance]) -> int:
    return sum(one.tags.get(ROLE_TAG) == "replica" and one.state in _COUNTED for one in instances)
