"""Engines play the runs of a busy thread in their turn, and clear up after deleted threads."""

from contextlib import suppress
from dataclasses import replace

import pytest

from orchestrator.commands import DeleteThread, IfBusy
from orchestrator.errors import NotFound, StoreUnavailable
from orchestrator.records import ToolSpec
from orchestrator.shell import change_thread, delete_thread, view_run
from orchestrator.storage.valkey import ValkeyStore
from orchestrator.store import PageQuery, RunRef, Store
from tests.engine.rig import EngineRoom, Script, run_command, run_reaches, start_run, texts
from tests.leaks import left_keys
from tests.store.faults import Faulty
from tests.waiting import until

HANGING = {"turns": [{"delay_s": 30, "text": "too late"}]}
TALKING = {"turns": [{"text": "One " * 1000, "chunk_delay_s": 0.02}]}


def answering(text: str) -> Script:
    return {"turns": [{"text": text}]}


async def text_again(store: Store, ref: RunRef, if_busy: IfBusy, text: str) -> RunRef:
    command = replace(run_command(answering(text)), if_busy=if_busy, watchdog_ms=5_000)
    await change_thread(store, ref.thread_id, command)
    return RunRef(ref.thread_id, command.run_id)


async def test_runs_that_wait_are_played_one_after_another(
    store: Store, engines: EngineRoom
) -> None:
    first = await start_run(store, run_command(answering("One")))
    waiting = [await text_again(store, first, IfBusy.ENQUEUE, text) for text in ("Two", "Three")]
    engines.start("e1")
    await run_reaches(store, waiting[-1], "completed")
    assert await texts(store, first.thread_id) == ["One", "Two", "Three"]
    runs = [await view_run(store, ref) for ref in (first, *waiting)]
    ends = [view.run.completed_ms for view in runs]
    starts = [view.run.started_ms for view in runs]
    assert all(end and start and end <= start for end, start in zip(ends, starts[1:], strict=False))


@pytest.mark.parametrize("if_busy", [IfBusy.INTERRUPT, IfBusy.ROLLBACK])
async def test_the_engine_lets_go_of_the_model_and_plays_the_next_run(
    store: Store, engines: EngineRoom, if_busy: IfBusy
) -> None:
    engines.start("e1")
    first = await start_run(store, run_command(HANGING))
    await run_reaches(store, first, "in_progress")
    second = await text_again(store, first, if_busy, "Here.")
    await run_reaches(store, second, "completed", within_s=4)
    assert (await view_run(store, first)).run.status == "cancelled"
    assert await texts(store, first.thread_id) == ["Here."]
    said = await texts(store, first.thread_id, "user")
    assert len(said) == (2 if if_busy is IfBusy.INTERRUPT else 1)


@pytest.mark.parametrize("if_busy", [IfBusy.INTERRUPT, IfBusy.ROLLBACK])
async def test_what_was_said_before_an_interruption_stays_and_a_rollback_takes_it_away(
    store: Store, engines: EngineRoom, if_busy: IfBusy
) -> None:
    engines.start("e1")
    first = await start_run(store, run_command(TALKING))

    async def has_begun() -> bool:
        return bool(await texts_so_far(store, first))

    await until(has_begun)
    second = await text_again(store, first, if_busy, "Here.")
    await run_reaches(store, second, "completed")
    page = await store.list_messages(first.thread_id, PageQuery(order="asc"))
    said = [m.content[0]["text"]["value"][:4] for m in page.items if m.role == "assistant"]
    assert said == (["One ", "Here"] if if_busy is IfBusy.INTERRUPT else ["Here"])


async def texts_so_far(store: Store, ref: RunRef) -> str:
    return (await store.load(ref.thread_id, ref.run_id)).aggregate.partial


async def test_an_engine_clears_up_after_a_deleted_thread(
    store: ValkeyStore, engines: EngineRoom
) -> None:
    await store.publish_tools([ToolSpec(name="a", queue="slow")], ttl_s=60)
    script = {"turns": [{"tool_calls": [{"name": "a", "arguments": {}}]}]}
    engines.start("e1")
    ref = await start_run(store, run_command(script, tools=["a"]))
    await text_again(store, ref, IfBusy.ENQUEUE, "never said")
    await run_reaches(store, ref, "requires_action")
    await delete_thread(store, ref.thread_id)
    await until(lambda: is_clear(store))


async def is_clear(store: ValkeyStore) -> bool:
    return not await left_keys(store._client, "rs")


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_deletion_that_is_broken_off_anywhere_is_completed(
    store: ValkeyStore, engines: EngineRoom, after: bool
) -> None:
    real, fail_at, is_through = store.pipeliner, 0, False
    while not is_through:
        fail_at += 1
        ref = await start_run(store, run_command(answering("One")))
        await text_again(store, ref, IfBusy.ENQUEUE, "Two")
        faulty = Faulty(store, fail_at, after=after)
        try:
            await delete_thread(store, ref.thread_id)
        except StoreUnavailable:
            store.pipeliner = real
            with suppress(NotFound):  # where only the answer was lost
                await delete_thread(store, ref.thread_id)
        store.pipeliner = real
        is_through = faulty.calls < fail_at
        with pytest.raises(NotFound):
            await change_thread(store, ref.thread_id, DeleteThread())
    assert fail_at > 4
    engines.start("e1")
    await until(lambda: is_clear(store))
