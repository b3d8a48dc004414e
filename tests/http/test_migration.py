"""Assistants, threads and messages that come from another server, and go to one."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
from openai import AsyncOpenAI
from openai.types.beta.threads import Run

from cli.client import Client
from cli.failure import Failure
from cli.migration import import_file
from orchestrator.store import Store
from tests.http.driver import Driver

Body = dict[str, Any]

ASSISTANT: Body = {
    "id": "asst_abc123",
    "object": "assistant",
    "created_at": 1_698_984_975,
    "name": "Math Tutor",
    "description": None,
    "model": "gpt-4o",
    "instructions": "You are a personal math tutor.",
    "tools": [{"type": "code_interpreter"}, {"type": "file_search"}],
    "tool_resources": {"file_search": {"vector_store_ids": ["vs_1"]}},
    "metadata": {},
    "top_p": 1.0,
    "temperature": None,
    "response_format": "auto",
    "reasoning_effort": None,
}
THREAD: Body = {
    "id": "thread_abc123",
    "object": "thread",
    "created_at": 1_699_012_949,
    "metadata": {"room": "7"},
    "tool_resources": {},
}


def message(number: int, created_at: int, **fields: Any) -> Body:
    return {
        "id": f"msg_{number}",
        "object": "thread.message",
        "created_at": created_at,
        "thread_id": "thread_abc123",
        "status": "completed",
        "incomplete_details": None,
        "completed_at": None,
        "incomplete_at": None,
        "role": "user",
        "content": [{"type": "text", "text": {"value": str(number), "annotations": []}}],
        "assistant_id": None,
        "run_id": None,
        "attachments": [],
        "metadata": {},
    } | fields


MESSAGES = [
    message(1, 1_699_012_950),
    message(
        2,
        1_699_012_950,
        role="assistant",
        assistant_id="asst_abc123",
        run_id="run_of_another_server",
        content=[
            {
                "type": "text",
                "text": {
                    "value": "See 【1】",
                    "annotations": [
                        {
                            "type": "file_citation",
                            "text": "【1】",
                            "start_index": 4,
                            "end_index": 7,
                            "file_citation": {"file_id": "file-1"},
                        }
                    ],
                },
            },
            {"type": "image_file", "image_file": {"file_id": "file-2", "detail": "auto"}},
        ],
    ),
    message(
        3,
        1_699_012_950,
        status="incomplete",
        incomplete_details={"reason": "run_cancelled"},
        incomplete_at=1_699_012_960,
        attachments=[{"file_id": "file-1", "tools": [{"type": "file_search"}]}],
    ),
    message(4, 1_699_012_999, metadata={"k": "v"}),
]
EVERYTHING = [ASSISTANT, THREAD, *MESSAGES]


async def run_import(address: str, folder: Path, text: str) -> None:
    file = folder / "objects"
    file.write_text(text)
    await import_file(Client(f"{address}/v1", None), file)


def said(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What the command printed; the api's log is beside it."""
    lines = capsys.readouterr().out.splitlines()
    return [line for line in lines if "request.done" not in line]


async def exported(http: httpx2.AsyncClient) -> list[Body]:
    answer = await http.get("/ops/export")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/jsonl")
    return [json.loads(line) for line in answer.text.splitlines()]


def as_pages(objects: list[Body]) -> str:
    """As somebody saved it who listed everything: the newest first."""
    page = {"object": "list", "first_id": "", "last_id": "", "has_more": False}
    messages = page | {"data": objects[:1:-1]}
    parts = (messages, objects[1], page | {"data": objects[:1]})
    return "\n".join(json.dumps(part) for part in parts)


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(json.dumps(one) for one in EVERYTHING) + "\n",
        json.dumps(EVERYTHING, indent=2),
        as_pages(EVERYTHING),
    ],
    ids=["JSON Lines", "an array", "pages"],
)
async def test_what_is_exported_is_what_was_imported(
    address: str,
    http: httpx2.AsyncClient,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    text: str,
) -> None:
    await run_import(address, tmp_path, text)
    assert await exported(http) == EVERYTHING
    again = "\n".join(json.dumps(one) for one in await exported(http))
    await run_import(address, tmp_path, again)
    assert await exported(http) == EVERYTHING
    assert said(capsys) == [
        "6 imported, 0 already there, 0 skipped",
        "0 imported, 6 already there, 0 skipped",
    ]


async def test_the_command_imports_a_file_and_exports_it_again(
    address: str, tmp_path: Path
) -> None:
    file = tmp_path / "objects"
    file.write_text(json.dumps(EVERYTHING))
    told = await runstate("import", str(file), "--url", address)
    assert told == b"6 imported, 0 already there, 0 skipped\n"
    lines = (await runstate("export", "--url", address)).splitlines()
    assert [json.loads(line) for line in lines] == EVERYTHING


async def runstate(*arguments: str) -> bytes:
    """What the command prints, as a process of its own."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "cli.main", *arguments), stdout=asyncio.subprocess.PIPE
    )
    told, _ = await process.communicate()
    assert process.returncode == 0
    return told


async def test_what_cannot_be_imported_is_named_with_the_reason(
    address: str, http: httpx2.AsyncClient, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await run_import(address, tmp_path, json.dumps(EVERYTHING))
    capsys.readouterr()
    bad = [
        {"id": "vs_1", "object": "vector_store", "created_at": 1},
        ASSISTANT | {"name": "Another", "model": "gpt-5"},
        ASSISTANT | {"id": "asst_2", "metadata": {"k": "v" * 513}},
        THREAD | {"id": "thread_2", "created_at": 1_699_012_949_000},
        message(5, 1_699_013_000, thread_id="thread_unknown"),
        message(6, 1_699_013_000, status="in_progress"),
        message(7, 1_699_013_000, id="a|b"),
    ]
    with pytest.raises(Failure, match="7 of 7 objects were not imported"):
        await run_import(address, tmp_path, json.dumps(bad))
    *reasons, counts = said(capsys)
    assert counts == "0 imported, 0 already there, 7 skipped"
    told = {line.split()[2].rstrip(":"): line for line in reasons}
    for object_id, reason in {
        "vs_1": "Supported values are: 'assistant', 'thread', 'thread.message'",
        "asst_abc123": "another one with this id (it differs in model, name)",
        "asst_2": "Expected a string with maximum length 512",
        "thread_2": "Invalid 'created_at'",
        "msg_5": "No thread found with id 'thread_unknown'.",
        "msg_6": "Supported values are: 'completed' or 'incomplete'",
        "a|b": "Invalid 'id': string does not match pattern",
    }.items():
        assert reason in told[object_id]
    assert await exported(http) == EVERYTHING


async def test_imported_conversations_go_on(
    client: AsyncOpenAI, http: httpx2.AsyncClient, driver: Driver, store: Store
) -> None:
    for one in ({**ASSISTANT, "tools": []}, THREAD, *MESSAGES):
        answer = await http.post("/ops/import", json=one)
        assert (answer.status_code, answer.json()["outcome"]) == (200, "imported")
    run = await client.beta.threads.runs.create(THREAD["id"], assistant_id=ASSISTANT["id"])
    refused = await http.post("/ops/import", json=message(9, 1_699_013_000))
    assert (refused.status_code, "while a run" in refused.text) == (400, True)
    await driver.answers(run, "5")
    messages = client.beta.threads.messages
    listed = [message async for message in messages.list(run.thread_id)]
    texts = [message.content[0].text.value for message in listed]  # type: ignore[union-attr]
    assert texts == ["5", "4", "3", "See 【1】", "1"]
    await messages.update("msg_2", thread_id=run.thread_id, metadata={"a": "b"})
    await messages.delete("msg_2", thread_id=run.thread_id)
    await client.beta.threads.delete(run.thread_id)


async def test_what_was_made_here_is_the_same_when_it_comes_back(
    http: httpx2.AsyncClient, driver: Driver, run: Run
) -> None:
    await driver.answers(run, "42")
    lines = await exported(http)
    assert [one["object"] for one in lines] == ["assistant", "thread", "thread.message"]
    for one in lines:
        assert (await http.post("/ops/import", json=one)).json()["outcome"] == "same"


async def test_of_imports_at_once_one_counts_and_the_others_find_the_same(
    http: httpx2.AsyncClient, store: Store
) -> None:
    for one in (ASSISTANT, THREAD, message(1, 1_699_012_950)):
        imports = (http.post("/ops/import", json=one) for _ in range(12))
        outcomes = [answer.json()["outcome"] for answer in await asyncio.gather(*imports)]
        assert sorted(outcomes) == ["imported"] + 11 * ["same"]
    assert len(await store.read_entries("thread_abc123")) == 1
