"""What is kept of turns that were played, and the request that is made again from it."""

from dataclasses import replace

from pydantic import SecretStr

from orchestrator.commands import SubmitOutputs
from orchestrator.llm.sent import request_body, weights
from orchestrator.records import CallState, Usage
from orchestrator.settings import ModelRoute, Settings
from orchestrator.shell import change_run
from orchestrator.store import RunRef, Store
from tests.engine.rig import EngineRoom, new_message, run_command, run_reaches, start_run

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
    assert second.asked_ms
    assert first.asked_ms
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


async def test_a_turn_for_which_nothing_fits_is_kept_with_what_was_left_out(
    store: Store, redis_url: SecretStr
) -> None:
    narrow = ModelRoute(api="scripted", context_tokens=40)
    room = EngineRoom(store, Settings(redis_url=redis_url, model_routes={"narrow": (narrow,)}))
    room.start("e1")
    words = "Nothing of interest was found in this place. " * 10
    old = replace(run_command({}), additional_messages=(new_message(words), new_message(words)))
    window = await start_run(store, replace(old, spec=old.spec.but(model="narrow")))
    tokens = await start_run(
        store, replace(old, run_id="run_b", spec=old.spec.but(max_prompt_tokens=30))
    )
    failed = await run_reaches(store, window, "failed")
    assert failed.spec.max_prompt_tokens is None, "it is not the run's limit that is to blame"
    await run_reaches(store, tokens, "incomplete")
    await room.close()

    for ref, rule in ((window, "context_window"), (tokens, "max_prompt_tokens")):
        (turn,) = await store.read_turns(ref)
        assert (turn.dropped, turn.shown) == ({rule: ((0, 0),)}, ((1, 1),))
        assert turn.limit_tokens is not None
        assert turn.counted_tokens is not None
        assert turn.counted_tokens > turn.limit_tokens
        assert (turn.stop, turn.usage) == (None, None)


async def test_a_turn_that_was_handed_back_keeps_what_had_failed_before(
    store: Store, engines: EngineRoom
) -> None:
    breaks_off = {"text": "Once upon a", "error": {"status": 503, "message": "The line broke."}}
    engines.start("e1")
    ref = await start_run(store, run_command({"turns": [breaks_off, breaks_off, {"text": "Yes."}]}))
    await run_reaches(store, ref, "completed")
    (turn,) = await store.read_turns(ref)

    assert turn.failures == ("The line broke.", "The line broke.")
    assert (turn.generation, turn.stop) == (3, "done")
