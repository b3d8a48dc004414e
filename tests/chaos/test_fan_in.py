"""The fan-in of the benchmarks, at a size for every day."""

from benchmarks.fan_in import CALLS, play

ROUNDS = 40
HANDS = 3


async def test_answers_that_arrive_together_lead_to_one_next_turn() -> None:
    toll = await play(ROUNDS, HANDS)
    assert toll.is_once(), toll
    assert toll.states.total() == ROUNDS * CALLS
    assert set(toll.states) == {"succeeded", "failed", "cancelled"}
