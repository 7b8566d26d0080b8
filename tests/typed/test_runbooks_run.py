"""Every line of every runbook is typed into bash, at a deployment that is in the situation which the page is for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.pages import RUNBOOKS, blocks
from tests.support.situations import SITUATIONS, Person

# What a page starts may go on after it; on a busy machine that takes minutes.
pytestmark = pytest.mark.timeout(900)


@pytest.mark.parametrize("page", RUNBOOKS, ids=lambda page: page.stem)
def test_the_lines_of_a_runbook_run(calm: Person, page: Path) -> None:
    script = "\n".join(blocks(page))
    if prepare := SITUATIONS.get(page.stem):
        script = prepare(calm, script)
    typed = calm.types(calm.own_values(script))
    assert typed.returncode == 0, f"{typed.stderr[-2000:]}\n{typed.stdout[-1000:]}"
