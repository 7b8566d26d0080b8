"""Every command that a page tells people to type is run by a test, or is known not to be, with the reason."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.pages import FIRST_HOUR, PAGES, ROOT, RUNBOOKS, name_of, typed_lines
from tests.support.situations import Person

SETUP = "tests/installation/test_setup.py"
WATCH = "tests/cli/test_status.py"
BY_HAND = "tests/cli/test_by_hand.py"
SERVER = "packages/localcloud/tests/server/test_server.py"
# What runs a line of this form. The first that fits counts.
RUN_BY: dict[str, str] = {
    r"scripts/setup (deploy|local)$": SETUP,
    r"scripts/synth (prod|local)$": "tests/infrastructure/test_synth.py",
    r"npx cdk (bootstrap|deploy|destroy) -c env=prod": "tests/installation/test_setup.py",
    r"peaker init --env prod": "tests/deployed/test_init.py",
    r"peaker watch orders": WATCH,
    r"peaker rehearse orders": "tests/cli/test_rehearse.py",
    r"peaker allow-removal orders": "tests/deployed/test_first_hour.py",
    r"peaker knee ": "tests/unit/cli/test_storage_commands.py",
    r"peaker --install-completion$": "tests/installation/test_wheel.py",
    r"pip wheel --no-deps \.$": "tests/installation/test_wheel.py",
    r"python3 -m venv venv|venv/bin/": "packages/localcloud/tests/server/test_first_run.py",
    r"python -m localcloud serve --dataplane simulated": BY_HAND,
    r"python -m localcloud (deploy|cluster|status)": BY_HAND,
    r"python -m localcloud (clean|serve)": "packages/localcloud/tests/server/test_cleanup.py",
    r"python -m localcloud prepare$": "Makefile: `make test` makes the images, `make demo` the dataset",
    r"python -m stacks.people_statements|aws iam create-policy": "tests/deployed/test_people_permissions.py",
    r"curl .*localhost:4566/_peaker/": SERVER,
    r"aws s3 rm --recursive s3://peaker-prod-run-files": "tests/deployed/test_first_hour.py",
    r"aws cloudformation update-termination-protection ": "needs a stack whose first creation failed",
    r"make test$": "it is what runs this test",
    r"make (settings-reference|aws-names)$": "tests/infrastructure/settings/test_environment_files.py",
    r"\.venv/bin/python -m bench\.model\.check --trace ": "needs spin and minutes; make model runs the same search",
    r"make (demo|check|faults|soak|model|bench(-\w+)?)\s*$": "takes minutes to hours; the target is looked at below",
    r"make test-storage( ONLY=\S+)?$": "takes minutes and QEMU; the target is looked at below",
}
NOT_RUN = re.compile(r"takes minutes|needs |it is what runs|Makefile:")


def typed() -> list[tuple[str, str]]:
    """(page, line) of every page but those whose lines are typed in their order: test_runbooks_run, test_first_hour."""
    in_order = {*RUNBOOKS, FIRST_HOUR}
    return [(name_of(page), line) for page in PAGES if page not in in_order for line in typed_lines(page)]


def runner(line: str) -> str | None:
    return next((how for form, how in RUN_BY.items() if re.match(form, line)), None)


def typed_here() -> list[tuple[str, str]]:
    return [(page, line) for page, line in typed() if runner(line) is None]


def test_there_are_pages_and_lines() -> None:
    assert {"README.md", "docs/backtest.md", "packages/localcloud/README.md"} <= {page for page, _ in typed()}
    assert len(typed()) > 40


@pytest.mark.parametrize("form", RUN_BY)
def test_a_line_of_that_form_is_on_a_page_and_what_runs_it_exists(form: str) -> None:
    assert [line for _, line in typed() if re.match(form, line)], "no page has such a line any more"
    how = RUN_BY[form]
    assert NOT_RUN.match(how) or (ROOT / how).is_file(), how


@pytest.mark.parametrize(("page", "line"), typed_here(), ids=[f"{p}:{c[:40]}" for p, c in typed_here()])
def test_the_line_runs(person: Person, page: str, line: str) -> None:
    write_a_load(person.desk / "load.csv")
    write_a_service(person.desk)
    run = person.types(person.own_values(shorter(line)))
    assert run.returncode in accepted(line), f"{run.stderr[-1500:]}\n{run.stdout[-500:]}"
    if "scale-" in line:
        person.waits_for_calm()


def shorter(line: str) -> str:
    """The line as it is on the page, over less: a look a second instead of half an hour, two days instead of all."""
    days = "--metric ReadQueriesPerSecond"
    return line.replace("JSON 1 30", "JSON 1 2").replace(days, f"{days} --days 2")


def write_a_load(path: Path) -> None:
    """The first 17 days of a real one: the backtest replays what follows the two weeks that it learns from."""
    trace = (ROOT / "data" / "traces" / "nyc_taxi.csv").read_text(encoding="utf-8")
    path.write_text("".join(trace.splitlines(keepends=True)[: 1 + 17 * 48]), encoding="utf-8")


def write_a_service(desk: Path) -> None:
    """How two replicas answered under that load, slower the more there is, and two metrics beside it."""
    points = [line.split(",") for line in (desk / "load.csv").read_text(encoding="utf-8").splitlines()[1:]]
    latencies = [f"{at},{5 + float(load) / 3000:.2f}" for at, load in points]
    counts = [f"{at},2" for at, _ in points]
    for name, rows in (
        ("p95", latencies), ("replicas", counts), ("logins", latencies), ("queue", latencies)
    ):  # fmt: skip
        (desk / f"{name}.csv").write_text("\n".join(["timestamp,value", *rows]), encoding="utf-8")


def accepted(line: str) -> tuple[int, ...]:
    """A new deployment has no history of its load: its backtest says so, and that is its answer here."""
    if "--measure-namespace AWS/EC2" in line or "--namespace Shop" in line:
        # Nobody writes these metrics here: each is refused by its name.
        return (2,)
    return (0, 1) if "backtest --from-cloudwatch" in line else (0,)


@pytest.mark.parametrize(
    "target",
    ["demo", "check", "faults", "soak", "model", "bench", "test-storage"]
    + [f"bench-{name}" for name in ("forecast", "prewarm", "traffic")],
)
def test_a_target_that_takes_long_is_there(target: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    rule = re.search(rf"^{target}:.*\n((?:\t.*\n)*)", makefile, re.MULTILINE)
    assert rule is not None
    for module in re.findall(r"-m ((?:demo|bench|model)[a-z._]*)", rule.group(1)):
        path = Path(module.replace(".", "/"))
        assert (ROOT / path.with_suffix(".py")).is_file() or (ROOT / path / "__main__.py").is_file(), module
