"""Every interleaving of small runs, and what holds in all of them (see ``explorer``)."""

import pytest

from orchestrator.states import LEGAL, RunStatus, Trigger
from tests.unit.explorer.findings import cannot_end, cannot_recover, outlives_the_clock
from tests.unit.explorer.scenario import SCENARIOS, Scenario
from tests.unit.explorer.walk import Walk

pytestmark = pytest.mark.timeout(400)  # seconds; a busy machine needs five times the usual

NEVER_ASKED_FOR = {(RunStatus.QUEUED, Trigger.FAIL), (RunStatus.REQUIRES_ACTION, Trigger.FAIL)}
"""Legal, but no command does it today: only a model turn fails a run."""


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_whoever_crashes_the_others_complete_the_run_or_the_clock_ends_it(
    scenario: Scenario,
) -> None:
    walk = Walk(scenario).run()  # checks all invariants on every edge
    assert set(LEGAL) - walk.reached == NEVER_ASKED_FOR
    assert len(walk.states) > 1_000, "this is not every interleaving"
    for finding in (cannot_end, cannot_recover, outlives_the_clock):
        assert [walk.way_to(state) for state in finding(walk)] == [], finding.__doc__
