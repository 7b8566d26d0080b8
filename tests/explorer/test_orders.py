"""The orders that the explorer leaves out: each equals one that it runs, so that no outcome and no finding is lost."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import pytest
from peaker.adapters.read_endpoint import route53

from sim.explorer.accesses import Access
from sim.explorer.methods import explore_methods
from sim.explorer.orders import Turns, explore
from sim.explorer.strands import Made, run, scheduled

PROGRAMS = 100
Seen = set[tuple[Any, ...]]


class Call(NamedTuple):
    """A call to a store of three places. With `after` it is made only where the last answer was something."""

    kind: str
    place: str
    value: int
    after: bool


def program(chance: random.Random) -> list[Call]:
    kinds = ("read", "set", "add", "claim")
    return [
        Call(chance.choice(kinds), chance.choice("abc"), chance.randrange(1, 3), chance.random() < 0.3)
        for _ in range(chance.randrange(3, 7))
    ]


def made_by(call: Call, store: dict[str, int]) -> Any:
    if call.kind == "set":
        store[call.place] = call.value
    elif call.kind == "add":
        store[call.place] = store.get(call.place, 0) + call.value
    elif call.kind == "claim":
        return store.setdefault(call.place, call.value) == call.value
    return store.get(call.place)


def body(calls: Sequence[Call], store: dict[str, int]) -> Callable[[], list[Any]]:
    def work() -> list[Any]:
        answers: list[Any] = []
        for call in calls:
            if call.after and not (answers and answers[-1]):
                continue
            touched = frozenset({call.place})
            access = Access(call.kind, touched, frozenset())
            if call.kind != "read":
                access = Access(call.kind, touched if call.kind == "claim" else frozenset(), touched)
            answers.append(
                scheduled(
                    access,
                    False,
                    lambda call=call: made_by(call, store),  # type: ignore[misc]
                    lambda access=access: {one: store.get(one) for one in access.writes},  # type: ignore[misc]
                )
            )
        return answers

    return work


def outcomes(programs: Sequence[Sequence[Call]], into: Seen) -> Callable[[Turns], list[Made]]:
    def one(turns: Turns) -> list[Made]:
        store: dict[str, int] = {}
        ended, made = run([body(calls, store) for calls in programs], turns)
        answers = [repr(one.value) for one in ended]
        # Which of two that are alike is the first has no meaning.
        if programs[0] == programs[1]:
            answers.sort()
        into.add((*answers, repr(sorted(store.items()))))
        return made

    return one


def always(one: Access, others: Collection[Access]) -> bool:
    """Nothing commutes: all orders are run."""
    return True


@pytest.mark.parametrize("alike", [False, True])
def test_every_outcome_of_all_orders_is_an_outcome_of_those_that_are_run(alike: bool) -> None:
    ran = all_orders = 0
    for seed in range(PROGRAMS):
        chance = random.Random(seed)
        first = program(chance)
        programs = [first, first if alike else program(chance)]
        every, some = Seen(), Seen()
        all_orders += explore(outcomes(programs, every), alike, always)
        ran += explore(outcomes(programs, some), alike)
        assert some == every, f"seed {seed}: {programs}"
    assert all_orders > 1.5 * ran


def test_the_same_is_found_by_all_orders_and_by_those_that_are_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted fault: a record is put over whatever is there, as it was listed a moment ago."""

    def put_over(known: Any, wanted: Any, ttl_seconds: int) -> list[Any]:
        records = [{**one, "TTL": ttl_seconds} for one in wanted.values()]
        return [{"Action": "UPSERT", "ResourceRecordSet": one} for one in records]

    monkeypatch.setattr(route53, "_changes", put_over)
    names = {("ReadEndpointByKind.set_share", "ReadEndpointByKind.promote")}
    every, some = explore_methods(names, always), explore_methods(names)
    assert {one.text for one in some.findings} == {one.text for one in every.findings} != set()
    assert some.orders < every.orders
