"""The timers of the benchmarks, at a size for every day."""

from benchmarks.timers import play

TIMERS = 800
KEEPERS = 4


async def test_what_is_due_has_its_effect_once_though_one_of_four_stops_with_it_in_its_hands() -> (
    None
):
    toll = await play(TIMERS, KEEPERS, pause_s=2.5)
    assert toll.expired.total() + toll.sent.total() == TIMERS, toll
    assert toll.is_once(), toll
