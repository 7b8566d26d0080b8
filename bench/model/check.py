"""The model checker at work: the protocol as it is, and without each of its protections in turn.

    python -m bench.model.check              all, at one and at two troubles; figures in build/bench/faults.json
    python -m bench.model.check --trace WITHOUT_WAIT
                                       the shortest way to the broken invariant that the checker finds

Needs `spin` and `gcc` (Debian packages; scripts/setup local installs them).
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from bench import figures

ROOT = Path(__file__).resolve().parent
MODEL = ROOT / "lease_and_ledger.pml"
# A search that finds nothing in so many seconds has not failed: it is reported as not finished.
LIMIT_SECONDS = 900.0


@dataclass(frozen=True)
class Mutation:
    """A protection taken away; how many troubles it takes until one of these invariants is broken, and what it is."""

    name: str
    breaks: frozenset[str]
    troubles: int
    what: str


MUTATIONS = tuple(
    Mutation(name, frozenset(breaks.split()), troubles, what)
    for name, breaks, troubles, what in (
        ("WITHOUT_TOKEN", "I6 I9", 1, "writes compare the run, not the fencing token"),
        ("WITHOUT_WAIT", "I6 I7 I9", 1, "an undo begins right after the fence"),
        ("WITHOUT_WAIT_IN_SCALE_IN", "I9", 2, "only scale_in's own undo begins right after the fence"),
        ("WITHOUT_SWEEP", "I7", 1, "nobody looks where the event of an end was lost"),
        ("ONLY_HELD_LEASES", "I7", 1, "the sweep looks at leases, not at runs"),
        ("WITHOUT_RECHECK", "I3 I5", 1, "what was true at an earlier step is believed at the door"),
        ("WITHOUT_ROLL_FORWARD", "I3", 1, "an undo takes away what serves"),
        ("WITHOUT_CLIENT_TOKEN", "I10", 1, "a launch that is repeated launches again"),
        ("WITHOUT_LEDGER_ROW", "I1", 2, "tags alone say what is Peaker's"),
        ("WITHOUT_LONG_LEASE", "I6 I9", 2, "a lease may end while a function works under it"),
        ("WITHOUT_FIRST_CHOICE", "I3 I7", 1, "a late SelectIdleReplicas chooses again"),
        ("WITHOUT_SECOND_LOOK", "I9", 2, "an undo believes what was read of its run before it had the lease"),
        ("WITHOUT_PAUSE", "I6 I9", 1, "another run takes a lease as soon as it is given back"),
    )
)


# What comes to pass in every story in which whoever can move does so at some time (weak fairness). Each is false
# without the sweep. The searches have one undoer at a time, so that they end.
LIVENESS = ("a_stop_is_followed_by_a_free_lease", "converges")
FAIR = ("LIVENESS", "UNDOERS=1")


@dataclass(frozen=True)
class Verdict:
    """What the checker found: states stored, the invariant that is broken, and whether it has seen all states."""

    states: int
    broken: str | None
    complete: bool


class CheckerMissing(Exception):
    """spin or gcc is not installed."""


def check(*defines: str, troubles: int = 1, limit_seconds: float = LIMIT_SECONDS) -> Verdict:
    """Search all states. Raises CheckerMissing, and RuntimeError for a model that spin cannot read."""
    return _searched((*defines, f"TROUBLES={troubles}"), [], limit_seconds)


def check_liveness(
    formula: str, *defines: str, troubles: int = 1, limit_seconds: float = LIMIT_SECONDS
) -> Verdict:
    """Search all fair cycles for one on which the LTL formula is false; `broken` is then the formula's name."""
    found = _searched((*FAIR, *defines, f"TROUBLES={troubles}"), ["-a", "-f", "-N", formula], limit_seconds)
    return replace(found, broken=formula) if found.broken else found


def _searched(defines: Sequence[str], options: Sequence[str], limit_seconds: float) -> Verdict:
    with _verifier(defines) as place:
        command = ["./pan", "-m300000", "-w22", "-n", *options]
        try:
            said = subprocess.run(
                command, cwd=place, capture_output=True, text=True, timeout=limit_seconds
            ).stdout
        except subprocess.TimeoutExpired:
            return Verdict(0, None, complete=False)
    return _read(said)


def trace(*defines: str, troubles: int) -> str:
    """What spin tells of the way to the broken invariant: each change of lease, ledger, cloud and executions."""
    chosen = (*defines, f"TROUBLES={troubles}")
    with _verifier(chosen) as place:
        subprocess.run(
            ["./pan", "-m200000", "-w22", "-n", "-i"], cwd=place, capture_output=True, timeout=LIMIT_SECONDS
        )
        command = ["spin", *_flags(chosen), "-k", f"{MODEL.name}.trail", "-t", "-p", "-g", str(MODEL)]
        told = subprocess.run(command, cwd=place, capture_output=True, text=True).stdout
    return "\n".join(_changes(told))


@contextmanager
def _verifier(defines: Sequence[str]) -> Iterator[Path]:
    missing = [tool for tool in ("spin", "gcc") if shutil.which(tool) is None]
    if missing:
        raise CheckerMissing(
            f"{', '.join(missing)} not found: run scripts/setup local, or apt-get install spin gcc"
        )
    with tempfile.TemporaryDirectory(prefix="peaker-model-") as folder:
        place = Path(folder)
        written = subprocess.run(
            ["spin", *_flags(defines), "-a", str(MODEL)], cwd=place, capture_output=True, text=True
        )
        if not (place / "pan.c").is_file():
            raise RuntimeError(f"spin cannot read the model:\n{written.stdout}{written.stderr}")
        # A small search takes less than a compiler that optimises.
        speed = ["-O0"] if "TROUBLES=1" in defines else ["-O1", "-DCOLLAPSE"]
        kind = ["-DNFAIR=3"] if "LIVENESS" in defines else ["-DSAFETY"]
        options = [*speed, "-w", *kind, "-DVECTORSZ=2048", "-o", "pan"]
        subprocess.run(["gcc", *options, "pan.c"], cwd=place, check=True, capture_output=True)
        yield place


def _flags(defines: Sequence[str]) -> list[str]:
    return [f"-D{one}" for one in defines]


def _read(said: str) -> Verdict:
    states = re.search(r"(\d+) states, stored", said)
    if states is None:
        raise RuntimeError(f"the checker ended early:\n{said}")
    broken = re.search(r"assertion violated.*?waived_(I\d+)", said)
    other = re.search(
        r"^pan:\d*:? (?!elapsed|rate|wrote|resizing|ltl formula)(.*)$", said, flags=re.MULTILINE
    )
    name = broken.group(1) if broken else (other.group(1) if other else None)
    return Verdict(int(states.group(1)), name, complete="Search not completed" not in said and other is None)


def _changes(told: str) -> Iterator[str]:
    before: dict[str, str] = {}
    for found in re.finditer(r"^\s+(\w+(?:\[\d+\])?) = (\S+)$", told, flags=re.MULTILINE):
        name, value = found.groups()
        if name not in {"i", "n", "c", "caller", "reply"} and before.get(name) != value:
            before[name] = value
            yield f"{name} = {value}"


def main(argv: Sequence[str]) -> int:
    """Check, print, write the figures; 1 when an invariant is broken, or a mutation breaks none."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.model.check",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = [one.name for one in MUTATIONS]
    parser.add_argument("--trace", choices=names, help="tell how this mutation breaks an invariant")
    parser.add_argument("--troubles", type=int, default=2, help="the most troubles at once (default 2)")
    given = parser.parse_args(argv)
    if given.trace:
        found = next(one for one in MUTATIONS if one.name == given.trace)
        print(trace(found.name, troubles=found.troubles))
        return 0
    found_now = every_order_of_events(given.troubles)
    figures.written(found_now, figures.RESULTS / "faults.json")
    return 0 if all(one["holds"] for one in found_now.values()) else 1


def every_order_of_events(most: int = 2) -> figures.Figures:
    """The figures, with up to so many troubles at once."""
    states, broken, unfinished = 0, [], []
    for troubles in range(1, most + 1):
        found = check(troubles=troubles)
        states = max(states, found.states)
        broken += [found.broken] if found.broken else []
        unfinished += [] if found.complete or found.broken else [troubles]
        print(f"troubles {troubles}: {found.states:,} states, broken: {found.broken or 'none'}", flush=True)
    comes, lively = 0, 0
    for formula in LIVENESS:
        for troubles in range(1, most + 1):
            found = check_liveness(formula, troubles=troubles)
            lively = max(lively, found.states)
            comes += found.complete
            said = "holds" if found.complete else ("IS FALSE" if found.broken else "is not decided")
            print(f"{formula}, troubles {troubles}: {found.states:,} states, {said}", flush=True)
        without = check_liveness(formula, "WITHOUT_SWEEP")
        comes += without.broken is not None
        print(f"{formula} without the sweep: {'is false' if without.broken else 'HOLDS'}", flush=True)
    caught = 0
    for one in MUTATIONS:
        seen = check(one.name, troubles=one.troubles)
        caught += seen.broken in one.breaks
        print(f"{one.name} ({one.what}): {seen.broken or 'NOTHING'} is broken", flush=True)
    return {
        "model: states explored": {"value": states, "must": "stated", "holds": not unfinished},
        "model: properties broken": figures.exactly(len(broken), 0),
        "model: liveness states explored": {"value": lively, "must": "stated", "holds": lively > 0},
        "model: liveness searches that end as they must": figures.exactly(comes, len(LIVENESS) * (most + 1)),
        "model: mutations that break a property": figures.exactly(caught, len(MUTATIONS)),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
