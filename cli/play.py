"""One play of a case: its conversation on a thread of its own, and what came of it."""

import asyncio
import json
from typing import Any

from cli.client import Client
from cli.course import FINAL, Call, End, Round, as_object, read_course
from cli.suite import CannedOutput, Case
from cli.verdict import Played

Json = dict[str, Any]


class Canned:
    """The outputs of a case. Where several fit a call, one after another; the last one stays."""

    def __init__(self, outputs: list[CannedOutput]) -> None:
        self._outputs = outputs
        self._used: set[int] = set()

    def take(self, name: str, arguments: str) -> str | None:
        """The output for this call, if there is one."""
        given = as_object(arguments)
        fitting = [n for n, output in enumerate(self._outputs) if output.fits(name, given)]
        if not fitting:
            return None
        place = next((n for n in fitting if n not in self._used), fitting[-1])
        self._used.add(place)
        output = self._outputs[place].output
        return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)


async def play(client: Client, case: Case, assistant_id: str, model: str | None) -> Played:
    """The conversation up to its end, or to the first run that does not complete. The thread is the
    caller's to delete, unless this raises.
    """
    body = _body(case, assistant_id, model)
    canned = None if case.outputs is None else Canned(case.outputs)
    path, reports, obstacle = "/v1/threads", [], None
    try:
        for text in case.input:
            begin = asyncio.ensure_future(_begin(client, path, body, text))
            try:
                run = await asyncio.shield(begin)
            finally:  # so that a thread whose creation is under way is not forgotten
                path = f"/v1/threads/{(await begin)['thread_id']}"
            obstacle = await _attend(client, f"{path}/runs/{run['id']}", canned)
            reports.append(await client.get(f"/ops/runs/{run['id']}"))
            if reports[-1]["run"]["status"] != "completed":
                break
        return await _played(client, reports, obstacle)
    except BaseException:
        if path != "/v1/threads":
            await client.delete(path)
        raise


def _body(case: Case, assistant_id: str, model: str | None) -> Json:
    given = {"model": model, "instructions": case.instructions}
    body: Json = {name: value for name, value in given.items() if value is not None}
    if case.outputs is not None:
        body["executor"] = "client"
    return body | {"assistant_id": assistant_id, "metadata": {"eval": case.name[:512]}}


async def _begin(client: Client, path: str, body: Json, text: str) -> Json:
    """A run that begins with these words, on a new thread if there is none yet."""
    said = [{"role": "user", "content": text}]
    if path == "/v1/threads":
        made: Json = await client.post(f"{path}/runs", body | {"thread": {"messages": said}})
    else:
        made = await client.post(f"{path}/runs", body | {"additional_messages": said})
    return made


async def _attend(client: Client, path: str, canned: Canned | None) -> str | None:
    """Answers what the run asks, up to its end; what nobody can answer, if that has ended it."""
    while True:
        run = await client.when_changed(path)
        if run["status"] in FINAL:
            return None
        if run["status"] != "requires_action":
            continue
        outputs, obstacle = _outputs(run["required_action"], canned)
        if obstacle:
            await client.post(f"{path}/cancel", {})
            return obstacle
        await client.post(f"{path}/submit_tool_outputs", {"tool_outputs": outputs})


def _outputs(action: Json, canned: Canned | None) -> tuple[list[Json], str | None]:
    """The answers, or why there are none."""
    if action["type"] != "submit_tool_outputs":
        names = ", ".join(call["name"] for call in action[action["type"]]["tool_calls"])
        return [], f"waits for somebody to approve {names}"
    found: list[Json] = []
    for call in action["submit_tool_outputs"]["tool_calls"]:
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        if canned is None:
            return [], f"no worker serves {name}, and the case has no outputs"
        output = canned.take(name, arguments)
        if output is None:
            return [], f"the case has no output for {name}({arguments})"
        found.append({"tool_call_id": call["id"], "output": output})
    return found, None


async def _played(client: Client, reports: list[Json], obstacle: str | None) -> Played:
    runs = [report["run"] for report in reports]
    courses = [await read_course(client, report) for report in reports]
    turns = [turn for course in courses for turn in course]
    ends = [turn for turn in turns if isinstance(turn, End)]
    calls: tuple[Call, ...] = ()
    for turn in turns:
        calls += turn.calls if isinstance(turn, Round) else ()
    return Played(
        thread_id=runs[-1]["thread_id"],
        run_id=runs[-1]["id"],
        model=runs[-1]["model"],
        status=runs[-1]["status"],
        reason=obstacle or ends[-1].reason,
        answer=ends[-1].answer or "",
        calls=calls,
        turns=len(turns) - sum(end.answer is None for end in ends),
        tokens=_sum([run["usage"] and run["usage"]["total_tokens"] for run in runs]),
        cost_usd=_sum([run["usage"] and run["usage"]["cost_usd"] for run in runs]),
        seconds=sum(map(_seconds, reports)),
    )


def _sum(numbers: list[Any]) -> Any:
    """``None`` if one of them is not known."""
    return None if None in numbers else sum(numbers)


def _seconds(report: Json) -> float:
    events = report["events"]
    return float(events[-1]["at_ms"] - events[0]["at_ms"]) / 1000
