"""The cancelled runs of the benchmarks, at a size for every day."""

from pathlib import Path

from benchmarks.cancels import cancels

RUNS = 120


async def test_a_run_cancelled_at_any_moment_has_no_call_executed_without_its_claim(
    tmp_path: Path,
) -> None:
    toll = await cancels(tmp_path, RUNS)
    assert toll.is_bearable(RUNS), toll
    assert toll.executions.total() > 2, toll
    assert toll.ended["note not claimed"] + toll.ended["note_inline not claimed"] > 0, toll
