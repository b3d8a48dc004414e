"""The rolling restarts of the benchmarks, at a size for every day."""

from pathlib import Path

from benchmarks.rolling import Plan, rolling

PLAN = Plan(runs=20, lasts_s=2, every_s=1.5, grace_s=0.5, slow_of=2, waves=2)
LEASES = {"RUNSTATE_CALL_LEASE_S": "1.5", "RUNSTATE_TURN_LEASE_S": "1.5"}


async def test_long_runs_outlast_rolling_restarts_whose_grace_is_shorter_than_their_calls(
    tmp_path: Path,
) -> None:
    toll = await rolling(tmp_path, PLAN, **LEASES)
    assert toll.is_bearable(PLAN.runs), toll
    assert toll.ended["run completed"] == PLAN.runs, toll
    assert toll.restarts.total() == 8, toll
    assert toll.joined > 0, toll
