"""`peaker replay`: what could not be delivered, why, and what would be done with it; with --yes it is done."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

import typer
from botocore.exceptions import BotoCoreError, ClientError
from peaker.domain.instants import to_iso
from rich.table import Table
from rich.text import Text

from peaker_cli.aws_failures import is_about_access, one_line
from peaker_cli.control_plane import ControlPlane
from peaker_cli.deployment import DeploymentOptions
from peaker_cli.durations import duration
from peaker_cli.failures import FAILED, ControlPlaneError, say
from peaker_cli.printing import console, echo
from peaker_cli.replay.dead_letter import Fate, Letter, Rule, Verdict, verdict
from peaker_cli.replay.queues import DeadLetterQueues

EPILOG = (
    "Examples: peaker replay --env prod; "
    "peaker replay peaker-prod-orders-replica-shortage-undelivered --env prod --json; peaker replay --env prod --yes"
)
_WOULD = {Fate.SEND: "would be sent", Fate.DROP: "would be deleted", Fate.LEAVE: "is left"}
_DONE = {Fate.SEND: "sent and deleted", Fate.DROP: "deleted", Fate.LEAVE: "left"}
_LONGEST_TEXT = 300


@dataclass(frozen=True)
class Line:
    """One letter and what became of it. `error`: why its target did not take it; it was left then."""

    letter: Letter
    verdict: Verdict
    age_seconds: float
    done: bool
    error: str | None = None

    @property
    def outcome(self) -> str:
        """In a word or two."""
        if self.error is not None:
            return "left"
        return (_DONE if self.done else _WOULD)[self.verdict.fate]

    @property
    def document(self) -> dict[str, Any]:
        """For --json."""
        return {
            "queue": self.letter.queue,
            "message_id": self.letter.message_id,
            "at": to_iso(self.verdict.at),
            "age_seconds": round(self.age_seconds),
            "what": self.verdict.what,
            "why": self.verdict.why,
            "fate": self.verdict.fate.value,
            "reason": self.verdict.reason,
            "target": self.verdict.target or None,
            "outcome": self.outcome,
            "error": self.error,
        }


def replay_command(
    deployment: DeploymentOptions,
    queue: Annotated[
        str | None, typer.Argument(metavar="QUEUE", help="One queue by its name; without it, all of them.")
    ] = None,
    consent: Annotated[bool, typer.Option("--yes", help="Do it. Without this, nothing is changed.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the document itself.")] = False,
) -> None:
    """List what could not be delivered: its age, what it was, why it failed. With --yes, send it again.

    Each is sent to the target that its rule has now, and deleted once the target took it. What is older than its rule
    delivers is deleted unsent, because the state was looked at anew since; the end of a run is never too old. A page
    that no mail server took is shown, and deleted unsent.
    """
    control = ControlPlane.of(deployment)
    queues = DeadLetterQueues(control)
    rules = queues.rules()
    names = _wanted(queues.names(rules), queue)
    lines: list[Line] = []
    for name in names:
        lying, hidden = queues.count(name)
        if hidden:
            say(f"{name}: {hidden} hidden for some minutes, because somebody has just looked at them")
        if lying or queue:
            lines += replay(queues, rules, list(queues.take(name, lying)), control, consent=consent)
    if as_json:
        echo(json.dumps([line.document for line in lines], indent=1))
    elif lines:
        console().print(_table(lines))
    else:
        echo(f"nothing lies in {queue or f'the {len(names)} queues of {control.environment}'}")
    if lines and not consent:
        say("nothing was changed; --yes sends and deletes")
    if any(line.error for line in lines):
        raise typer.Exit(FAILED)


def _wanted(names: Sequence[str], queue: str | None) -> list[str]:
    if queue is None:
        return list(names)
    if queue not in names:
        raise ControlPlaneError(f"no queue {queue} of this environment; there are: {', '.join(names)}")
    return [queue]


def replay(
    queues: DeadLetterQueues,
    rules: Sequence[Rule],
    taken: Sequence[Letter],
    control: ControlPlane,
    *,
    consent: bool,
) -> list[Line]:
    """Judge each and act on it. What is not deleted is put back, also after an error."""
    gone: set[str] = set()
    try:
        return [line for letter in taken for line in _acted(queues, rules, letter, control, consent, gone)]
    finally:
        for letter in taken:
            if letter.message_id not in gone:
                queues.put_back(letter)


def _acted(
    queues: DeadLetterQueues,
    rules: Sequence[Rule],
    letter: Letter,
    control: ControlPlane,
    consent: bool,
    gone: set[str],
) -> Iterator[Line]:
    now: datetime = control.clock.now()
    judged = verdict(letter, rules, now)
    age = judged.age_seconds(now)
    if not consent or judged.fate is Fate.LEAVE:
        yield Line(letter, judged, age, done=consent)
        return
    try:
        if judged.fate is Fate.SEND:
            queues.send(judged)
    except (ClientError, BotoCoreError) as error:
        if is_about_access(error):
            raise
        yield Line(letter, judged, age, done=True, error=one_line(error))
        return
    queues.delete(letter)
    gone.add(letter.message_id)
    yield Line(letter, judged, age, done=True)


def _table(lines: Sequence[Line]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("queue", "age", "what", "why it failed", "becomes", "because"):
        table.add_column(column, overflow="fold", justify="right" if column == "age" else "left")
    for line in lines:
        table.add_row(
            *(
                _plain(text)
                for text in (
                    line.letter.queue,
                    duration(line.age_seconds),
                    line.verdict.what,
                    line.verdict.why,
                    line.outcome,
                    line.error or line.verdict.reason,
                )
            )
        )
    return table


def _plain(text: str) -> Text:
    """What a message holds may hold anything: no markup, no control characters, and not pages of it."""
    shown = "".join(one if one.isprintable() else " " for one in text)
    return Text(shown if len(shown) <= _LONGEST_TEXT else f"{shown[:_LONGEST_TEXT]}…")
