"""Every test, linter and type check, as parts that run side by side; most parts wait more than they compute.

A part is a process, or some in a row, and a process has one local cloud at most. What a part prints is in
build/test/<part>.log; the logs of parts that failed are shown in the end. `python -m tests.side_by_side host lint` runs
two of them.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOGS = ROOT / "build" / "test"
AT_ONCE = 7
# Two to three times what the longest part takes on two cores.
LIMIT_SECONDS = 900
# From then on, before it is killed.
CLEAN_UP_SECONDS = 60
TAIL_LINES = 400
PLAIN_PATH = LOGS / "plain-tools"
# `unshare` is how root becomes a plain user here.
PLAIN_TOOLS = (
    "awk bash basename cat chmod cmp cp curl cut date dd diff dirname env false find flock git grep gzip head id ln ls "
    "mkdir mktemp mv nproc python3 readlink rm sed seq sh sha256sum sleep sort stat tail tar tee timeout touch tr true "
    "uname unshare wc xargs"
)
# Of loop devices and of FUSE; then the command itself (proc(5), mountinfo: type, source and options come last).
FORGET_MOUNTS = """
awk '$(NF-1) ~ /^\\/dev\\/loop/ || $(NF-2) ~ /^fuse([.]|blk|$)/ {print $5}' /proc/self/mountinfo | tac |
while read -r place; do umount -l "$place"; done
exec "$@"
"""
LOCAL_CLOUD = "packages/localcloud/tests"
# The rooms whose tests need no machine images.
WITHOUT_MACHINE = ("access", "control", "resources")


@dataclass(frozen=True)
class Part:
    """Commands in a row, which ends at the first that fails; it begins when the part `after` has passed.

    With `plain` it runs as on a plain user's machine, also for root: without root's rights, and without what
    `scripts/setup local` installs.
    With `own_mounts` no other part's mount namespace begins with copies of what it mounts: they would hold its devices.
    """

    name: str
    commands: tuple[tuple[str, ...], ...]
    after: str | None = None
    plain: bool = False
    own_mounts: bool = False


def pytest(*arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "pytest", "--durations=10", *arguments)


def program(name: str, *arguments: str) -> tuple[str, ...]:
    return (str(Path(sys.executable).with_name(name)), *arguments)


# What waits longest first, then what computes, so that the last ones to end are short. A folder that no part names is
# one of `decisions`, which comes after the longest ones.
LONGEST = 10
NAMED = (
    Part("images", ((sys.executable, "-m", "localcloud.hosts"),)),
    Part("workflows", (pytest("tests/statemachines"),)),
    Part("typed-lines", (pytest("tests/typed"),)),
    Part("commands", (pytest("tests/cli"),)),
    Part("host", (pytest("tests/host"),), own_mounts=True),
    Part(
        "local-cloud",
        (pytest(*(f"{LOCAL_CLOUD}/{room}" for room in WITHOUT_MACHINE), "tests/contract"),),
    ),
    Part("deployed", (pytest("tests/deployed"),)),
    Part("mariadb", (pytest("tests/mariadb"),), after="images"),
    Part(
        "machine",
        (pytest(LOCAL_CLOUD, *(f"--ignore={LOCAL_CLOUD}/{room}" for room in WITHOUT_MACHINE)),),
        after="images",
    ),
    Part("simulation", (pytest("tests/simulation"),), plain=True),
    Part("installation", (pytest("tests/installation"),)),
    Part("templates", (pytest("tests/infrastructure"),), plain=True),
    Part("model", (pytest("tests/model"),)),
    Part("explorer", (pytest("tests/explorer"),), plain=True),
    Part(
        "lint",
        (
            program("ruff", "check", "."),
            program("ruff", "format", "--check", "."),
            program("mypy"),
            ("env", "PYTHONPATH=functions:host:cli:packages/localcloud", *program("lint-imports")),
        ),
        plain=True,
    ),
)


def parts() -> list[Part]:
    """All parts, in the order in which they begin."""
    named = {word for part in NAMED for command in part.commands for word in command}
    folders = sorted(
        {f"tests/{path.relative_to(ROOT).parts[1]}" for path in ROOT.glob("tests/*/**/test_*.py")}
    )
    others = [folder for folder in folders if folder not in named]
    decisions = Part("decisions", (pytest(*others),), plain=True)
    return [*NAMED[:LONGEST], decisions, *NAMED[LONGEST:]]


@dataclass(frozen=True)
class Ended:
    """How a part ended, and what it took; `processor_seconds` counts the children that it waited for."""

    part: Part
    well: bool
    seconds: float
    processor_seconds: float


def without_root() -> tuple[str, ...]:
    """What a command begins with so that root leaves its rights behind; its files stay its own."""
    if os.geteuid() != 0:
        return ()
    return ("unshare", "--user", "--map-user=1000", "--map-group=1000", "--")


def with_own_mounts() -> tuple[str, ...]:
    """What a command begins with so that what it mounts is seen by it alone, and goes with its last process.

    The copies of what other parts have mounted go at once: they would hold devices that those give back.
    """
    if os.geteuid() != 0:
        return ()
    return ("unshare", "--mount", "--propagation", "private", "--", "sh", "-c", FORGET_MOUNTS, "sh")


def link_plain_tools() -> None:
    """A PATH with what every Linux and macOS has, and nothing else."""
    PLAIN_PATH.mkdir()
    for name in PLAIN_TOOLS.split():
        if found := shutil.which(name):
            (PLAIN_PATH / name).symlink_to(found)


def run(part: Part, at_work: set[subprocess.Popen[bytes]]) -> Ended:
    """Run its commands until one fails. Its processes are in `at_work` while they run."""
    began, used, well = time.monotonic(), 0.0, True
    before = without_root() if part.plain else with_own_mounts() if part.own_mounts else ()
    as_plain = part.plain and os.geteuid() == 0
    environment = {**os.environ, "PATH": str(PLAIN_PATH)} if as_plain else None
    with (LOGS / f"{part.name}.log").open("wb") as log:
        for command in part.commands:
            process = subprocess.Popen(
                (*before, *command),
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
            at_work.add(process)
            ended = threading.Event()
            threading.Thread(target=end_late, args=(process.pid, command, ended), daemon=True).start()
            _, status, usage = os.wait4(process.pid, 0)
            ended.set()
            process.returncode = os.waitstatus_to_exitcode(status)
            at_work.discard(process)
            used += usage.ru_utime + usage.ru_stime
            well = process.returncode == 0
            if not well:
                break
    return Ended(part, well, time.monotonic() - began, used)


def end_late(process_id: int, command: tuple[str, ...], ended: threading.Event) -> None:
    """End a command that takes longer than a part may; pytest shows its stacks (conftest.py) and cleans up."""
    if ended.wait(LIMIT_SECONDS):
        return
    if "pytest" in command:
        os.kill(process_id, signal.SIGUSR1)
    os.kill(process_id, signal.SIGINT)
    if not ended.wait(CLEAN_UP_SECONDS):
        os.kill(process_id, signal.SIGKILL)


def run_all(waiting: list[Part]) -> list[Part]:
    """Run the parts, say how each ended, and return those that failed or could not begin."""
    failed: list[Part] = []
    passed: set[str | None] = {None}
    running: set[Future[Ended]] = set()
    at_work: set[subprocess.Popen[bytes]] = set()
    end_with_us(at_work)
    with ThreadPoolExecutor(AT_ONCE) as slots:
        while True:
            ready = [part for part in waiting if part.after in passed]
            for part in ready[: AT_ONCE - len(running)]:
                waiting.remove(part)
                running.add(slots.submit(run, part, at_work))
            if not running:
                return [*failed, *waiting]
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            for future in ended:
                one = future.result()
                if one.well:
                    passed.add(one.part.name)
                else:
                    failed.append(one.part)
                word = "passed" if one.well else "FAILED"
                times = f"{one.seconds:5.0f} s, {one.processor_seconds:4.0f} s of processors"
                print(f"{word}  {one.part.name:<13}{times}  {last_line(one.part)}", flush=True)


def end_with_us(at_work: set[subprocess.Popen[bytes]]) -> None:
    """Let pytest clean up when this process is told to end: it does so on SIGINT only."""

    def stop(number: int, _frame: object) -> None:
        for process in tuple(at_work):
            process.send_signal(signal.SIGINT)
        for process in tuple(at_work):
            process.wait()
        os._exit(128 + number)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)


def last_line(part: Part) -> str:
    """How the log ends."""
    return next(reversed((LOGS / f"{part.name}.log").read_text(errors="replace").split("\n")[:-1]), "")


def main(names: list[str]) -> int:
    """0 when everything passed; without names, that is all parts."""
    chosen = [part for part in parts() if not names or part.name in names]
    if unknown := set(names) - {part.name for part in chosen}:
        print(f"no part {', '.join(sorted(unknown))}; there are {', '.join(part.name for part in parts())}")
        return 2
    shutil.rmtree(LOGS, ignore_errors=True)
    LOGS.mkdir(parents=True)
    link_plain_tools()
    failed = run_all([replace(part, after=None) for part in chosen] if names else chosen)
    for part in failed:
        log = LOGS / f"{part.name}.log"
        print(f"--- {part.name} ({log.relative_to(ROOT)})")
        if log.exists():
            print("\n".join(log.read_text(errors="replace").splitlines()[-TAIL_LINES:]))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
