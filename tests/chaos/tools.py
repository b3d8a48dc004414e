"""Tools that leave a line in a file each time they run, so that a test can count."""

import json
import os
import time
from pathlib import Path

import httpx2

from orchestrator import tool


def _note(tag: str) -> None:
    with Path(os.environ["RUNSTATE_TEST_LINES"]).open("a") as lines:
        lines.write(f"{tag}\n")


@tool(side_effects="once")
def pay(tag: str, seconds: float = 0.0) -> str:
    """Pay once, and take some time over it.

    Args:
        tag: What the payment is for.
        seconds: How long it takes.
    """
    _note(tag)
    time.sleep(seconds)
    return f"paid {tag}"


@tool(side_effects="idempotent")
def look(tag: str, seconds: float = 0.0) -> str:
    """Look something up, and take some time over it.

    Args:
        tag: What to look up.
        seconds: How long it takes.
    """
    _note(tag)
    time.sleep(seconds)
    return f"seen {tag}"


@tool(side_effects="none")
def add(left: int, right: int) -> int:
    """Add two whole numbers.

    Args:
        left: The first number.
        right: The second number.
    """
    return left + right


@tool(side_effects="none", timeout_s=1.0, max_attempts=1)
def misbehave(how: str) -> object:
    """Do something that a tool should not do.

    Args:
        how: What to do.
    """
    match how:
        case "raise":
            raise RuntimeError("out of paper")
        case "sleep":
            time.sleep(60)
            return None
        case "exit":
            return os._exit(3)
        case "no_json":
            return {object()}
        case _:
            return "x" * 5_000_000


@tool(side_effects="none", timeout_s=4.0, max_attempts=1)
def ask_another_run(left: int, right: int) -> str:
    """Let a run of its own add two whole numbers, on the same server.

    Args:
        left: The first number.
        right: The second number.
    """
    turns = [
        {"tool_calls": [{"name": "add", "arguments": {"left": left, "right": right}}]},
        {"text": "{{ outputs.add }}"},
    ]
    function = {"type": "function", "function": {"name": "add"}}
    message = {"role": "user", "content": json.dumps({"turns": turns})}
    with httpx2.Client(base_url=os.environ["RUNSTATE_TEST_URL"]) as http:
        asked = {"model": "scripted/inline", "tools": [function]}
        assistant = http.post("/v1/assistants", json=asked).json()["id"]
        body = {"assistant_id": assistant, "thread": {"messages": [message]}}
        run = http.post("/v1/threads/runs", json=body).json()
        thread = f"/v1/threads/{run['thread_id']}"
        while run["status"] != "completed":
            run = http.get(f"{thread}/runs/{run['id']}", headers={"Prefer": "wait=5"}).json()
        said = http.get(f"{thread}/messages", params={"run_id": run["id"]}).json()["data"][0]
    text: str = said["content"][0]["text"]["value"]
    return text
