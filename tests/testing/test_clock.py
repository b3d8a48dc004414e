"""Time that passes because a test says so, and somebody who answers."""

from typing import Any

import pytest

from orchestrator import tool
from orchestrator.records import CallState
from orchestrator.states import RunStatus
from orchestrator.storage.scripts import SCRIPTS
from orchestrator.testing import Fault
from orchestrator.testing.runs import Runs
from orchestrator.testing.servers import TestStore

ON_BOTH = pytest.mark.parametrize("runstate_server", ["embedded", "fakeredis"], indirect=True)

ASKS: list[dict[str, Any]] = [
    {"tool_calls": [{"name": "pay", "arguments": {"cents": 5}}]},
    {"text": "{{ outputs.pay }}"},
]


@tool(approval="required", approval_timeout_s=300)
def pay(cents: int) -> str:
    """Pay an amount, once somebody has agreed."""
    return f"{cents} paid"


@ON_BOTH
async def test_an_approval_that_nobody_gives_is_rejected_at_its_time_and_not_before(
    runs: Runs,
) -> None:
    played = await runs.play(ASKS, [pay], run_ttl_s=600)
    assert (await runs.advance(played, 290)).calls[0].state is CallState.AWAITING_APPROVAL
    played = await runs.advance(played, 11)
    assert (played.status, played.calls[0].state) == (RunStatus.COMPLETED, CallState.FAILED)
    assert "approval_timed_out" in played.answers[0]


@ON_BOTH
async def test_what_is_due_happens_in_its_order_and_each_at_its_time(runs: Runs) -> None:
    """All at once, the run would have expired before its call was rejected."""
    played = await runs.play(ASKS, [pay], run_ttl_s=600)
    played = await runs.advance(played, 3_600)
    assert (played.status, played.calls[0].state) == (RunStatus.COMPLETED, CallState.FAILED)
    assert "within 300 seconds" in played.answers[0]
    store = await runs.store.open()
    view = await store.view(played.ref)
    await store.close()
    assert 300_000 <= (view.run.completed_ms or 0) - view.run.created_ms < 400_000
    assert view.now_ms - view.run.created_ms >= 3_600_000


async def test_a_run_that_waits_expires_at_its_deadline(runs: Runs) -> None:
    @tool(on_unknown="hold")
    def refund() -> str:
        """Refund what was paid, in one go."""
        return "refunded"

    turns = [{"tool_calls": [{"name": "refund"}]}]
    faults = {"refund": Fault.KILLED}
    played = await runs.play(turns, [refund], faults=faults, run_ttl_s=600)
    assert played.status is RunStatus.REQUIRES_ACTION
    assert (await runs.advance(played, 590)).status is RunStatus.REQUIRES_ACTION
    assert (await runs.advance(played, 11)).status is RunStatus.EXPIRED


async def test_a_call_goes_on_with_the_arguments_that_somebody_agreed_to(runs: Runs) -> None:
    played = await runs.approve(await runs.play(ASKS, [pay]), arguments='{"cents": 3}')
    assert (played.status, played.answers) == (RunStatus.COMPLETED, ("3 paid",))


async def test_a_rejected_call_is_not_made_and_the_model_is_told_why(runs: Runs) -> None:
    played = await runs.reject(await runs.play(ASKS, [pay]), "too much")
    assert (played.status, played.calls[0].state) == (RunStatus.COMPLETED, CallState.FAILED)
    assert "too much" in played.answers[0]


async def test_an_answer_that_no_call_waits_for_is_a_mistake_of_the_test(runs: Runs) -> None:
    played = await runs.approve(await runs.play(ASKS, [pay]))
    for answer in (runs.approve, runs.reject):
        with pytest.raises(ValueError, match=r"No call of this run waits.* it is completed"):
            await answer(played)


@ON_BOTH
async def test_the_scripts_of_the_store_read_the_same_clock(runstate_store: TestStore) -> None:
    store = await runstate_store.open()
    assert await store.take_slot("pay", "one", 1, 10_000)
    await store.move_to(await store.now_ms() + 9_000)
    assert not await store.take_slot("pay", "other", 1, 10_000)
    await store.move_to(await store.now_ms() + 2_000)
    assert await store.take_slot("pay", "other", 1, 10_000)
    await store.close()


def test_every_script_asks_for_the_time_in_the_way_that_the_clock_knows() -> None:
    asking = [script.text for script in SCRIPTS if "TIME'" in script.text]
    assert asking
    for text in asking:
        assert text.count("TIME'") == text.count("redis.call('TIME')")


async def test_engines_leave_the_timers_to_whoever_steps_from_one_to_the_next(
    runs: Runs,
) -> None:
    """An engine that had just taken a timer would not be done with it when the time has passed."""
    await runs.play(ASKS, [pay], run_ttl_s=600)
    store = await runs.store.open()
    await store.move_to(await store.now_ms() + 3_600_000)
    store.clock.is_stepped = True
    assert await store.take_due(10, 0) == ()
    store.clock.is_stepped = False
    assert len(await store.take_due(10, 0)) == 2
    await store.close()
