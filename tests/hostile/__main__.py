"""`python -m tests.hostile`: hostile input against every entry point, as `make faults` does."""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from pathlib import Path

from tests.hostile import campaign, registry

FIGURES = Path(__file__).resolve().parents[2] / "build" / "bench" / "faults.json"
LEAST_CASES = 100_000
# Above what is there when it begins; a parser that wants more is told so by MemoryError.
MEMORY_BYTES = 2 * 1024**3


def main(words: list[str]) -> int:
    """1 with any complaint."""
    given = _arguments(words)
    entries = [one for one in registry.entry_points() if given.entry in (None, one.name)]
    if not entries:
        print(f"no entry point {given.entry}; --list names them")
        return 2
    if given.list:
        print("\n".join(f"{one.name} ({one.form.name})" for one in entries))
        return 0
    if given.case is not None:
        return _one_case(entries[0], given.seed, given.case)
    _limit_memory()
    campaign.forget_canary()
    began, whole = time.monotonic(), campaign.Tally()
    weights = sum(one.weight for one in entries)
    print(f"seed {given.seed}, {len(entries)} entry points, {given.cases:,} cases", flush=True)
    for one in entries:
        at, tally = (
            time.process_time(),
            campaign.run_entry(one, given.seed, max(7, round(given.cases * one.weight / weights))),
        )
        whole.add(tally)
        word = "FAILED" if tally.complaints else "passed"
        print(
            f"{word} {one.name}: {tally.cases:,} cases, {tally.refused:,} refused by its own errors, "
            f"{time.process_time() - at:.1f} s",
            flush=True,
        )
        for complaint in tally.complaints:
            print(f"  {complaint}", flush=True)
    ran = campaign.shell_was_run()
    if ran:
        print("a payload reached a shell")
    figures = {
        "entry_points": len(entries),
        "cases": whole.cases,
        "taken": whole.taken,
        "refused_by_own_errors": whole.refused,
        "unexpected_exceptions": len(whole.complaints),
        "payloads_that_reached_a_shell": int(ran),
        "seed": given.seed,
        "seconds": round(time.monotonic() - began, 1),
    }
    print(json.dumps(figures))
    if given.entry is None:
        _write(whole.cases, len(whole.complaints) + int(ran), given.seed)
    return 1 if whole.complaints or ran else 0


def _write(cases: int, unexpected: int, seed: int) -> None:
    """Lay the figures over those of the other parts of `make faults`."""
    before = json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.is_file() else {}
    ours = {
        "fuzz cases": {
            "value": cases,
            "must": f">= {LEAST_CASES}",
            "holds": cases >= LEAST_CASES,
            "seed": seed,
        },
        "fuzz cases: unexpected exceptions": {"value": unexpected, "must": 0, "holds": unexpected == 0},
    }
    FIGURES.parent.mkdir(parents=True, exist_ok=True)
    FIGURES.write_text(json.dumps({**before, **ours}, indent=1) + "\n", encoding="utf-8")


def _arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.hostile",
        description=__doc__,
        epilog="Example: python -m tests.hostile --seed 7 --entry 'health policy' --case 12",
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=110_000, help="over all entry points")
    parser.add_argument("--entry", help="one entry point alone")
    parser.add_argument("--case", type=int, help="one case of it alone, with its traceback")
    parser.add_argument("--list", action="store_true", help="name the entry points")
    return parser.parse_args(words)


def _one_case(entry: registry.EntryPoint, seed: int, number: int) -> int:
    case = campaign.case_of(entry, seed, number)
    print(repr(case)[:5000])
    try:
        answer = entry.call(case)
    except entry.own as refusal:
        answer = refusal
    print(f"answer: {answer!r}"[:5000])
    entry.after(case, answer)
    return 0


def _limit_memory() -> None:
    used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY_BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
