"""Models that fail, fall silent or are slow, over real sockets; and runs that do not wait."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import SecretStr

from orchestrator.commands import Cancel, CreateRun
from orchestrator.ids import mint
from orchestrator.records import RunSpec
from orchestrator.settings import ModelRoute, Settings
from orchestrator.shell import change_run
from orchestrator.store import Store
from tests.engine.rig import (
    EngineRoom,
    new_message,
    run_command,
    run_reaches,
    start_run,
    texts,
)
from tests.llm.chat_server import DONE, HANG, ChatServer, stop_event, text_event
from tests.waiting import until

PINGS = b": ping\n\n"


@pytest.fixture
async def room(
    store: Store, provider: ChatServer, redis_url: SecretStr
) -> AsyncIterator[EngineRoom]:
    """One engine that asks the provider, and gives up on silence after 0.4 s."""
    good = ModelRoute(api="openai", base_url=provider.base_url)
    dead = ModelRoute(api="openai", base_url="http://127.0.0.1:1/v1")
    settings = Settings(
        redis_url=redis_url,
        model_first_token_timeout_s=0.4,
        model_timeout_s=0.4,
        model_total_timeout_s=1.2,
        model_max_retries=0,
        model_routes={"best": (dead, good), "*": (good,)},
    )
    room = EngineRoom(store, settings)
    room.start("e1")
    yield room
    await room.close()


def asking(model: str, ttl_s: float = 60, **spec: Any) -> CreateRun:
    return CreateRun(
        run_id=mint("run"),
        spec=RunSpec(assistant_id="asst_1", model=model, **spec),
        ttl_ms=round(ttl_s * 1000),
        additional_messages=(new_message("Hello"),),
    )


async def last_error(store: Store, provider: ChatServer, command: CreateRun) -> tuple[str, str]:
    view = await run_reaches(store, await start_run(store, command), "failed")
    assert view.run.last_error is not None
    return view.run.last_error.code, view.run.last_error.message


@pytest.mark.usefixtures("room")
async def test_a_model_that_sends_only_pings_has_said_nothing(
    store: Store, provider: ChatServer
) -> None:
    provider.answers(PINGS, HANG)
    code, message = await last_error(store, provider, asking("gpt-x"))
    assert (code, message) == ("server_error", "The model gpt-x said nothing for 0.4 s.")
    await asyncio.wait_for(provider.client_left.wait(), 1)


@pytest.mark.usefixtures("room")
async def test_a_model_that_falls_silent_in_its_answer_has_failed(
    store: Store, provider: ChatServer
) -> None:
    provider.answers(text_event("Well"), PINGS, HANG)
    _, message = await last_error(store, provider, asking("gpt-x"))
    assert "in time" in message or "said nothing for 0.4 s" in message


async def test_a_model_that_never_comes_to_an_end_is_cut_off(
    store: Store, provider: ChatServer, redis_url: SecretStr
) -> None:
    route = ModelRoute(api="scripted")
    room = EngineRoom(
        store,
        Settings(
            redis_url=redis_url,
            model_total_timeout_s=0.5,
            model_max_retries=0,
            model_routes={"scripted/*": (route,)},
        ),
    )
    room.start("e1")
    script = '{"turns": [{"text": "and so on and so on and so on", "chunk_delay_s": 0.2}]}'
    command = CreateRun(
        run_id=mint("run"),
        spec=RunSpec(assistant_id="asst_1", model="scripted/inline"),
        ttl_ms=60_000,
        additional_messages=(new_message(script),),
    )
    _, message = await last_error(store, provider, command)
    assert message == "The model scripted/inline did not end its answer within 0.5 s."
    await room.close()


@pytest.mark.usefixtures("room")
async def test_a_cancel_aborts_the_request_to_the_provider_within_a_second(
    store: Store, provider: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider.answers(text_event("Once"), *[text_event(" more")] * 3, HANG)
    ref = await start_run(store, asking("gpt-x"))

    async def has_been_asked() -> bool:
        return bool(provider.asked)

    await until(has_been_asked)
    await change_run(store, ref, Cancel(watchdog_ms=60_000))
    await asyncio.wait_for(provider.client_left.wait(), 1)
    await run_reaches(store, ref, "cancelled", within_s=1)


async def test_a_wait_that_is_longer_than_the_run_is_not_begun(
    store: Store, provider: ChatServer, redis_url: SecretStr
) -> None:
    room = EngineRoom(store, Settings(redis_url=redis_url, openai_base_url=provider.base_url))
    room.start("e1")
    provider.refuses(429, {"message": "Slow down."}, {"retry-after": "90"})
    code, message = await last_error(store, provider, asking("gpt-x", ttl_s=60))
    assert code == "rate_limit_exceeded"
    assert "Slow down." in message
    assert "after the end of the run" in message
    assert len(provider.asked) == 1
    await room.close()


@pytest.mark.usefixtures("room")
async def test_the_next_route_is_asked_when_the_first_one_fails(
    store: Store, provider: ChatServer
) -> None:
    provider.answers(text_event("Here."), stop_event("stop"), DONE)
    ref = await start_run(store, asking("best"))
    view = await run_reaches(store, ref, "completed")
    assert await texts(store, ref.thread_id) == ["Here."]
    assert view.run.failed_attempts == 1


@pytest.mark.usefixtures("room")
async def test_an_answer_is_asked_to_keep_within_what_is_left_of_the_run(
    store: Store, provider: ChatServer
) -> None:
    provider.answers(text_event("Here."), stop_event("length"), DONE)
    ref = await start_run(store, asking("gpt-x", max_completion_tokens=256))
    view = await run_reaches(store, ref, "incomplete")
    assert provider.asked[0].body["max_completion_tokens"] == 256
    assert view.run.incomplete_reason == "max_completion_tokens"


async def test_each_turn_has_all_repetitions_also_after_words_that_broke_off(
    store: Store, redis_url: SecretStr
) -> None:
    room = EngineRoom(store, Settings(redis_url=redis_url, model_max_retries=1))
    room.start("e1")
    broken = {"text": "Half of", "error": {"status": 503, "message": "gone"}}
    asks = {"tool_calls": [{"name": "nobody_has_this"}]}
    script = {"turns": [broken, asks, broken, {"text": "All of it."}]}
    view = await run_reaches(store, await start_run(store, run_command(script)), "completed")
    assert (view.run.turns, view.run.failed_attempts) == (2, 2)
    await room.close()


async def test_the_repetitions_of_a_turn_are_counted_over_all_engines_that_had_it(
    store: Store, redis_url: SecretStr
) -> None:
    room = EngineRoom(store, Settings(redis_url=redis_url, model_max_retries=1))
    room.start("e1")
    gone = {"status": 503, "message": "gone"}
    script = {"turns": [{"text": "Half of", "error": gone}, {"error": gone}, {"text": "Late."}]}
    view = await run_reaches(store, await start_run(store, run_command(script)), "failed")
    assert view.run.failed_attempts == 2
    await room.close()
