"""``runstate runs transcript``: one model turn, as its provider got it."""

import json
from collections.abc import Iterator
from difflib import unified_diff
from typing import Any

from cli.client import Client
from cli.terminal import printable


async def show_transcript(client: Client, run_id: str, number: int, *, is_diff: bool) -> None:
    """Prints the request of a turn, or how it differs from that of the turn before."""
    async with client:
        report = await client.get(f"/ops/runs/{run_id}")
        path = f"/v1/threads/{report['run']['thread_id']}/runs/{run_id}/turns"
        turn = await client.get(f"{path}/{number}")
        before = await client.get(f"{path}/{number - 1}") if is_diff and number else None
    for line in head(turn):
        print(line)
    print()
    lines = body(turn)
    for line in difference(body(before) if before else [], lines) if is_diff else lines:
        print(printable(line))


def head(turn: dict[str, Any]) -> Iterator[str]:
    """What was asked and what came of it, a line for each thing that is known."""
    yield f"turn      {turn['turn']} of {printable(turn['model'])} ({turn['api']})"
    yield f"shown     {ranges(turn['shown'])}"
    for rule, spans in turn["dropped"].items():
        yield f"left out  {ranges(spans)} by {rule}"
    if turn["counted_tokens"] is not None:
        yield f"counted   {turn['counted_tokens']} tokens of {turn['limit_tokens']}"
    if uses := turn["server_uses"]:
        yield f"used      {', '.join(f'{name} {count}' for name, count in uses.items())} before"
    for tried in turn["compactions"]:
        place = f"summary at {tried['seq']}" if tried["failure"] is None else "no summary"
        why = f": {printable(tried['failure'])}" if tried["failure"] else ""
        yield f"compacted {ranges(tried['replaced'])}, {place}{why}{_tokens(tried['usage'])}"
    for field in turn["without"]:
        yield f"without   {field}, which the model refuses"
    if count := turn["continuations"]:
        yield f"went on   {count} times, each time behind what it had said"
    for failure in turn["failures"]:
        yield f"failed    {printable(failure)}"
    yield _end(turn)
    if usage := turn["usage"]:
        cached = f", {usage['cached_tokens']} cached" if usage["cached_tokens"] else ""
        cost = "an unknown price" if turn["cost_usd"] is None else f"${turn['cost_usd']:.6f}"
        tokens = f"{usage['prompt_tokens']} + {usage['completion_tokens']}"
        yield f"tokens    {tokens}{cached}, at {cost}"


def _end(turn: dict[str, Any]) -> str:
    if turn["asked_ms"] is None:
        return "took      no request: the model was not asked"
    if turn["latency_ms"] is None:
        return "took      no answer yet"
    return f"took      {turn['latency_ms']} ms, ended with {turn['stop'] or 'no answer'}"


def _tokens(usage: dict[str, int] | None) -> str:
    return f", {usage['prompt_tokens']} + {usage['completion_tokens']} tokens" if usage else ""


def body(turn: dict[str, Any]) -> list[str]:
    """The request as JSON, in lines."""
    return json.dumps(turn["request"], indent=2, ensure_ascii=False).splitlines()


def difference(before: list[str], after: list[str]) -> Iterator[str]:
    """The lines that came and went, with two lines around them."""
    lines = unified_diff(before, after, lineterm="", n=2)
    return (line for line in lines if not line.startswith(("---", "+++")))


def ranges(spans: list[list[int]]) -> str:
    """Places in the transcript, such as ``0-3, 7``."""
    shown = (f"{first}" if first == last else f"{first}-{last}" for first, last in spans)
    return ", ".join(shown) or "nothing"
