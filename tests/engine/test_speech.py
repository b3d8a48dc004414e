"""What the model says is in the log while it says it, and agrees with what is stored in the end."""

import asyncio
import json
from itertools import permutations

import pytest

from orchestrator.commands import Cancel, StartTurn, Stop
from orchestrator.decisions import Event, EventType
from orchestrator.engine.guarding import Reviewed
from orchestrator.engine.speech import Speech
from orchestrator.engine.turn import _result
from orchestrator.llm.protocol import CallDelta, Delta, Reply, ReplyCall, TextDelta
from orchestrator.records import Message, MessageStatus
from orchestrator.shell import change_run, view_run
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


WORDS, FIRST, SECOND = (
    TextDelta("I look."),
    CallDelta(0, "ask", '{"of":"it"}'),
    CallDelta(1, "ask", '{"of":"them"}'),
)


@pytest.mark.parametrize("order", [*permutations((WORDS, FIRST, SECOND))])
async def test_words_and_calls_are_told_right_in_whatever_order_they_come(
    store: Store, order: tuple[Delta, ...]
) -> None:
    """Each in a batch of its own; indexes are given as the calls appear."""
    ref = await start_run(store, run_command({"turns": []}, tools=["ask"]))
    run = (await change_run(store, ref, StartTurn("e1", 60_000))).run
    assert run is not None
    speech = Speech(store, run, batch_s=0)
    for delta in order:
        speech.hear(delta)
        await speech.end()
    calls = (ReplyCall("ask", FIRST.arguments), ReplyCall("ask", SECOND.arguments))
    reply = Reply(WORDS.text, calls, Stop.TOOLS)
    await change_run(store, ref, _result(run, Reviewed(reply), {}, speech))
    view = await view_run(store, ref)
    told = await events_of(store, ref)
    joined = {0: "", 1: ""}
    for event in told:
        if event.type is EventType.STEP_DELTA and event.delta:
            joined[event.delta["index"]] += event.delta["arguments"]
    assert list(joined.values()) == [call.arguments for call in view.calls]
    (message,) = await messages(store, ref)
    assert await said(store, ref, message.id) == WORDS.text
    has_calls_first = order[0] is FIRST or order[0] is SECOND
    assert [step.is_aside for step in view.steps] == [False, has_calls_first]


async def test_a_call_whose_predecessor_never_comes_does_not_hold_up_the_end(store: Store) -> None:
    ref = await start_run(store, run_command({"turns": []}, tools=["ask"]))
    run = (await change_run(store, ref, StartTurn("e1", 60_000))).run
    assert run is not None
    speech = Speech(store, run, batch_s=0.001)
    speech.hear(SECOND)
    async with asyncio.timeout(5):
        await speech.end()
    assert [event.type for event in await events_of(store, ref)][-1] is EventType.STEP_CREATED
