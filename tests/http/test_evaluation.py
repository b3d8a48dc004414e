"""``runstate eval`` against a whole server: the model plays what the user's message says."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest
from openai.types.beta import Assistant

from cli.client import Client
from cli.evaluation import Plan, evaluate
from cli.failure import Failure
from orchestrator.records import ToolSpec
from orchestrator.store import Store
from tests.engine.rig import EngineRoom
from tests.waiting import until

Json = dict[str, Any]

MEASURE_TWICE = [
    {"tool_calls": [{"name": "measure", "arguments": {"n": 1}}]},
    {"tool_calls": [{"name": "measure", "arguments": {"n": 2}}]},
    {"text": "{{ calls[-2] }} and {{ calls[-1] }}", "usage": {"prompt_tokens": 5}},
]


class Bench:
    """Evaluates suites as the command does."""

    def __init__(
        self, http: httpx2.AsyncClient, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.http = http
        self._file = folder / "eval.yaml"
        self._capsys = capsys

    async def evaluate(
        self,
        assistant: str | Json,
        *cases: Json,
        plan: Plan = Plan(),  # noqa: B008
    ) -> tuple[int, Json]:
        """The exit code, and what is printed."""
        named = [{"name": f"case {number}"} | case for number, case in enumerate(cases)]
        self._file.write_text(json.dumps({"assistant": assistant, "cases": named}))
        self._capsys.readouterr()
        code = 0
        try:
            client = Client(str(self.http.base_url), None)
            await evaluate(client, self._file, plan, is_json=True)
        except SystemExit as end:
            code = int(str(end.code))
        out = self._capsys.readouterr().out  # the logs of the api, then the JSON
        return code, json.loads(out[out.rindex("\n{\n") :])

    async def listed(self, kind: str) -> list[str]:
        """The ids of what is there."""
        return [one["id"] for one in (await self.http.get(f"/v1/{kind}")).json()["data"]]


def script(turns: Sequence[Any]) -> str:
    """A user's message that tells the model what to do."""
    return json.dumps({"turns": turns})


@pytest.fixture
def bench(
    http: httpx2.AsyncClient,
    engines: EngineRoom,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> Bench:
    return Bench(http, tmp_path, capsys)


def outputs(*values: Any) -> list[Json]:
    """What answers the tool, one call after another."""
    return [{"tool": "measure", "output": value} for value in values]


async def test_calls_are_answered_by_the_file_whoever_serves_the_tool(
    bench: Bench, assistant: Assistant, store: Store
) -> None:
    await store.publish_tools([ToolSpec(name="measure", approval="required")], 60)
    case = {
        "input": script(MEASURE_TWICE),
        "outputs": outputs({"m": 1}, "two"),
        "expect": {
            "tools": ["measure", {"name": "measure", "arguments": {"n": 2}}],
            "answer": {"equals": '{"m": 1} and two'},
        },
    }
    code, printed = await bench.evaluate(assistant.id, case, plan=Plan(runs=3, parallel=2))
    (score,) = printed["scores"]
    assert (code, printed["passed"], score["runs"], score["pass_rate"]) == (0, True, 3, 1.0)
    assert (score["turns"], score["model"]) == (3, "scripted/inline")
    assert await bench.listed("threads") == []


async def test_what_fails_is_kept_and_told_with_its_run(bench: Bench, assistant: Assistant) -> None:
    good = {"input": script([{"text": "Yes."}]), "expect": {"answer": {"contains": "Yes"}}}
    bad = {"input": script([{"text": "No."}]), "expect": {"answer": {"contains": "Yes"}}}
    code, printed = await bench.evaluate(assistant.id, good, bad)
    assert (code, printed["passed"]) == (1, False)
    (failure,) = printed["scores"][1]["failures"]
    assert failure["reason"] == "the answer does not contain 'Yes': No."
    (kept,) = await bench.listed("threads")
    run = (await bench.http.get(f"/v1/threads/{kept}/runs/{failure['run_id']}")).json()
    assert run["metadata"] == {"eval": "case 1"}


async def test_less_than_all_may_be_asked_for_and_all_may_be_kept(
    bench: Bench, assistant: Assistant
) -> None:
    bad = {"input": script([{"text": "No."}]), "expect": {"answer": {"contains": "Yes"}}}
    good = {"input": script([{"text": "Yes."}])}
    code, printed = await bench.evaluate(
        assistant.id, bad, good, plan=Plan(min_pass_rate=0, keep=True)
    )
    assert (code, printed["passed"]) == (0, True)
    assert len(await bench.listed("threads")) == 2


async def test_each_message_is_answered_before_the_next_one(
    bench: Bench, assistant: Assistant
) -> None:
    first = script([{"tool_calls": [{"name": "measure"}]}, {"text": "One."}])
    case = {
        "input": [first, script([{"text": "{{ outputs.measure }}"}])],
        "outputs": outputs("1 m"),
        "expect": {"tools": ["measure"], "order": "exact", "answer": {"equals": "1 m"}},
    }
    code, printed = await bench.evaluate(assistant.id, case)
    assert (code, printed["scores"][0]["turns"]) == (0, 3)


async def test_a_conversation_stops_at_a_run_that_does_not_complete(
    bench: Bench, assistant: Assistant
) -> None:
    broken = script([{"error": {"status": 400, "message": "Too long."}}])
    case = {"input": [broken, script([{"text": "Yes."}])]}
    code, printed = await bench.evaluate(assistant.id, case)
    (failure,) = printed["scores"][0]["failures"]
    assert code == 1
    assert failure["reason"] == "the run is failed, not completed: Too long."
    expected = {"input": [broken], "expect": {"status": "failed"}}
    assert (await bench.evaluate(assistant.id, expected))[0] == 0


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (None, "no worker serves measure, and the case has no outputs"),
        ([], 'the case has no output for measure({"n":1})'),
        (
            [{"tool": "measure", "arguments": {"n": 2}, "output": ""}],
            'the case has no output for measure({"n":1})',
        ),
    ],
)
async def test_a_call_that_nobody_answers_ends_the_play(
    bench: Bench, assistant: Assistant, given: list[Json] | None, reason: str
) -> None:
    case = {"input": script(MEASURE_TWICE)} | ({} if given is None else {"outputs": given})
    code, printed = await bench.evaluate(assistant.id, case)
    (failure,) = printed["scores"][0]["failures"]
    assert code == 1
    assert failure["reason"] == f"the run is cancelled, not completed: {reason}"


async def test_an_approval_is_nobodys_to_give(
    bench: Bench, assistant: Assistant, store: Store
) -> None:
    await store.publish_tools([ToolSpec(name="measure", approval="required")], 60)
    _, printed = await bench.evaluate(assistant.id, {"input": script(MEASURE_TWICE)})
    (failure,) = printed["scores"][0]["failures"]
    assert failure["reason"].endswith("waits for somebody to approve measure")


async def test_models_are_compared_side_by_side(bench: Bench, assistant: Assistant) -> None:
    case = {"input": script([{"text": "Yes."}]), "expect": {"answer": {"equals": "Yes."}}}
    models = ("scripted/inline", "scripted/echo")
    code, printed = await bench.evaluate(assistant.id, case, plan=Plan(models=models))
    assert code == 1
    rates = {score["model"]: score["pass_rate"] for score in printed["scores"]}
    assert rates == {"scripted/inline": 1.0, "scripted/echo": 0.0}


async def test_an_assistant_may_be_in_the_file_and_goes_when_it_is_done(bench: Bench) -> None:
    inline = {"model": "scripted/inline", "instructions": "Be brief."}
    case = {"input": script([{"text": "Yes."}])}
    code, _ = await bench.evaluate(
        inline, case, case | {"name": "more", "instructions": "Be long."}
    )
    assert code == 0
    assert await bench.listed("assistants") == []
    with pytest.raises(Failure, match=r"case 0: the assistant is refused: .*temperature"):
        await bench.evaluate(inline | {"temperature": 9}, case)


async def test_an_assistant_is_found_by_its_name_if_one_alone_has_it(
    bench: Bench, assistant: Assistant
) -> None:
    case = {"input": script([{"text": "Yes."}])}
    with pytest.raises(Failure, match="No assistant has the id or the name Reader"):
        await bench.evaluate("Reader", case)
    body = {"name": "Reader", "model": "scripted/inline"}
    await bench.http.post("/v1/assistants", json=body)
    assert (await bench.evaluate("Reader", case))[0] == 0
    await bench.http.post("/v1/assistants", json=body)
    with pytest.raises(Failure, match="2 assistants are named Reader"):
        await bench.evaluate("Reader", case)


async def test_a_play_that_cannot_be_begun_ends_the_others_and_leaves_nothing(
    bench: Bench, assistant: Assistant
) -> None:
    slow = {"input": script([{"delay_s": 30, "text": "Late."}])}
    wrong = {"input": "Hello.", "instructions": "x" * 300_000}
    with pytest.raises(Failure, match="instructions"):
        await bench.evaluate(assistant.id, slow, wrong)
    assert await bench.listed("threads") == []


async def test_whoever_interrupts_it_leaves_nothing_behind(
    bench: Bench, assistant: Assistant
) -> None:
    slow = {"input": script([{"delay_s": 30, "text": "Late."}])}
    body = {"model": "scripted/inline"}
    evaluation = asyncio.create_task(bench.evaluate(body, slow, plan=Plan(runs=5, parallel=4)))

    async def is_under_way() -> bool:
        return len(await bench.listed("threads")) == 4

    assert await until(is_under_way)
    evaluation.cancel()
    await asyncio.gather(evaluation, return_exceptions=True)
    assert await bench.listed("threads") == []
    assert await bench.listed("assistants") == [assistant.id]
