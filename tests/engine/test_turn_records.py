"""What is kept of turns that were played, and the request that is made again from it."""

from orchestrator.commands import SubmitOutputs
from orchestrator.llm.sent import request_body, weights
from orchestrator.records import CallState, Usage
from orchestrator.shell import change_run
from orchestrator.store import RunRef, Store
from tests.engine.rig import EngineRoom, run_command, run_reaches, start_run

USAGE = {"prompt_tokens": 11, "completion_tokens": 7}
SCRIPT = {
    "turns": [
        {"tool_calls": [{"name": "a", "arguments": {}}], "usage": USAGE},
        {"error": {"status": 503, "message": "busy"}},
        {"text": "It says {{ outputs.a }}."},
    ]
}


async def played(store: Store, engines: EngineRoom) -> RunRef:
    engines.start("e1")
    ref = await start_run(store, run_command(SCRIPT, tools=["a"]))
    view = await run_reaches(store, ref, "requires_action")
    (call,) = (call for call in view.calls if call.state is CallState.REQUIRED)
    await change_run(store, ref, SubmitOutputs(((call.id, "42"),)))
    await run_reaches(store, ref, "completed")
    return ref


async def test_each_turn_is_kept_with_what_was_shown_and_what_came_of_it(
    store: Store, engines: EngineRoom
) -> None:
    ref = await played(store, engines)
    first, second = await store.read_turns(ref)
    assert (first.turn, first.shown, first.stop) == (0, ((0, 0),), "tools")
    assert first.usage == Usage(**USAGE)
    assert (second.turn, second.shown, second.stop) == (1, ((0, 2),), "done")
    assert second.failures == ("busy",)
    assert second.asked_ms > first.asked_ms


async def test_the_request_is_made_again_as_it_was_then(store: Store, engines: EngineRoom) -> None:
    ref = await played(store, engines)
    entries, view = await store.read_entries(ref.thread_id), await store.view(ref)
    first, second = [
        request_body(turn, ref.run_id, view.spec, entries) for turn in await store.read_turns(ref)
    ]
    assert [message["role"] for message in first["messages"]] == ["user"]
    assert [message["role"] for message in second["messages"]] == ["user", "assistant", "tool"]
    assert second["messages"][-1]["content"] == "42"
    turn = (await store.read_turns(ref))[1]
    assert [group["entries"] for group in weights(turn, entries)] == [[0], [1, 2]]
    as_anthropic = request_body(turn.but(api="anthropic"), ref.run_id, view.spec, entries)
    assert as_anthropic["max_tokens"] == turn.max_output_tokens
