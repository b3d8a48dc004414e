"""A chat server, and the models that are set to ask it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from pydantic import SecretStr

from orchestrator.llm.routing import Models
from orchestrator.settings import Settings
from tests.llm.chat_server import ChatServer, serving

KEY = "sk-very-secret"


@pytest.fixture
async def chat_server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ChatServer]:
    monkeypatch.setenv("NO_PROXY", "*")
    async with serving() as server:
        yield server


@pytest.fixture
async def models(chat_server: ChatServer) -> AsyncIterator[Models]:
    async with _asking(chat_server, model_timeout_s=30) as models:
        yield models


@pytest.fixture
async def impatient_models(chat_server: ChatServer) -> AsyncIterator[Models]:
    async with _asking(chat_server, model_timeout_s=0.3) as models:
        yield models


@asynccontextmanager
async def _asking(server: ChatServer, model_timeout_s: float) -> AsyncIterator[Models]:
    models = Models(
        Settings(
            openai_base_url=server.base_url,
            openai_api_key=SecretStr(KEY),
            anthropic_base_url=server.base_url,
            anthropic_api_key=SecretStr(KEY),
            model_timeout_s=model_timeout_s,
        )
    )
    yield models
    await models.aclose()
