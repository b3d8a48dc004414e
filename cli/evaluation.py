"""``runstate eval``: the cases of a file, each so many times with each model, some at once."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cli.client import Client
from cli.failure import Failure, Refusal
from cli.play import play
from cli.scores import Play, as_json, failures, print_scores, scores
from cli.suite import Case, Suite, read_suite
from cli.terminal import counted, printable
from cli.verdict import complaint

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Plan:
    """How often each case is played, how many plays go on at once, with which models (none: the
    case's own), which share of each case must pass, and whether threads are kept that did.
    """

    runs: int = 1
    parallel: int = 4
    models: tuple[str, ...] = ()
    min_pass_rate: float = 1.0
    keep: bool = False


async def evaluate(client: Client, file: Path, plan: Plan, *, is_json: bool) -> None:
    """Plays the file and prints the scores. Exits with code 1 if a case passed too seldom."""
    suite = read_suite(file)
    async with client, _assistants(client, suite) as assistants:
        rows = scores(await _play_all(client, suite, plan, assistants))
    is_passed = all(row.pass_rate >= plan.min_pass_rate for row in rows)
    if is_json:
        print(json.dumps(as_json(rows, is_passed=is_passed), ensure_ascii=False, indent=2))
    else:
        print_scores(rows)
        for line in failures(rows):
            print(printable(line))
    if not is_passed:
        raise SystemExit(1)


async def _play_all(
    client: Client, suite: Suite, plan: Plan, assistants: Mapping[str, str]
) -> list[Play]:
    """Every play, in the order of the file. What cannot be played at all ends the others."""
    places = asyncio.Semaphore(plan.parallel)

    async def one(case: Case, model: str | None) -> Play:
        async with places:
            played = await play(client, case, assistants[case.name], model)
            found = complaint(case.expect, played)
            if found is None and not plan.keep:
                await client.delete(f"/v1/threads/{played.thread_id}")
            return Play(case.name, played, found)

    tasks = [
        asyncio.create_task(one(case, model))
        for case in suite.cases
        for model in plan.models or (case.model or suite.model,)
        for _ in range(plan.runs)
    ]
    try:
        with counted(tasks, "plays"):
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()
        return [task.result() for task in tasks]
    finally:  # each is cancelled once: what it does then is to remove its thread
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def _assistants(client: Client, suite: Suite) -> AsyncIterator[dict[str, str]]:
    """The id of each case's assistant, by the case's name. Those that are made for it go again."""
    known = [one async for one in client.pages("/v1/assistants")]
    made: dict[str, str] = {}
    found: dict[str, str] = {}
    try:
        for case in suite.cases:
            wanted = case.assistant or suite.assistant or ""
            if isinstance(wanted, str):
                found[case.name] = _find(wanted, known)
                continue
            key = json.dumps(wanted, sort_keys=True)
            if key not in made:
                made[key] = await _make(client, case, wanted)
            found[case.name] = made[key]
        yield found
    finally:
        for assistant_id in made.values():
            await client.delete(f"/v1/assistants/{assistant_id}")


async def _make(client: Client, case: Case, body: Json) -> str:
    try:
        return str((await client.post("/v1/assistants", body))["id"])
    except Refusal as refusal:
        raise Failure(f"{case.name}: the assistant is refused: {refusal}") from None


def _find(wanted: str, known: list[Json]) -> str:
    by_name = [one["id"] for one in known if one["name"] == wanted]
    if any(one["id"] == wanted for one in known):
        return wanted
    if len(by_name) == 1:
        return str(by_name[0])
    if by_name:
        raise Failure(f"{len(by_name)} assistants are named {wanted}: say the id of one of them.")
    raise Failure(f"No assistant has the id or the name {wanted}.")
