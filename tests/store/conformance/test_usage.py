"""Sums of what was used, and of what is under way: they are part of the commits they belong to."""

from dataclasses import replace

import pytest

from orchestrator.decisions import AddRun, CountUsage, SetTimer, TimerKey, TimerKind
from orchestrator.errors import StaleRevision
from orchestrator.records import CallState, Step, Tally, ToolCall
from orchestrator.states import RunStatus
from orchestrator.storage.valkey import ValkeyStore
from orchestrator.store import RunRef, UsageLine
from tests.store.faults import Faulty
from tests.store.samples import SPEC, change, changed, new_call, new_run, new_step, put_run

DAY_MS = 86_400_000
ONE = Tally(turns=1, prompt_tokens=10, cached_tokens=4, completion_tokens=2, cost_micros=30)
UNKNOWN = Tally(turns=1, uncounted_turns=1, unpriced_turns=1)


async def test_sums_are_kept_by_day_tenant_and_model_and_added_up_over_all_partitions(
    store: ValkeyStore,
) -> None:
    for _ in range(5):
        await put_run(store, effects=[CountUsage("library", "gpt-x", 3 * DAY_MS - 1, ONE)])
    strange = "a|b|turns"
    await put_run(store, effects=[CountUsage("library", strange, 3 * DAY_MS, UNKNOWN)])
    five = Tally(turns=5, prompt_tokens=50, cached_tokens=20, completion_tokens=10, cost_micros=150)
    assert await store.read_usage() == (
        UsageLine(None, "library", strange, UNKNOWN),
        UsageLine(None, "library", "gpt-x", five),
    )
    assert await store.read_usage(["1970-01-03"]) == (
        UsageLine("1970-01-03", "library", "gpt-x", five),
    )
    both = await store.read_usage(["1970-01-04", "1970-01-03", "1970-01-05"])
    assert [line.day for line in both] == ["1970-01-03", "1970-01-04"]


async def test_a_decision_that_comes_too_late_counts_nothing(store: ValkeyStore) -> None:
    ref = await put_run(store)
    stale = await store.load(ref.thread_id, ref.run_id)
    await change(store, ref)
    with pytest.raises(StaleRevision):
        await store.commit(*changed(stale, CountUsage("library", "gpt-x", 0, ONE)))
    assert await store.read_usage() == ()


async def test_a_commit_whose_answer_was_lost_counts_once(store: ValkeyStore) -> None:
    ref = await put_run(store)
    decided = changed(
        await store.load(ref.thread_id, ref.run_id), CountUsage("library", "gpt-x", 0, ONE)
    )
    faulty = Faulty(store, fail_at=1, after=True)
    await store.commit(*decided)
    assert faulty.calls == 2
    assert await store.read_usage() == (UsageLine(None, "library", "gpt-x", ONE),)


async def test_the_census_counts_runs_under_the_status_that_clients_see(
    store: ValkeyStore,
) -> None:
    ref = await put_run(store)
    await put_run(store)
    waiting = new_run(ref.thread_id, created_ms=2000)
    await change(store, ref, AddRun(waiting, SPEC, ()))
    assert (await store.census()).active == {RunStatus.QUEUED: 3}

    step = new_step()
    for_worker, for_client = new_call(step), new_call(step).but(state=CallState.REQUIRED)
    for status, calls, counted in (
        (RunStatus.IN_PROGRESS, (), {RunStatus.QUEUED: 2, RunStatus.IN_PROGRESS: 1}),
        (
            RunStatus.REQUIRES_ACTION,
            (for_worker,),
            {RunStatus.QUEUED: 2, RunStatus.IN_PROGRESS: 1},
        ),
        (
            RunStatus.REQUIRES_ACTION,
            (for_client,),
            {RunStatus.QUEUED: 2, RunStatus.REQUIRES_ACTION: 1},
        ),
        (RunStatus.FAILED, (), {RunStatus.QUEUED: 2}),
    ):
        await become(store, ref, status, step, *calls)
        assert (await store.census()).active == counted


async def test_the_census_counts_timers_that_nobody_looks_for(store: ValkeyStore) -> None:
    ref = await put_run(store)
    now_ms = await store.now_ms()
    keys = [TimerKey(TimerKind.CALL_RETRY, 1, f"call_{number}") for number in range(3)]
    times_ms = (now_ms - 5_000, now_ms - 100, now_ms + 60_000)
    await change(store, ref, *map(SetTimer, keys, times_ms))
    assert (await store.census()).overdue_timers == 1


async def become(
    store: ValkeyStore, ref: RunRef, status: RunStatus, step: Step, *calls: ToolCall
) -> None:
    """The run as it is with this status and these calls."""
    loaded, decision = changed(await store.load(ref.thread_id, ref.run_id))
    run = decision.aggregate.run
    assert run is not None
    after = decision.aggregate.but(run=run.but(status=status), steps=(step,), calls=calls)
    await store.commit(loaded, replace(decision, aggregate=after))
