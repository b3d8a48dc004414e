"""Ids: their form, and that they sort by the time of minting."""

import re

from orchestrator.ids import mint


def test_an_id_is_its_kind_and_twenty_four_letters_and_digits() -> None:
    assert re.fullmatch(r"run_[0-9A-Za-z]{24}", mint("run"))


def test_ids_are_distinct_and_sort_by_the_time_of_minting() -> None:
    minted = [mint("call") for _ in range(1000)]
    assert len(set(minted)) == 1000
    moments = [each[len("call_") :][:9] for each in minted]
    assert moments == sorted(moments)
