"""Two hundred clusters, three of which do not answer: every other one is looked at within minutes."""

from __future__ import annotations

from functools import partial

from bench.faults.sweep_looks import looks_of_others, oldest_look_minutes


def test_clusters_that_do_not_answer_keep_no_other_from_its_look() -> None:
    looked_at = partial(looks_of_others, clusters=200, silent=3, seconds=900.0)
    assert oldest_look_minutes(looked_at(), until=900.0) <= 10.0
