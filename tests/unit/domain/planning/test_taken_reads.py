"""Who takes which share of the reads, and who counts as less than a whole replica for it."""

from __future__ import annotations

from dataclasses import replace

from peaker.domain.issued import CheckState
from peaker.domain.planning.taken_reads import counted_less, shares_of_reads, usual_reads, with_few_reads
from peaker.domain.reading import Known, Reading, Unknown


class TestReadsThatCome:
    """Measured reads a second of each replica, against those of the busiest."""

    def shares(self, **reads: float | Unknown) -> dict[str, Reading]:
        known = {name: one if isinstance(one, Unknown) else Known(one) for name, one in reads.items()}
        return shares_of_reads(known, least_per_second=3.0)

    def test_a_replica_takes_its_share_of_what_the_busiest_answers(self) -> None:
        assert self.shares(a=400.0, b=380.0, new=20.0) == {
            "a": Known(1.0),
            "b": Known(0.95),
            "new": Known(0.05),
        }

    def test_one_that_was_not_heard_makes_no_share_smaller(self) -> None:
        shares = self.shares(a=Unknown("silent"), b=200.0, new=150.0)
        assert shares == {"a": Unknown("silent"), "b": Known(1.0), "new": Known(0.75)}

    def test_a_replica_alone_has_no_share(self) -> None:
        expected = Unknown("there is no other to compare it with")
        assert self.shares(a=400.0) == {"a": expected}
        assert self.shares(a=400.0, b=Unknown("silent"))["a"] == expected

    def test_an_idle_cluster_says_nothing(self) -> None:
        shares = self.shares(a=2.0, new=0.1)
        assert shares["new"] == Unknown("the busiest answers 2 reads a second, 3 are needed")

    def test_the_usual_reads_are_the_median_of_half_the_looks_at_least(self) -> None:
        assert usual_reads([10.0, 500.0, 12.0], looks=6) == Known(12.0)
        assert usual_reads([10.0, 12.0], looks=5) == Unknown("its reads are known of 2 of the last 5 looks")
        assert isinstance(usual_reads([], looks=3), Unknown)


FEW: dict[str, Reading] = {"old": Known(1.0), "new": Known(0.05)}
WHOLE: dict[str, Reading] = {"old": Known(1.0), "new": Known(0.5)}


class TestLooksInARow:
    """A look every five minutes."""

    def after(self, *looks: dict[str, Reading], every: float = 300.0) -> CheckState:
        state = CheckState()
        for number, shares in enumerate(looks):
            at = 1000.0 + number * every
            counted = state.counted_already(at, 300.0)
            state = with_few_reads(state, shares, at, 300.0)
            state = state if counted else replace(state, checked_seconds=at)
        return state

    def test_three_looks_in_a_row_make_a_replica_count_less(self) -> None:
        assert counted_less(self.after(FEW, FEW), FEW) == {}
        assert counted_less(self.after(FEW, FEW, FEW), FEW) == {"new": 0.05}

    def test_one_look_makes_it_whole_again(self) -> None:
        state = self.after(FEW, FEW, FEW, WHOLE)
        assert (state.few_reads, counted_less(state, WHOLE)) == ({}, {})

    def test_a_look_that_cannot_tell_makes_it_whole_too(self) -> None:
        unheard: dict[str, Reading] = {"old": Known(1.0), "new": Unknown("silent")}
        assert self.after(FEW, FEW, unheard, FEW).few_reads == {"new": 1}

    def test_a_check_that_is_called_again_is_the_same_look(self) -> None:
        assert self.after(FEW, FEW, FEW, FEW, every=40.0).few_reads == {"new": 1}
        assert self.after(FEW, FEW, FEW, every=160.0).few_reads == {"new": 3}
