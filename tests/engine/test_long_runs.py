"""A run of forty turns with a small window: what is forgotten, what is kept, and what says why."""

import pytest
from pydantic import SecretStr
from redis.asyncio import Redis, from_url

from orchestrator.commands import CallResult, ClaimCall, Outcome
from orchestrator.llm.sent import request_body
from orchestrator.records import CallState, ToolSpec
from orchestrator.settings import ModelRoute, Settings
from orchestrator.shell import change_run, view_run
from orchestrator.store import RunRef, Store
from orchestrator.turn_record import is_within
from tests.engine.rig import EngineRoom, run_command, run_reaches, start_run
from tests.waiting import until

TURNS = 40
FACT = "The key is under the stone."
FILLER = "Nothing of interest was found in this place. " * 5
SCRIPT = {
    "turns": [
        *({"tool_calls": [{"name": "look", "arguments": {}}]} for _ in range(3)),
        {"tool_calls": [{"name": "recall", "arguments": {}}]},
        {"tool_calls": [{"name": "look", "arguments": {}}], "repeat": True},
    ]
}


async def answer_next(store: Store, ref: RunRef) -> None:
    """A worker answers the call that waits for it."""

    async def dispatched() -> str | None:
        calls = (await view_run(store, ref)).calls
        return next((call.id for call in calls if call.state is CallState.DISPATCHED), None)

    call_id = await until(dispatched)
    claimed = await change_run(store, ref, ClaimCall(call_id, "worker_1", 10_000))
    call = claimed.call(call_id)
    assert call is not None
    text = FACT if call.name == "recall" else FILLER
    await change_run(store, ref, CallResult(call_id, call.generation, Outcome.SUCCEEDED, text))


@pytest.mark.parametrize("is_pinned", [False, True])
async def test_a_fact_of_the_fourth_turn_is_kept_only_if_pinned_and_the_turns_say_so(
    store: Store, redis_url: SecretStr, is_pinned: bool
) -> None:
    route = ModelRoute(api="scripted", context_tokens=1_000)
    settings = Settings(redis_url=redis_url, model_routes={"scripted/*": (route,)})
    tools = [ToolSpec(name="look"), ToolSpec(name="recall", pin_result=is_pinned)]
    await store.publish_tools(tools, ttl_s=60)
    room = EngineRoom(store, settings)
    room.start("e1")
    ref = await start_run(store, run_command(SCRIPT, tools=["look", "recall"], max_turns=TURNS))
    for _ in range(TURNS - 1):
        await answer_next(store, ref)

    async def has_ended() -> bool:
        return (await view_run(store, ref)).run.is_final

    await until(has_ended)
    await room.close()
    turns, entries = await store.read_turns(ref), await store.read_entries(ref.thread_id)
    assert [turn.turn for turn in turns] == list(range(TURNS))
    spec = (await view_run(store, ref)).spec
    assert (FACT in str(request_body(turns[-1], ref.run_id, spec, entries))) is is_pinned
    fact_seq = next(entry.seq for entry in entries if getattr(entry, "text", "") == FACT)
    left_out = turns[-1].dropped["context_window"]
    assert is_within(fact_seq, left_out) is not is_pinned
    sizes = [len(turn.model_dump_json()) for turn in turns]
    assert max(sizes[20:]) - min(sizes[20:]) < 60


async def test_a_run_of_two_hundred_turns_takes_twice_the_space_of_one_of_a_hundred(
    store: Store, redis_url: SecretStr
) -> None:
    narrow = ModelRoute(api="scripted", context_tokens=1_000)
    room = EngineRoom(store, Settings(redis_url=redis_url, model_routes={"scripted/*": (narrow,)}))
    room.start("e1")
    asks = {"turns": [{"tool_calls": [{"name": "nobody", "arguments": {}}], "repeat": True}]}
    client = from_url(redis_url.get_secret_value())
    sizes = []
    for turns in (100, 200):
        before = await stored_bytes(client)
        await run_reaches(
            store, await start_run(store, run_command(asks, max_turns=turns)), "failed", within_s=60
        )
        sizes.append(await stored_bytes(client) - before)
    await client.aclose()
    await room.close()
    assert sizes[1] < 2.1 * sizes[0]


async def stored_bytes(client: Redis) -> int:
    """What all keys together take."""
    keys = [key async for key in client.scan_iter(count=1_000)]
    return sum([await client.memory_usage(key, samples=0) or 0 for key in keys])
