"""The soak of the benchmarks, at a size for every day."""

from pathlib import Path

import pytest

from benchmarks.soak import soak

RUNS = 100


async def test_whatever_is_killed_every_run_ends_and_nothing_is_paid_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNSTATE_CALL_LEASE_S", "2")
    toll = await soak(tmp_path, RUNS)
    assert toll.ended["run completed"] == RUNS, toll
    assert toll.is_bearable(), toll
    assert toll.kills.total() >= 5
