"""Texts come back as they were sent, or are refused; none breaks the server."""

import httpx2
import pytest
from openai.types.beta import Thread
from openai.types.beta.threads import Run

from tests.http.driver import Asked, Driver

HALF = "\\ud835"  # as JSON writes it: half of a pair

STRANGE = [
    *("\x00", "a\x00b", "\u2028\r\n", "'\"\\", "\ud7ff\ue000", "\U0001d4b3"),
    *("2024-08-13 14:44:01", "1", "null"),
]


@pytest.mark.parametrize("text", STRANGE)
async def test_strange_texts_come_back_unchanged(http: httpx2.AsyncClient, text: str) -> None:
    thread = (await http.post("/v1/threads", json={"metadata": {text: text}})).json()
    assert thread["metadata"] == {text: text}
    body = {"role": "user", "content": text, "metadata": {"k": text}}
    made = (await http.post(f"/v1/threads/{thread['id']}/messages", json=body)).json()
    (listed,) = (await http.get(f"/v1/threads/{thread['id']}/messages")).json()["data"]
    assert (made, listed["content"][0]["text"]["value"]) == (listed, text)
    fields = {"model": text, "name": text, "instructions": text}
    assistant = (await http.post("/v1/assistants", json=fields)).json()
    assert {name: assistant[name] for name in fields} == fields


@pytest.mark.parametrize("text", STRANGE)
async def test_strange_outputs_come_back_unchanged(
    http: httpx2.AsyncClient, driver: Driver, run: Run, text: str
) -> None:
    (call_id,) = await driver.asks(run, Asked("look_up"))
    path = f"/v1/threads/{run.thread_id}/runs/{run.id}"
    body = {"tool_outputs": [{"tool_call_id": call_id, "output": text}]}
    assert (await http.post(f"{path}/submit_tool_outputs", json=body)).status_code == 200
    (step,) = (await http.get(f"{path}/steps")).json()["data"]
    assert step["step_details"]["tool_calls"][0]["function"]["output"] == text


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/threads", f'{{"metadata": {{"k": "{HALF}"}}}}'),
        ("/v1/threads", f'{{"metadata": {{"{HALF}": "v"}}}}'),
        ("/v1/threads", f'{{"messages": [{{"role": "user", "content": "{HALF}"}}]}}'),
        ("/v1/assistants", f'{{"model": "{HALF}"}}'),
        ("/v1/threads/runs", f'{{"assistant_id": "{HALF}"}}'),
        ("/ops/import", f'{{"object": "thread", "id": "{HALF}", "created_at": 1}}'),
    ],
)
async def test_half_of_a_surrogate_pair_is_refused_wherever_it_is(
    http: httpx2.AsyncClient, path: str, body: str
) -> None:
    headers = {"Content-Type": "application/json"}
    answer = await http.post(path, content=body.encode(), headers=headers)
    assert (answer.status_code, "not valid JSON" in answer.text) == (400, True)


@pytest.mark.parametrize("raw", ["%00", "%ED%A0%B5", "%FF", "%7Bp00%7D", "a%7Cb", "%C3%A4", "*"])
async def test_strange_ids_are_unknown_ids(
    http: httpx2.AsyncClient, thread: Thread, raw: str
) -> None:
    for path in (
        f"/v1/assistants/{raw}",
        f"/v1/threads/{raw}",
        f"/v1/threads/{raw}/messages",
        f"/v1/threads/{thread.id}/messages/{raw}",
        f"/v1/threads/{thread.id}/runs/{raw}",
        f"/ops/runs/{raw}",
    ):
        assert (await http.get(path)).status_code == 404, path
    cursor = await http.get(f"/v1/threads/{thread.id}/messages?after={raw}")
    assert (cursor.status_code, cursor.json()["error"]["param"]) == (400, "after")
