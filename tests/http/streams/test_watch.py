"""``runstate runs watch`` prints what a run tells, also when its server is replaced on the way."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import httpx2
import pytest

from cli import client as cli_client
from cli.client import Client
from cli.failure import Failure
from cli.watch import Story, watch_run
from tests.http.streams.conftest import Player, path_of

CUT_AFTER_BYTES: Final = 3000


@asynccontextmanager
async def cutting(address: str) -> AsyncIterator[int]:
    """A way to the server that breaks after some bytes of each answer; gives its port."""
    url = httpx2.URL(address)

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answer, request = await asyncio.open_connection(url.host, url.port)
        request.write(await reader.readuntil(b"\r\n\r\n"))
        left = CUT_AFTER_BYTES
        while left > 0 and (piece := await answer.read(left)):
            writer.write(piece)
            left -= len(piece)
        for end in (writer, request):
            end.close()
            await end.wait_closed()

    async with await asyncio.start_server(carry, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


async def test_a_run_is_told_in_lines_and_its_words_as_they_come(
    player: Player, address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    call = {"name": "look_up", "arguments": {"word": "tide"}}
    asked = (await player.plays({"tool_calls": [call]}, {"text": "So\x1b[31m it is."}))[-1]
    await player.submits(asked, look_up="known")
    capsys.readouterr()
    await watch_run(Client(address, None), asked.data["id"])
    printed = capsys.readouterr().out
    lines = [line.partition(" s  ")[2] for line in printed.splitlines() if line.startswith(" ")]
    assert lines == [
        "run     created",
        "run     queued",
        "run     in_progress",
        "run     requires_action",
        'call    look_up {"word":"tide"} waits for the client',
        'call    look_up {"word":"tide"} → known',
        "run     queued",
        "run     in_progress",
        "says    So[31m it is.",
        "message completed",
        "run     completed",
    ]


async def test_a_stream_that_breaks_off_is_gone_on_with(
    player: Player, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli_client, "RECONNECT_AFTER_S", 0)
    body = player.body({"text": "one two three", "chunk_delay_s": 0.02})
    async with cutting(address) as port:
        run = (await player.http.post("/v1/threads/runs", json=body | {"stream": False})).json()
        path = f"/v1/threads/{run['thread_id']}/runs/{run['id']}/events"
        async with Client(f"http://127.0.0.1:{port}", None) as client:
            ids = [event.id async for event in client.events(path)]
    async with Client(address, None) as client:
        assert ids == [event.id async for event in client.events(path)]


async def test_a_run_without_a_log_is_one_sentence(player: Player, address: str) -> None:
    told = await player.plays({"text": "Done."})
    path = path_of(told[-1]).replace("run_", "run_x")
    async with Client(address, None) as client:
        with pytest.raises(Failure, match="No run found"):
            await anext(client.events(f"{path}/events"))


def test_why_a_run_failed_is_said() -> None:
    error = '{"last_error": {"code": "server_error", "message": "out of\\norder"}}'
    assert list(Story().tell("thread.run.failed", "5-0", error)) == [
        "   +0.000 s  run     failed: server_error: out of order\n"
    ]


def test_the_numbers_of_a_limit_are_said() -> None:
    details = '{"reason": "max_prompt_tokens", "message": "It may use 300 and has used 301."}'
    told = Story().tell("thread.run.incomplete", "5-0", f'{{"incomplete_details": {details}}}')
    assert list(told) == [
        "   +0.000 s  run     incomplete: max_prompt_tokens: It may use 300 and has used 301.\n"
    ]


def test_a_refusal_is_told_like_words() -> None:
    delta = '{"delta": {"content": [{"index": 0, "type": "refusal", "refusal": "No."}]}}'
    assert list(Story().tell("thread.message.delta", "5-0", delta)) == [
        "   +0.000 s  says    ",
        "No.",
    ]
