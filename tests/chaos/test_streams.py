"""Streams whose api or engine is killed while the model speaks."""

import json
import os
import signal
from typing import Any

import httpx2
import pytest

from tests.chaos.dev import Dev, replaced
from tests.cli.waits import until
from tests.http.streams.frames import Frame, joined, names, read_all, reading

WORDS = "one two three four five six seven eight "


def stream_body(url: str, **turn: Any) -> dict[str, Any]:
    """The body that makes a run which says the words, one after another."""
    assistant = httpx2.post(f"{url}/v1/assistants", json={"model": "scripted/inline"}).json()
    script = {"turns": [{"text": WORDS, "chunk_delay_s": 0.25, **turn}] * 2}
    messages = [{"role": "user", "content": json.dumps(script)}]
    thread = {"messages": messages}
    return {"assistant_id": assistant["id"], "thread": thread, "stream": True}


async def kill(dev: Dev, role: str) -> None:
    before = dev.processes()[role]
    os.kill(before[0] if isinstance(before, list) else before, signal.SIGKILL)
    await until(replaced(dev, role, before), 30)
    await until(dev.is_ready, 30)


async def test_a_reader_goes_on_at_another_api_when_its_own_was_killed(dev: Dev) -> None:
    await dev.start()
    had: list[Frame] = []
    async with httpx2.AsyncClient(base_url=dev.url, timeout=30) as http:
        body = stream_body(dev.url) | {"stream": False}
        run = (await http.post("/v1/threads/runs", json=body)).json()
        path = f"/v1/threads/{run['thread_id']}/runs/{run['id']}/events"
        with pytest.raises(httpx2.TransportError):  # noqa: PT012 - while it reads
            async with reading(http, "GET", path) as frames:
                async for frame in frames:
                    had.append(frame)
                    if joined(had).startswith("one two"):
                        await kill(dev, "api")
        rest = await read_all(http, "GET", path, headers={"Last-Event-ID": had[-1].id or ""})
        assert [*had, *rest] == await read_all(http, "GET", path)
    assert rest[-1].event == "thread.run.completed"
    assert joined([*had, *rest]) == WORDS


async def test_a_turn_whose_engine_was_killed_is_told_again_from_its_beginning(
    dev: Dev, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNSTATE_TURN_LEASE_S", "1.5")
    await dev.start()
    told: list[Frame] = []
    async with httpx2.AsyncClient(base_url=dev.url, timeout=30) as http:
        body = stream_body(dev.url)
        async with reading(http, "POST", "/v1/threads/runs", json=body) as frames:
            is_killed = False
            async for frame in frames:
                told.append(frame)
                if not is_killed and joined(told).startswith("one two"):
                    is_killed = True
                    await kill(dev, "engine")
    lost = told.index(next(f for f in told if f.event == "thread.message.incomplete"))
    assert [frame.event for frame in told[lost + 1 : lost + 4]] == [
        "thread.run.step.failed",
        "thread.run.queued",
        "thread.run.in_progress",
    ]
    assert told[lost].data["content"][0]["text"]["value"] == joined(told[:lost])
    again = told[lost + 4 :]
    assert names(again)[:4] == ["run.step.created", "run.step.in_progress", "message.created",
                                "message.in_progress"]  # fmt: skip
    assert joined(again) == WORDS
    assert [frame.event for frame in told[-2:]] == ["thread.run.completed", "done"]
