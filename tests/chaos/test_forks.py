"""The forks of the benchmarks, at a size for every day."""

from pathlib import Path

import pytest

from benchmarks.forks import CALLS, forks
from benchmarks.tls import why_not

RUNS = 1


async def test_no_run_hangs_when_a_busy_thread_of_the_worker_is_met_at_the_fork(
    tmp_path: Path,
) -> None:
    if reason := why_not():
        pytest.skip(reason)
    toll = await forks(tmp_path, RUNS)
    assert toll.is_bearable(RUNS), toll
    assert toll.ended.total() == RUNS + RUNS * CALLS
    assert toll.ended["ask_alone succeeded"], toll
