"""What an engine does with turns: plays them, takes over lost ones, lets go of cancelled ones."""

import json

import pytest

from orchestrator.commands import Cancel, SubmitOutputs
from orchestrator.decisions import EventType
from orchestrator.records import CallState, ToolSpec
from orchestrator.shell import change_run
from orchestrator.store import RunRef, Store
from tests.engine.rig import CutOffStore, EngineRoom, run_command, run_reaches, start_run, texts
from tests.waiting import until

HANGING = {"turns": [{"delay_s": 30, "text": "too late"}]}


async def submit_all(store: Store, ref: RunRef, output: str) -> None:
    view = await run_reaches(store, ref, "requires_action")
    waiting = [call.id for call in view.calls if call.state is CallState.REQUIRED]
    await change_run(store, ref, SubmitOutputs(tuple((call, output) for call in waiting)))


async def test_a_run_without_tools_ends_with_the_models_answer(
    store: Store, engines: EngineRoom
) -> None:
    engines.start("e1")
    usage = {"prompt_tokens": 11, "completion_tokens": 7}
    ref = await start_run(store, run_command({"turns": [{"text": "Hello.", "usage": usage}]}))
    view = await run_reaches(store, ref, "completed")
    assert await texts(store, ref.thread_id) == ["Hello."]
    assert view.run.usage is not None
    assert view.run.usage.total_tokens == 18
    assert [step.type for step in view.steps] == ["message_creation"]


async def test_a_run_asks_for_tools_in_two_rounds_and_each_turn_reads_all_outputs(
    store: Store, engines: EngineRoom
) -> None:
    script = {
        "turns": [
            {"tool_calls": [{"name": "a", "arguments": {}}, {"name": "b", "arguments": {}}]},
            {"text": "One more.", "tool_calls": [{"name": "a", "arguments": {"n": 2}}]},
            {"text": "{{ outputs.a }} and {{ outputs.b }}"},
        ]
    }
    engines.start("e1")
    ref = await start_run(store, run_command(script, tools=["a", "b"]))
    await submit_all(store, ref, "first")
    await submit_all(store, ref, "second")
    view = await run_reaches(store, ref, "completed")
    assert await texts(store, ref.thread_id) == ["One more.", "second and first"]
    assert [step.type for step in view.steps] == [
        "tool_calls",
        "message_creation",
        "tool_calls",
        "message_creation",
    ]


async def test_a_tool_that_workers_publish_goes_to_their_queue_and_not_to_the_client(
    store: Store, engines: EngineRoom
) -> None:
    await store.publish_tools([ToolSpec(name="a", queue="slow")], ttl_s=60)
    engines.start("e1")
    script = {"turns": [{"tool_calls": [{"name": "a", "arguments": {}}]}]}
    ref = await start_run(store, run_command(script, tools=["a"]))
    view = await run_reaches(store, ref, "requires_action")
    assert [(call.state, call.queue) for call in view.calls] == [(CallState.DISPATCHED, "slow")]


async def test_a_turn_of_a_killed_engine_is_played_by_another(
    store: Store, engines: EngineRoom
) -> None:
    engines.start("e1")
    ref = await start_run(store, run_command({"turns": [{"delay_s": 1.2, "text": "Here."}]}))
    await run_reaches(store, ref, "in_progress")
    await engines.kill("e1")
    engines.start("e2")
    view = await run_reaches(store, ref, "completed")
    assert view.run.generation == 2
    assert await texts(store, ref.thread_id) == ["Here."]
    types = [event.type for _, event in await store.read_events(ref)]
    assert EventType.TURN_LOST in types


async def test_the_late_reply_of_a_stale_engine_changes_nothing(
    store: Store, engines: EngineRoom
) -> None:
    slow = engines.start("slow", CutOffStore(store))
    ref = await start_run(store, run_command({"turns": [{"delay_s": 1.5, "text": "Reply."}]}))
    await run_reaches(store, ref, "in_progress")
    engines.start("quick")
    view = await run_reaches(store, ref, "completed")

    async def slow_is_idle() -> bool:
        return not slow._turns

    await until(slow_is_idle)
    assert view.run.generation >= 2
    assert await texts(store, ref.thread_id) == ["Reply."]


async def test_a_run_that_never_stops_asking_for_tools_ends_at_the_cap_of_turns(
    store: Store, engines: EngineRoom
) -> None:
    script = {"turns": [{"tool_calls": [{"name": "a", "arguments": {}}], "repeat": True}]}
    engines.start("e1")
    ref = await start_run(store, run_command(script, tools=["a"], max_turns=3))
    await submit_all(store, ref, "again")
    await submit_all(store, ref, "and again")
    view = await run_reaches(store, ref, "failed")
    assert view.run.turns == 3
    assert view.run.last_error is not None
    assert "3 model turns" in view.run.last_error.message


async def test_cancel_aborts_the_model_call_long_before_the_watchdog(
    store: Store, engines: EngineRoom
) -> None:
    engine = engines.start("e1")
    ref = await start_run(store, run_command(HANGING))
    await run_reaches(store, ref, "in_progress")
    await change_run(store, ref, Cancel(watchdog_ms=60_000))
    await run_reaches(store, ref, "cancelled", within_s=2)

    async def is_idle() -> bool:
        return not engine._turns

    await until(is_idle)
    assert await texts(store, ref.thread_id) == []


async def test_cancel_is_confirmed_by_the_watchdog_when_the_engine_is_gone(
    store: Store, engines: EngineRoom
) -> None:
    engines.start("e1")
    ref = await start_run(store, run_command(HANGING))
    await run_reaches(store, ref, "in_progress")
    await engines.kill("e1")
    await change_run(store, ref, Cancel(watchdog_ms=200))
    engines.start("e2")
    await run_reaches(store, ref, "cancelled")


async def test_a_run_expires_while_the_model_hangs_and_the_model_call_is_dropped(
    store: Store, engines: EngineRoom
) -> None:
    engine = engines.start("e1")
    ref = await start_run(store, run_command(HANGING, ttl_s=0.5))
    await run_reaches(store, ref, "expired")

    async def is_idle() -> bool:
        return not engine._turns

    await until(is_idle)


async def test_an_engine_that_is_told_to_stop_finishes_a_short_turn(
    store: Store, engines: EngineRoom
) -> None:
    engines.start("e1")
    ref = await start_run(store, run_command({"turns": [{"delay_s": 0.1, "text": "Quick."}]}))
    await run_reaches(store, ref, "in_progress", "completed")
    await engines.stop("e1")
    await run_reaches(store, ref, "completed")


async def test_an_engine_that_is_told_to_stop_hands_a_long_turn_back_at_once(
    store: Store, engines: EngineRoom
) -> None:
    engines.start("e1")
    ref = await start_run(store, run_command(HANGING))
    await run_reaches(store, ref, "in_progress")
    await engines.stop("e1")
    view = await run_reaches(store, ref, "queued", within_s=1)
    assert view.run.engine is None


async def test_a_failed_model_call_is_repeated_and_the_failures_are_counted(
    store: Store, engines: EngineRoom
) -> None:
    script = {"turns": [{"error": {"status": 503, "message": "busy"}}, {"text": "Now."}]}
    engines.start("e1")
    ref = await start_run(store, run_command(script))
    view = await run_reaches(store, ref, "completed")
    assert view.run.failed_attempts == 1
    assert await texts(store, ref.thread_id) == ["Now."]


@pytest.mark.parametrize(
    ("status", "code"),
    [(429, "rate_limit_exceeded"), (500, "server_error"), (400, "invalid_prompt")],
)
async def test_a_model_that_keeps_failing_fails_the_run_and_frees_the_thread(
    store: Store, engines: EngineRoom, status: int, code: str
) -> None:
    error = {"error": {"status": status, "message": "no"}, "repeat": True}
    engines.start("e1")
    ref = await start_run(store, run_command({"turns": [error]}))
    view = await run_reaches(store, ref, "failed")
    assert view.run.last_error is not None
    assert view.run.last_error.code == code
    again = await start_run(store, run_command({"turns": [{"text": "Fine."}]}), ref.thread_id)
    await run_reaches(store, again, "completed")


async def test_many_runs_are_played_at_once(store: Store, engines: EngineRoom) -> None:
    engines.start("e1")
    script = {"turns": [{"delay_s": 0.5, "text": "Hi."}]}
    refs = [await start_run(store, run_command(script)) for _ in range(50)]
    for ref in refs:
        await run_reaches(store, ref, "completed")


async def test_calls_that_cannot_be_made_are_answered_at_once_and_the_others_go_out(
    store: Store, engines: EngineRoom
) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    await store.publish_tools([ToolSpec(name="a", parameters=schema)], ttl_s=60)
    engines.start("e1")
    asked = [
        {"name": "a", "arguments": {"n": 1}},
        {"name": "a", "arguments": {"n": "one"}},
        {"name": "a", "arguments": "{"},
        {"name": "a", "arguments": ""},
        {"name": "multi_tool_use.parallel", "arguments": {"tool_uses": []}},
        {"name": "functions.a", "arguments": {"n": 1}},
    ]
    script = {"turns": [{"tool_calls": asked}]}
    ref = await start_run(store, run_command(script, tools=["a"]))
    view = await run_reaches(store, ref, "requires_action")
    states = [call.state for call in view.calls]
    assert states == [CallState.DISPATCHED, *[CallState.FAILED] * 5]
    refused = view.calls[1:]
    outputs = await store.read_outputs(ref.thread_id, [call.output_seq or 0 for call in refused])
    errors = [json.loads(outputs[call.id])["error"] for call in refused]
    kinds = ["invalid_arguments"] * 3 + ["unknown_tool"] * 2
    assert [error["type"] for error in errors] == kinds
    assert all("on each other: a." in error["message"] for error in errors[3:])
    assert [error["message"] for error in errors] == [call.error for call in refused]
