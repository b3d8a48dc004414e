"""Which endpoint is asked for a model, by its name and after failures."""

import asyncio
import json
import os
import sys

import pytest
from pydantic import SecretStr, ValidationError

from orchestrator.errors import ModelError
from orchestrator.llm.routing import Models, missing_endpoint
from orchestrator.settings import ModelRoute, Settings
from tests.llm.chat_server import DONE, ChatServer, stop_event, text_event
from tests.llm.conftest import KEY
from tests.llm.turns import heard, played, turn_request


def answer(server: ChatServer) -> None:
    server.answers(text_event("Yes"), stop_event("stop"), DONE)


async def ask(models: Models, name: str, attempt: int = 0) -> None:
    await played(models.model_for(name, attempt), turn_request(name, [heard("Hello")]))


async def test_the_first_pattern_that_fits_decides(chat_server: ChatServer) -> None:
    here = ModelRoute(api="openai", base_url=chat_server.base_url)
    nowhere = ModelRoute(api="openai", base_url="http://127.0.0.1:1/v1")
    models = Models(Settings(model_routes={"qwen-2*": (here,), "qwen-*": (nowhere,)}))
    answer(chat_server)

    await ask(models, "qwen-2.5")
    with pytest.raises(ModelError):
        await ask(models, "qwen-3")

    assert models.routes("claude-x")[0].api == "anthropic"
    assert models.routes("scripted/x")[0].api == "scripted"
    assert models.routes("anything")[0].api == "openai"
    await models.aclose()


async def test_a_route_has_its_own_key_and_never_gets_that_of_the_settings(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QWEN_KEY", "sk-of-qwen")
    keyed = ModelRoute(api="openai", base_url=chat_server.base_url, key_variable="QWEN_KEY")
    settings = Settings(
        openai_api_key=SecretStr(KEY),
        model_routes={
            "keyed": (keyed,),
            "bare": (ModelRoute(api="openai", base_url=chat_server.base_url),),
        },
    )
    models = Models(settings)
    for name in ("keyed", "bare"):
        answer(chat_server)
        await ask(models, name)

    sent = [asked.headers["authorization"] for asked in chat_server.asked]
    assert sent == ["bearer sk-of-qwen", "bearer none"]
    await models.aclose()


async def test_a_missing_key_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QWEN_KEY", raising=False)
    route = ModelRoute(api="anthropic", key_variable="QWEN_KEY")
    models = Models(Settings(model_routes={"*": (route,)}))

    with pytest.raises(ModelError, match="QWEN_KEY"):
        await ask(models, "qwen")
    await models.aclose()


async def test_a_model_may_be_called_otherwise_at_its_endpoint(chat_server: ChatServer) -> None:
    route = ModelRoute(api="openai", base_url=chat_server.base_url, model="org/qwen")
    models = Models(Settings(model_routes={"quick": (route,)}))
    answer(chat_server)

    await ask(models, "quick")

    assert chat_server.asked[0].body["model"] == "org/qwen"
    await models.aclose()


async def test_each_failure_leads_to_the_next_route_and_round_again() -> None:
    names = ("first", "second", "third")
    routes = tuple(ModelRoute(api="openai", model=name) for name in names)
    models = Models(Settings(model_routes={"best": routes}))

    asked = [getattr(models.model_for("best", attempt), "name", None) for attempt in range(4)]

    assert asked == ["first", "second", "third", "first"]


def test_the_table_is_read_from_one_variable_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    table = {"a-*": {"api": "openai"}, "b": [{"api": "anthropic"}, {"api": "openai"}]}
    monkeypatch.setenv("RUNSTATE_MODEL_ROUTES", json.dumps(table))

    assert Settings().model_routes == {
        "a-*": (ModelRoute(api="openai"),),
        "b": (ModelRoute(api="anthropic"), ModelRoute(api="openai")),
    }


@pytest.mark.parametrize("routes", [[], {"api": "gopher"}, {"api": "openai", "url": "x"}])
def test_a_table_that_makes_no_sense_is_refused(
    monkeypatch: pytest.MonkeyPatch, routes: object
) -> None:
    monkeypatch.setenv("RUNSTATE_MODEL_ROUTES", json.dumps({"*": routes}))

    with pytest.raises(ValidationError):
        Settings()


@pytest.mark.parametrize(
    ("name", "lacks"),
    [
        ("scripted/echo", None),
        ("gpt-x", "RUNSTATE_OPENAI_BASE_URL"),
        ("claude-x", None),
        ("local", None),
        ("other", "OTHER_KEY"),
    ],
)
def test_what_the_settings_lack_to_ask_a_model_is_told_before_it_is_asked(
    name: str, lacks: str | None
) -> None:
    settings = Settings(
        anthropic_api_key=SecretStr("k"),
        model_routes={
            "local": (ModelRoute(api="openai", base_url="http://127.0.0.1:1/v1"),),
            "other": (ModelRoute(api="openai", key_variable="OTHER_KEY"),),
        },
    )
    missing = missing_endpoint(settings, name)
    assert (missing is None) if lacks is None else (lacks in (missing or ""))


PROBE = """
import sys
from orchestrator.llm.routing import Models
from orchestrator.settings import Settings
before = set(sys.modules)
models = Models(Settings())
models.load()
print(*sorted({"anthropic", "openai", "openai.resources.chat"} & (set(sys.modules) - before)))
"""


@pytest.mark.parametrize(
    ("environment", "loaded"),
    [
        ({}, ""),
        ({"RUNSTATE_OPENAI_API_KEY": "k"}, "openai openai.resources.chat"),
        ({"RUNSTATE_ANTHROPIC_API_KEY": "k"}, "anthropic"),
        ({"RUNSTATE_OPENAI_BASE_URL": "http://here:no-port"}, "openai"),
    ],
)
async def test_what_configured_endpoints_need_is_loaded_before_a_turn_waits_for_it(
    environment: dict[str, str], loaded: str
) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROBE, env=os.environ | environment, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await process.communicate()
    assert (process.returncode, said.decode().strip()) == (0, loaded)
