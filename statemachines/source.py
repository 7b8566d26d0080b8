"""A source is a closed model: README.md explains each field, `reading.py` words its faults.

A state is of the kind of its one key among KINDS: it calls a function, starts a workflow, chooses, and so on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, JsonValue, Tag

from environments.aws_names import nearest
from peaker_contract.field_types import Location, text
from statemachines import policies

POLICIES = "statemachines/policies.py"
# As the `next` of a state: it is the last of its branch.
END = "end"


def _known(names: Collection[str], what: str) -> AfterValidator:
    def check(name: str) -> str:
        if name not in names:
            raise ValueError(f"{name} is no {what}{nearest(name, names)} {POLICIES} has them all")
        return name

    return AfterValidator(check)


Text = Annotated[str, text(r"^[^\n]+$", "text in one line; >- before it takes it on several")]
StateName = Annotated[str, text(r"^[A-Z][A-Za-z0-9]{0,79}$", "the name of a state, such as DrainReplica")]
SnakeName = Annotated[str, text(r"^[a-z][a-z0-9_]*$", "a name in lower case, such as drain_replica")]
Expression = Annotated[str, text(r"^\{% .+ %\}$", 'an expression in quotes: "{% ... %}"')]
Seconds = Annotated[int, Field(strict=True, ge=1, le=99_999_999)]
Values = dict[str, JsonValue]
Wait = Annotated[str, Field(strict=True), _known(policies.WAITS, "wait")]
PassedOn = Annotated[str, Field(strict=True), _known(policies.PASSED_ON, "word for what is passed on")]
Speaker = Annotated[str, Field(strict=True), _known(policies.SPEAKERS, "speaker")]
Tells = Annotated[str, Field(strict=True), _known(policies.TELLS, "way to tell a failure")]


class Closed(BaseModel):
    """Base of all: immutable, and an unknown field is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class State(Closed):
    """Every state says what it is for: the console shows it."""

    comment: Text

    def ways_on(self) -> Iterator[tuple[Location, str]]:
        """Each field that names another state, and the name."""
        for field in ("next", "otherwise", "on_failure"):
            target = getattr(self, field, None)
            if target not in (None, END):
                yield (field,), target


class Going(State):
    """A state that leads to the next one, or ends its branch."""

    next: StateName | Literal["end"]


class Trying(Going):
    """A try may fail. Without an `on_failure` of its own it goes where its scope says."""

    output: JsonValue = None
    assign: Values = {}
    catch: dict[str, StateName] = {}
    on_failure: StateName | None = None
    passes_on: PassedOn = "failure"

    def ways_on(self) -> Iterator[tuple[Location, str]]:
        yield from super().ways_on()
        for error, target in self.catch.items():
            yield ("catch", error), target


class Call(Trying):
    """Calls a function, which hears who speaks, the state's name, and what `payload` adds."""

    call: SnakeName
    speaks_for: Speaker | None = None
    payload: JsonValue = {}
    waits_on: tuple[Wait, ...] = ()
    timeout_seconds: Seconds = policies.TASK_TIMEOUT_SECONDS


class Start(Trying):
    """Starts another workflow and waits for its end."""

    start: SnakeName
    name: Expression
    input: Values
    timeout_seconds: Seconds


class Way(Closed):
    when: Expression
    next: StateName


class Choose(State):
    """The first way whose `when` is true, else `otherwise`; each sets the variables of `assign`, after the choice."""

    choose: Annotated[tuple[Way, ...], Field(min_length=1)]
    otherwise: StateName
    assign: Values = {}

    def ways_on(self) -> Iterator[tuple[Location, str]]:
        yield from super().ways_on()
        for index, way in enumerate(self.choose):
            yield ("choose", index, "next"), way.next


class Pause(Going):
    wait_seconds: Expression


class SayOutcome(State):
    """Ends the workflow with this outcome; the error that was caught becomes the output that people read."""

    say_outcome: Text


class Succeed(State):
    succeed: Literal[True]


class Ending(Closed):
    """An ending says this sentence, and then the failure, told as `tells` has it."""

    tells: Tells
    says: Text | None = None


class Fail(State):
    fail: Ending


class Scope(Closed):
    """States that lead to each other; `on_failure` is where a failure goes that no state sends elsewhere."""

    start_at: StateName
    on_failure: StateName
    states: Annotated[dict[StateName, AnyState], Field(min_length=1)]


class Parallel(Trying):
    """A parallel state runs its branches side by side."""

    parallel: Annotated[tuple[Scope, ...], Field(min_length=1)]


class Each(Trying):
    """One run of its states for each item, side by side; an item is the input of the first state."""

    for_each: Expression
    run: Scope


class Workflow(Scope):
    """A whole source. `speaks_for` holds for every call that says nothing of its own."""

    comment: Text
    timeout_seconds: Seconds
    speaks_for: Speaker = "run"


KINDS: Mapping[str, type[State]] = {
    "call": Call,
    "start": Start,
    "choose": Choose,
    "wait_seconds": Pause,
    "say_outcome": SayOutcome,
    "succeed": Succeed,
    "fail": Fail,
    "parallel": Parallel,
    "for_each": Each,
}


def kinds_of(state: Any) -> list[str]:
    """The keys of a state that say its kind; a good one has one."""
    return [key for key in KINDS if key in state] if isinstance(state, Mapping) else []


def _one_kind(state: Any) -> str | None:
    kinds = kinds_of(state)
    return kinds[0] if len(kinds) == 1 else None


AnyState = Annotated[
    Annotated[Call, Tag("call")]
    | Annotated[Start, Tag("start")]
    | Annotated[Choose, Tag("choose")]
    | Annotated[Pause, Tag("wait_seconds")]
    | Annotated[SayOutcome, Tag("say_outcome")]
    | Annotated[Succeed, Tag("succeed")]
    | Annotated[Fail, Tag("fail")]
    | Annotated[Parallel, Tag("parallel")]
    | Annotated[Each, Tag("for_each")],
    Discriminator(_one_kind),
]
for _model in (Scope, Parallel, Each, Workflow):
    _model.model_rebuild()
