"""A sample of hostile input for every entry point; `make faults` runs more than a hundred thousand cases."""

from __future__ import annotations

import pytest

from tests.hostile import campaign, registry
from tests.hostile.entry_point import EntryPoint

SEED = 20261122
CASES = 8
ENTRIES = {one.name: one for one in registry.entry_points()}


def test_every_entry_point_has_a_name_of_its_own() -> None:
    assert len(ENTRIES) == len(registry.entry_points())


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=list(ENTRIES))
def test_hostile_input_is_taken_or_refused_by_name(entry: EntryPoint) -> None:
    """In bounded time, with nothing of it left where a shell, a statement, a page or a terminal would obey it."""
    campaign.forget_canary()
    tally = campaign.run_entry(entry, SEED, max(2, round(CASES * entry.weight)))
    assert not tally.complaints, "\n".join(map(str, tally.complaints))
    assert not campaign.shell_was_run()


def test_a_parser_that_raises_what_it_does_not_list_is_a_complaint() -> None:
    entry = ENTRIES["health policy"]
    careless = EntryPoint("careless", entry.form, lambda case: 1 / 0, entry.examples, (ValueError,))
    why, _ = campaign.complaint_of(careless, "[]")
    assert why is not None
    assert why.startswith("ZeroDivisionError")


def test_a_parser_that_never_ends_is_a_complaint(monkeypatch: pytest.MonkeyPatch) -> None:
    def forever(_case: object) -> None:
        while True:
            pass

    monkeypatch.setattr(campaign, "SECONDS_AT_MOST", 0.05)
    entry = ENTRIES["health policy"]
    why, _ = campaign.complaint_of(EntryPoint("slow", entry.form, forever, entry.examples, ()), "[]")
    assert why is not None
    assert "of the processor" in why


def test_a_case_can_be_run_again_by_its_number() -> None:
    entry = ENTRIES["health policy"]
    assert campaign.case_of(entry, 7, 12) == campaign.case_of(entry, 7, 12)
    assert {campaign.case_of(entry, 7, number) for number in range(20)} != {campaign.case_of(entry, 7, 12)}
