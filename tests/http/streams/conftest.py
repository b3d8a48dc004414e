"""Runs that are scripts, played as streams."""

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
from openai.types.beta import Assistant

from tests.engine.rig import EngineRoom
from tests.http.streams.frames import Frame, read_all


class Player:
    """A client that plays scripts as streams."""

    def __init__(self, http: httpx2.AsyncClient, assistant_id: str) -> None:
        self.http = http
        self._assistant_id = assistant_id

    def body(self, *turns: dict[str, Any], **more: Any) -> dict[str, Any]:
        """The body that creates a thread and a run that plays these turns."""
        message = {"role": "user", "content": json.dumps({"turns": turns}, ensure_ascii=False)}
        return {
            "assistant_id": self._assistant_id,
            "thread": {"messages": [message]},
            "stream": True,
            **more,
        }

    async def plays(self, *turns: dict[str, Any], **more: Any) -> list[Frame]:
        """The events of such a run."""
        return await read_all(self.http, "POST", "/v1/threads/runs", json=self.body(*turns, **more))

    async def submits(self, asked: Frame, **outputs: str) -> list[Frame]:
        """The events that follow on the outputs, given by the names of the tools."""
        body = {"tool_outputs": answers(asked, **outputs), "stream": True}
        path = f"{path_of(asked)}/submit_tool_outputs"
        return await read_all(self.http, "POST", path, json=body)

    async def get(self, path: str) -> Any:
        """What the api answers."""
        answer = await self.http.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()


def path_of(run: Frame) -> str:
    """Where the run of a run event is."""
    return f"/v1/threads/{run.data['thread_id']}/runs/{run.data['id']}"


def answers(asked: Frame, **outputs: str) -> list[dict[str, str]]:
    """The tool outputs that a ``requires_action`` event asks for."""
    calls = asked.data["required_action"]["submit_tool_outputs"]["tool_calls"]
    return [
        {"tool_call_id": call["id"], "output": outputs[call["function"]["name"]]} for call in calls
    ]


@pytest.fixture
def player(http: httpx2.AsyncClient, assistant: Assistant, engines: EngineRoom) -> Player:
    return Player(http, assistant.id)


@pytest.fixture
def player_alone(http: httpx2.AsyncClient, assistant: Assistant) -> Player:
    """A client whose runs are played by the test."""
    return Player(http, assistant.id)


@pytest.fixture
def sdk_cache(request: pytest.FixtureRequest) -> Path:
    """Where installed SDKs are kept between sessions."""
    cache: pytest.Cache = request.config.cache
    return cache.mkdir("sdks")
