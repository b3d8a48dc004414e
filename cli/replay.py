"""``runstate runs replay``: a stored run again, with the recorded outputs, up to the first
difference. No tool is executed: the server gives all calls of a replay to its client.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cli.client import Client
from cli.comparison import as_json, as_lines, first_difference, is_cut
from cli.course import FINAL, Call, Course, Round, read_course
from cli.failure import Failure
from cli.program import environment
from cli.terminal import printable

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Changes:
    """What is to be another than in the record; ``None`` is as it was. ``instructions`` is a file,
    ``tools`` a module.
    """

    model: str | None = None
    instructions: Path | None = None
    tools: str | None = None

    async def body(self, declared: list[Json]) -> Json:
        """The request to replay a run that declared these tools. Raises ``Failure``."""
        body: Json = {}
        if self.model is not None:
            body["model"] = self.model
        if self.instructions is not None:
            body["instructions"] = _text(self.instructions)
        if self.tools is not None:
            body["tools"] = await _newer(declared, self.tools)
        return body


async def replay(
    client: Client, run_id: str, changes: Changes, *, is_json: bool, keep: bool
) -> None:
    """Replays the run and prints what came of it. Exits with code 1 if something was different."""
    async with client:
        report = await client.get(f"/ops/runs/{run_id}")
        run, recorded = report["run"], await read_course(client, report)
        path = f"/v1/threads/{run['thread_id']}/runs/{run_id}/replay"
        copy = await client.post(path, await changes.body(run["tools"]))
        try:
            replayed = await _follow(client, copy, recorded)
        finally:
            if not keep:
                await client.delete(f"/v1/threads/{copy['thread_id']}")
    found = first_difference(recorded, replayed)
    if is_json:
        about = {"run_id": run_id, "replay_id": copy["id"], "model": copy["model"]}
        print(json.dumps(about | as_json(recorded, found), ensure_ascii=False, indent=2))
    else:
        kept = f" as {copy['id']}" if keep else ""
        print(printable(f"{run_id}, replayed with {copy['model']}{kept}"))
        for line in as_lines(recorded, found):
            print(printable(line))
    if found:
        raise SystemExit(1)


def answers(asked: Round, known: Round) -> list[tuple[Call, Json]]:
    """The calls that wait for us, each with its recorded output; equal ones in their order."""
    left = list(known.calls)
    found: list[tuple[Call, Json]] = []
    for call in asked.calls:
        record = next(one for one in left if one.question == call.question)
        left.remove(record)
        if call.is_clients:
            edited = {} if record.edited is None else {"arguments": json.loads(record.edited)}
            found.append((call, {"output": record.output or "", **edited}))
    return found


async def _follow(client: Client, copy: Json, recorded: Course) -> Course:
    """The turns of the copy up to its end, the first difference, or the end of the record."""
    path = f"/v1/threads/{copy['thread_id']}/runs/{copy['id']}"
    run = copy
    while True:
        while run["status"] not in FINAL | {"requires_action"}:
            run = await client.when_changed(path)
        turns = await read_course(client, await client.get(f"/ops/runs/{copy['id']}"))
        if run["status"] in FINAL:
            return turns
        asked, known = turns[-1], recorded[len(turns) - 1]
        if first_difference(recorded, turns) or is_cut(known):
            await client.post(f"{path}/cancel", {})
            return turns
        assert isinstance(asked, Round) and isinstance(known, Round)  # noqa: S101, PT018 - alike
        for call, answer in answers(asked, known):
            await client.post(f"{path}/tool_calls/{call.call_id}/resolve", answer)
        run = await client.get(path)


async def _newer(declared: list[Json], module: str) -> list[Json]:
    """The tools, those that the module has as it has them now. ``Failure`` if it has none."""
    from cli.worker import ask_about

    functions = await ask_about(module, "--functions", environment())
    by_name = {function["function"]["name"]: function for function in functions}
    names = [tool.get("function", {}).get("name") for tool in declared]
    if by_name.keys().isdisjoint(names):
        raise Failure(f"{module} has none of the run's tools: {', '.join(filter(None, names))}.")
    return [by_name.get(name, tool) for name, tool in zip(names, declared, strict=True)]


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as problem:
        raise Failure(f"{file} cannot be read: {problem}.") from None
