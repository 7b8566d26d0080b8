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
