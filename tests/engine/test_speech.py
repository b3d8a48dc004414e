"""What the model says is in the log while it says it, and agrees with what is stored in the end."""

import json

from orchestrator.commands import Cancel
from orchestrator.decisions import Event, EventType
from orchestrator.records import Message, MessageStatus
from orchestrator.shell import change_run
from orchestrator.store import PageQuery, RunRef, Store
from tests.engine.rig import EngineRoom, run_command, run_reaches, start_run, texts
from tests.waiting import until

SLOW = {"turns": [{"text": "one two three four five six", "chunk_delay_s": 0.2}]}

BROKEN = {"text": "Half of", "chunk_delay_s": 0.1}


async def events_of(store: Store, ref: RunRef) -> list[Event]:
    return [event for _, event in await store.read_events(ref)]


async def said(store: Store, ref: RunRef, message_id: str) -> str:
    deltas = [event.delta for event in await events_of(store, ref) if event.delta]
    return "".join(d["text"] for d in deltas if d.get("message_id") == message_id)


async def messages(store: Store, ref: RunRef) -> list[Message]:
    page = await store.list_messages(ref.thread_id, PageQuery(limit=100, order="asc"))
    return [message for message in page.items if message.role == "assistant"]


async def first_words(store: Store, ref: RunRef) -> Message:
    """The message that is being written, once some of it is in the log."""

    async def look() -> Message | None:
        written = await messages(store, ref)
        return written[-1] if written and await said(store, ref, written[-1].id) else None

    return await until(look)


async def test_words_are_in_the_log_while_the_model_still_speaks(
    store: Store, engines: EngineRoom
) -> None:
    engines.start("e1")
    ref = await start_run(store, run_command(SLOW))
    message = await first_words(store, ref)
    assert message.status is MessageStatus.IN_PROGRESS
    assert await said(store, ref, message.id) != "one two three four five six"
    await run_reaches(store, ref, "completed")
    assert await said(store, ref, message.id) == "one two three four five six"
    assert await texts(store, ref.thread_id) == ["one two three four five six"]


async def test_a_message_is_told_from_its_begin_to_its_end_in_order(
    store: Store, engines: EngineRoom
) -> None:
    engines.start("e1")
    ref = await start_run(store, run_command({"turns": [{"text": "Hi."}]}))
    await run_reaches(store, ref, "completed")
    assert [event.type for event in await events_of(store, ref)] == [
        EventType.RUN_CREATED,
        EventType.RUN_QUEUED,
        EventType.RUN_IN_PROGRESS,
        EventType.STEP_CREATED,
        EventType.MESSAGE_CREATED,
        EventType.MESSAGE_DELTA,
        EventType.MESSAGE_COMPLETED,
        EventType.STEP_COMPLETED,
        EventType.RUN_COMPLETED,
    ]


async def test_calls_are_told_piece_by_piece_under_the_ids_that_they_keep(
    store: Store, engines: EngineRoom
) -> None:
    arguments = [{"text": "a" * 100}, {"text": "b" * 100}]
    calls = [{"name": "ask", "arguments": each} for each in arguments]
    engines.start("e1")
    script = {"turns": [{"tool_calls": calls, "chunk_delay_s": 0.03}]}
    ref = await start_run(store, run_command(script, tools=["ask"]))
    view = await run_reaches(store, ref, "requires_action")
    deltas = [event.delta for event in await events_of(store, ref) if event.delta]
    assert len(deltas) > 2
    for index, call in enumerate(view.calls):
        pieces = [delta for delta in deltas if delta["index"] == index]
        assert [piece.get("call_id") for piece in pieces] == [call.id] + [None] * (len(pieces) - 1)
        assert pieces[0]["name"] == "ask"
        joined = "".join(piece["arguments"] for piece in pieces)
        assert joined == call.arguments
        assert json.loads(joined) == arguments[index]


async def test_an_answer_cut_by_the_death_of_its_engine_is_closed_and_given_anew(
    store: Store, engines: EngineRoom
) -> None:
    engines.start("e1")
    ref = await start_run(store, run_command(SLOW))
    lost = await first_words(store, ref)
    await engines.kill("e1")
    engines.start("e2")
    await run_reaches(store, ref, "completed")
    first, second = await messages(store, ref)
    assert (first.id, first.status, first.is_void) == (lost.id, MessageStatus.INCOMPLETE, True)
    assert first.content[0]["text"]["value"] == await said(store, ref, first.id)
    assert second.content[0]["text"]["value"] == await said(store, ref, second.id)
    types = [event.type for event in await events_of(store, ref)]
    assert types.count(EventType.MESSAGE_INCOMPLETE) == types.count(EventType.STEP_FAILED) == 1


async def test_an_answer_cut_by_its_provider_is_closed_and_given_anew(
    store: Store, engines: EngineRoom
) -> None:
    broken = {**BROKEN, "error": {"status": 503, "message": "gone"}}
    engines.start("e1")
    ref = await start_run(store, run_command({"turns": [broken, {"text": "All of it."}]}))
    view = await run_reaches(store, ref, "completed")
    assert view.run.failed_attempts == 1
    first, second = await messages(store, ref)
    assert (first.is_void, second.is_void) == (True, False)
    assert await texts(store, ref.thread_id) == ["All of it."]


async def test_a_provider_that_always_breaks_off_fails_the_run(
    store: Store, engines: EngineRoom
) -> None:
    broken = {**BROKEN, "error": {"status": 503, "message": "gone"}, "repeat": True}
    engines.start("e1")
    ref = await start_run(store, run_command({"turns": [broken]}))
    view = await run_reaches(store, ref, "failed")
    assert view.run.failed_attempts == 3
    assert [message.status for message in await messages(store, ref)] == ["incomplete"] * 3


async def test_a_cancelled_answer_keeps_exactly_what_was_told(
    store: Store, engines: EngineRoom
) -> None:
    engines.start("e1")
    ref = await start_run(store, run_command(SLOW))
    await first_words(store, ref)
    await change_run(store, ref, Cancel(watchdog_ms=5_000))
    await run_reaches(store, ref, "cancelled")
    (message,) = await messages(store, ref)
    assert (message.status, message.incomplete_reason) == ("incomplete", "run_cancelled")
    assert message.content[0]["text"]["value"] == await said(store, ref, message.id)
    assert not message.is_void
