"""The cross-talk of the benchmarks, at a size for every day."""

from pathlib import Path

import pytest

from benchmarks.crosstalk import CALLS, SERVERS, crosstalk
from benchmarks.tls import why_not

RUNS = 4


async def test_every_reply_reaches_the_one_that_asked_over_tls_and_across_forks(
    tmp_path: Path,
) -> None:
    if reason := why_not():
        pytest.skip(reason)
    toll = await crosstalk(tmp_path, RUNS)
    assert toll.wrong == []
    assert toll.right > RUNS * CALLS * len(SERVERS)
