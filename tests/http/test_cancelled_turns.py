"""A client cancels while a provider speaks: what was sent can be read afterwards."""

from collections.abc import AsyncIterator

import httpx2
import pytest
from openai import AsyncOpenAI
from openai.types.beta.threads import Run
from pydantic import SecretStr

from orchestrator.decisions import KeepTurn
from orchestrator.settings import Settings
from orchestrator.store import RunRef, Store
from orchestrator.turn_record import UNANSWERED, Compaction
from tests.llm.chat_server import HANG, ChatServer, serving, text_event
from tests.store.samples import change
from tests.unit.test_turn_record import RECORD
from tests.waiting import until


@pytest.fixture
async def provider(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ChatServer]:
    monkeypatch.setenv("NO_PROXY", "*")
    async with serving() as server:
        yield server


@pytest.fixture
def settings(redis_url: SecretStr, provider: ChatServer) -> Settings:
    return Settings(redis_url=redis_url, openai_base_url=provider.base_url)


@pytest.mark.usefixtures("engines")
async def test_the_turn_of_a_cancelled_run_is_shown_as_its_provider_got_it(
    client: AsyncOpenAI, http: httpx2.AsyncClient, provider: ChatServer
) -> None:
    provider.refuses(503, {"message": "Busy."})
    provider.refuses(400, {"message": "Unsupported value: 'temperature'."})
    provider.answers(text_event("Once"), HANG)
    threads = client.beta.threads
    assistant = await client.beta.assistants.create(model="gpt-x", temperature=0.5)
    run = await threads.create_and_run(
        assistant_id=assistant.id, thread={"messages": [{"role": "user", "content": "Tell me."}]}
    )
    path = f"/v1/threads/{run.thread_id}/runs/{run.id}/turns"

    async def is_asked_again() -> bool:
        return len(provider.asked) == 3

    await until(is_asked_again)
    speaking = (await http.get(f"{path}/0")).json()
    assert (speaking["stop"], speaking["latency_ms"]) == (None, None)
    why = (await http.get(f"/ops/runs/{run.id}")).json()["why"]
    assert why.endswith(
        "1 model call failed so far, the last one with: The model's endpoint says (503): Busy."
    )
    assert speaking["request"] == provider.asked[2].body

    for page in (f"/ops/ui/runs/{run.id}", f"/ops/ui/runs/{run.id}/turns/0"):
        assert "no answer yet" in (await http.get(page)).text

    await threads.runs.cancel(run.id, thread_id=run.thread_id)

    async def is_cancelled() -> bool:
        found = await threads.runs.retrieve(run.id, thread_id=run.thread_id)
        return found.status == "cancelled"

    await until(is_cancelled)
    listed = (await http.get(path)).json()["data"]
    turn = (await http.get(f"{path}/0")).json()
    assert [line["stop"] for line in listed] == ["run_cancelled"]
    assert turn["request"] == provider.asked[2].body
    assert (turn["without"], provider.asked[1].body["temperature"]) == (["temperature"], 0.5)
    assert turn["failures"] == ["The model's endpoint says (503): Busy."]
    assert (turn["stop"], turn["usage"], turn["cost_usd"]) == ("run_cancelled", None, None)
    assert turn["latency_ms"] >= 0
    for page in (f"/ops/ui/runs/{run.id}", f"/ops/ui/runs/{run.id}/turns/0"):
        assert "run_cancelled" in (await http.get(page)).text


async def test_a_turn_that_ended_before_its_model_was_asked_is_shown_as_that(
    http: httpx2.AsyncClient, store: Store, run: Run
) -> None:
    attempt = Compaction(replaced=((0, 3),), failure=UNANSWERED)
    unasked = RECORD.but(shown=(), asked_ms=None, latency_ms=None, compactions=(attempt,))
    await change(store, RunRef(run.thread_id, run.id), KeepTurn(unasked))
    turn = (await http.get(f"/v1/threads/{run.thread_id}/runs/{run.id}/turns/0")).json()
    assert (turn["asked_ms"], turn["latency_ms"], turn["stop"]) == (None, None, None)
    page = (await http.get(f"/ops/ui/runs/{run.id}")).text
    assert "not asked" in page
    assert f"no summary: {UNANSWERED}" in page
