"""Every interleaving of small runs, and what holds in all of them (see ``explorer``)."""

import pytest

from orchestrator.states import LEGAL, RunStatus, Trigger
from tests.unit.explorer.findings import cannot_end, cannot_recover, outlives_the_clock
from tests.unit.explorer.scenario import SCENARIOS
from tests.unit.explorer.walk import Walk

pytestmark = pytest.mark.timeout(400)  # seconds; a busy machine needs five times the usual

NEVER_ASKED_FOR = {(RunStatus.QUEUED, Trigger.FAIL), (RunStatus.REQUIRES_ACTION, Trigger.FAIL)}
"""Legal, but no command does it today: only a model turn fails a run."""


@pytest.fixture(scope="module")
def walks() -> list[Walk]:
    """One walk per scenario; walking checks all invariants on every edge."""
    return [Walk(scenario).run() for scenario in SCENARIOS]


def test_the_walk_sees_every_state_there_is(walks: list[Walk]) -> None:
    assert sum(len(walk.states) for walk in walks) > 150_000
    assert sum(len(walk.edges) for walk in walks) > 3_500_000


def test_every_edge_of_the_table_is_reached(walks: list[Walk]) -> None:
    reached = set().union(*(walk.reached for walk in walks))
    assert set(LEGAL) - reached == NEVER_ASKED_FOR


def test_a_final_status_can_be_reached_from_everywhere(walks: list[Walk]) -> None:
    assert [walk.way_to(state) for walk in walks for state in cannot_end(walk)] == []


def test_whoever_crashes_the_others_complete_the_run(walks: list[Walk]) -> None:
    assert [walk.way_to(state) for walk in walks for state in cannot_recover(walk)] == []


def test_the_clock_alone_ends_every_run(walks: list[Walk]) -> None:
    assert [walk.way_to(state) for walk in walks for state in outlives_the_clock(walk)] == []
