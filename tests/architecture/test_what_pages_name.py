"""What people read names only errors, metrics, states, functions, workflows and commands that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from peaker_cli.app import COMMANDS
from peaker_host.health.unit import UNIT

from peaker_contract import errors
from peaker_contract.catalogue import FUNCTIONS
from peaker_contract.metrics import EventMetric, Metric
from statemachines.structure import states
from tests.support.workflows import MACHINES

ROOT = Path(__file__).resolve().parents[2]
# What AWS answers has a page and a test of its own: test_behaviours_page.py.
OF_AWS_ALONE = ROOT / "docs" / "aws-behaviours.md"
PAGES = sorted(
    {
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        ROOT / "statemachines" / "README.md",
    }
    - {OF_AWS_ALONE, ROOT / "CHANGELOG.md"}
)
IN_CODE_FONT = re.compile(r"`([A-Z][a-z0-9]+(?:[A-Z][A-Za-z0-9]*)+)`")
# Words of AWS: calls, error codes, fields of the States Language, a policy.
OF_AWS = {
    "AdministratorAccess", "BandwidthWeighting", "CreateVolume", "DescribeCapacityReservations",
    "DescribeInstanceTypes", "DescribeInstances", "DescribeVolumes", "ErrorEquals", "GetSnapshotBlock",
    "HeartbeatSeconds", "InstanceLimitExceeded", "InsufficientInstanceCapacity", "LambdaInvoke", "ListChangedBlocks",
    "ListSnapshotBlocks", "MaxIOPSLimitExceeded", "RunInstances", "SampleCount", "TimeoutSeconds",
    "UnauthorizedOperation", "VcpuLimitExceeded", "VolumeLimitExceeded",
}  # fmt: skip
TYPED = {
    "metric": re.compile(r"--metric-name ([A-Z]\w+)"),
    "function": re.compile(
        r"(?:--function-name \"|/aws/lambda/)peaker-(?:\$PEAKER_ENV|<environment>)-([a-z_]+)"
    ),
    "workflow": re.compile(r"stateMachine:peaker-(?:\$PEAKER_ENV|<environment>)-([a-z_]+)"),
    "command": re.compile(r"^peaker ([a-z-]+)", re.MULTILINE),
}


METRICS = {one.value for one in (*Metric, *EventMetric)}
ERRORS = {name for name, one in vars(errors).items() if isinstance(one, type) and issubclass(one, Exception)}
STATES = {state.name for machine in MACHINES.values() for state in states(machine)}
KNOWN = {
    "metric": METRICS,
    "function": {one.name for one in FUNCTIONS},
    "workflow": set(MACHINES),
    "command": set(COMMANDS),
}


def unknown_names(text: str) -> set[str]:
    """Names in code font, and names in lines to type, that nothing has."""
    found = set(IN_CODE_FONT.findall(text)) - METRICS - ERRORS - STATES - OF_AWS
    for kind, pattern in TYPED.items():
        found |= {f"{kind} {name}" for name in pattern.findall(text) if name not in KNOWN[kind]}
    return found


JOURNAL = re.compile(r"journal(?:ctl\s+-u| of)\s+(peaker-[\w-]+)")


def test_a_journal_that_people_are_sent_to_is_that_of_a_unit_that_the_host_package_writes() -> None:
    """`journalctl -u` of another one shows `-- No entries --`."""
    rooms = (
        "functions/peaker",
        "host/peaker_host",
        "cli/peaker_cli",
        "peaker_contract",
        "statemachines",
        "ssm_documents",
    )
    texts = [path for room in rooms for kind in ("py", "yaml") for path in (ROOT / room).rglob(f"*.{kind}")]
    named = {unit for path in (*texts, *PAGES) for unit in JOURNAL.findall(path.read_text(encoding="utf-8"))}
    assert {unit.removesuffix(".service") for unit in named} <= {UNIT.removesuffix(".service")}
    assert (
        JOURNAL.findall("Read the journal of peaker-prewarm (journalctl\n -u peaker-prewarm)")
        == ["peaker-prewarm"] * 2
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_only_what_exists(page: Path) -> None:
    assert unknown_names(page.read_text(encoding="utf-8")) == set()


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+\.md)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).is_file(), f"{page}: {target}"
