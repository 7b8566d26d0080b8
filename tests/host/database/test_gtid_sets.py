"""GTID sets as text: what is missing."""

from __future__ import annotations

from peaker_host.database.gtid_sets import count_missing, count_missing_mariadb, subtracted

A, B = "c292c1fa-e550-11f1-9eb5-c2cd5b392683", "3d664b29-e551-11f1-b745-6ef0865e2f1c"


class TestGtidSets:
    def test_missing_transactions_are_counted_over_sources_and_gaps(self) -> None:
        assert count_missing(f"{A}:1-10:15,\n{B}:1-3", f"{A}:1-4:15") == 9

    def test_a_tag_is_a_source_of_its_own(self) -> None:
        assert count_missing(f"{A}:1-5:blue:1-2", f"{A}:1-5:green:1-2") == 2

    def test_case_and_the_empty_set(self) -> None:
        assert count_missing(f"{A.upper()}:1-3", f"{A}:1-3") == 0
        assert count_missing("", f"{A}:1") == 0
        assert count_missing(f"{A}:1-3", "") == 3

    def test_what_is_missing_is_told_as_a_set(self) -> None:
        assert subtracted(f"{A}:1-10:15,{B}:1-3:blue:7", f"{A}:1-4:6-10,{B}:1-3") == f"{A}:5:15,{B}:blue:7"
        assert subtracted(f"{A}:1-3", f"{A}:1-9") == ""

    def test_mariadb_positions_compare_by_domain(self) -> None:
        assert count_missing_mariadb("0-1-21,1-7-5", "0-3-18") == 8
        assert count_missing_mariadb("0-1-21", "0-2-30") == 0
