"""What Azure's SDK sends and expects beyond the others."""

from typing import Any

import httpx2
import pytest
from openai.types.beta.threads import Run

Body = dict[str, Any]

QUEUE: Body = {
    "type": "storage_queue",
    "storage_queue": {"queue_service_endpoint": "https://q.example.org", "queue_name": "in"},
}
TOOLS: list[Body] = [
    {
        "type": "azure_function",
        "azure_function": {
            "function": {"name": "look_up", "parameters": {"type": "object"}},
            "input_binding": QUEUE,
            "output_binding": QUEUE,
        },
    },
    {
        "type": "openapi",
        "openapi": {"name": "tides", "spec": {"openapi": "3.1.0"}, "auth": {"type": "anonymous"}},
    },
    {
        "type": "bing_grounding",
        "bing_grounding": {"search_configurations": [{"connection_id": "c", "count": 5}]},
    },
    {"type": "azure_ai_search"},
    {"type": "connected_agent", "connected_agent": {"id": "asst_1", "name": "n"}},
]
RESOURCES: Body = {
    "azure_ai_search": {"indexes": [{"index_name": "i", "query_type": "simple", "top_k": 3}]},
    "code_interpreter": {"data_sources": [{"type": "uri_asset", "uri": "https://x.example.org"}]},
    "file_search": {"vector_stores": [{"name": "v", "configuration": {"data_sources": []}}]},
}


@pytest.fixture
async def agent(http: httpx2.AsyncClient) -> Body:
    body = {"model": "scripted/inline", "tools": TOOLS, "tool_resources": RESOURCES}
    answer = await http.post("/v1/assistants", params={"api-version": "v1"}, json=body)
    assert answer.status_code == 200, answer.text
    agent: Body = answer.json()
    return agent


async def test_tools_and_resources_of_azure_come_back_untouched(agent: Body) -> None:
    assert (agent["tools"], agent["tool_resources"]) == (TOOLS, RESOURCES)


async def test_a_run_that_needs_them_is_refused_and_names_them(
    http: httpx2.AsyncClient, agent: Body
) -> None:
    answer = await http.post("/v1/threads/runs", json={"assistant_id": agent["id"]})
    assert answer.status_code == 400
    assert all(tool["type"] in answer.json()["error"]["message"] for tool in TOOLS)


async def test_a_run_takes_resources_and_includes_joined_by_commas(
    http: httpx2.AsyncClient, agent: Body
) -> None:
    thread = (await http.post("/v1/threads", params={"api-version": "v1"})).json()
    answer = await http.post(
        f"/v1/threads/{thread['id']}/runs",
        params={"api-version": "2025-05-01", "include[]": "a,b"},
        json={
            "assistant_id": agent["id"],
            "stream": False,
            "tools": [],
            "tool_resources": RESOURCES,
            "response_format": "none",
        },
    )
    assert (answer.status_code, answer.json()["tool_resources"]) == (200, RESOURCES)


async def test_attachments_may_be_data_sources(http: httpx2.AsyncClient) -> None:
    thread = (await http.post("/v1/threads")).json()
    attachments = [
        {
            "data_source": {"type": "id_asset", "uri": "azureml://x"},
            "tools": [{"type": "file_search"}],
        }
    ]
    body = {"role": "user", "content": "Read it", "attachments": attachments}
    answer = await http.post(f"/v1/threads/{thread['id']}/messages", json=body)
    assert answer.json()["attachments"] == attachments


async def test_a_walk_by_last_id_ends_on_an_empty_page(http: httpx2.AsyncClient, run: Run) -> None:
    path = f"/v1/threads/{run.thread_id}/runs"
    first = (await http.get(path)).json()
    assert (first["last_id"], first["has_more"]) == (run.id, False)
    end = (await http.get(path, params={"after": run.id})).json()
    assert (end["data"], end["last_id"]) == ([], None)
