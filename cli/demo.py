"""``runstate demo``: the whole thing in a temporary folder, and QuietReads played on it."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any, Final

from cli.client import Client
from cli.configuration import load_settings
from cli.failure import Failure
from cli.program import EXAMPLE_APP
from cli.stack import StackOptions, running_stack
from cli.terminal import printable, say
from cli.timeline import timeline
from examples.quietreads.conversation import ASSISTANT, QUESTIONS
from orchestrator.llm.routing import missing_endpoint
from orchestrator.storage.embedded import find_free_port

POLL_S: Final = 0.1
LOST: Final = ("failed", "cancelled", "expired", "incomplete")


async def demo(model: str | None) -> None:
    """Plays every question, printed as it happens. ``Failure`` if a run does not complete."""
    if model is not None and (missing := missing_endpoint(load_settings(), model)):
        raise Failure(missing)
    with tempfile.TemporaryDirectory(prefix="runstate-demo-") as folder:
        options = StackOptions(
            home=Path(folder), port=find_free_port(), app=EXAMPLE_APP, is_isolated=True
        )
        async with (
            running_stack(options) as stack,
            Client(stack.root_url, stack.key) as client,
        ):
            say(f"to watch it in a browser: {stack.root_url}/ops/ui")
            await _converse(client, model)
            say("stopping and removing everything")


async def _converse(client: Client, model: str | None) -> None:
    assistants = [found async for found in client.pages("/v1/assistants")]
    assistant = next(found for found in assistants if found["name"] == ASSISTANT)
    thread = await client.post("/v1/threads", {})
    path = f"/v1/threads/{thread['id']}"
    for question, scripted in QUESTIONS:
        print(f"\nyou         {question}", flush=True)
        await client.post(f"{path}/messages", {"role": "user", "content": question})
        run = await client.post(
            f"{path}/runs", {"assistant_id": assistant["id"], "model": model or scripted}
        )
        await _watch(client, path, run["id"])


async def _watch(client: Client, path: str, run_id: str) -> None:
    """Prints what happens to the run until it has completed."""
    shown: set[str] = set()
    said: list[str] = []
    while True:
        report = await client.get(f"/ops/runs/{run_id}")
        for line in timeline(report):
            if line not in shown:
                print(f"  {line}", flush=True)
                shown.add(line)
        answers = await _answers(client, path, run_id)
        for text in answers[len(said) :]:
            print(f"quietreads  {printable(text)}", flush=True)
        said = answers
        if _is_completed(report["run"]):
            return
        await asyncio.sleep(POLL_S)


def _is_completed(run: dict[str, Any]) -> bool:
    """Whether it has completed; ``Failure`` if it never will."""
    if run["status"] in LOST:
        error = run["last_error"] or {"message": "no more is known"}
        raise Failure(f"{run['id']} is {run['status']}: {error['message']}")
    if run["status"] == "requires_action":
        raise Failure(f"{run['id']} waits for a client: no worker serves the example's tools.")
    return bool(run["status"] == "completed")


async def _answers(client: Client, path: str, run_id: str) -> list[str]:
    messages = await client.get(f"{path}/messages", run_id=run_id, order="asc")
    return [
        part["text"]["value"]
        for message in messages["data"]
        if message["status"] == "completed"
        for part in message["content"]
        if part["type"] == "text"
    ]
