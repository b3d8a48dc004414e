"""Submitting tool outputs: all that are waited for, each once, as strings, or nothing."""

import json
from typing import Any

import httpx2
import pytest
from openai import AsyncOpenAI, BadRequestError
from openai.types.beta.threads import Run

from api.requests import MAX_OUTPUT_BYTES
from tests.http.driver import Asked, Driver


class Client:
    """Submits to one run."""

    def __init__(self, http: httpx2.AsyncClient, run: Run) -> None:
        self._http = http
        self._path = f"/v1/threads/{run.thread_id}/runs/{run.id}"

    async def submit(self, outputs: Any) -> httpx2.Response:
        path = f"{self._path}/submit_tool_outputs"
        return await self._http.post(path, json={"tool_outputs": outputs})

    async def status(self) -> str:
        return str((await self._http.get(self._path)).json()["status"])

    async def waiting(self) -> list[str]:
        action = (await self._http.get(self._path)).json()["required_action"]
        return [call["id"] for call in action["submit_tool_outputs"]["tool_calls"]]


@pytest.fixture
def submitter(http: httpx2.AsyncClient, run: Run) -> Client:
    return Client(http, run)


def outputs_for(ids: list[str], text: str = "ok") -> list[dict[str, str]]:
    return [{"tool_call_id": call_id, "output": text} for call_id in ids]


def quoted(ids: list[str]) -> str:
    return "[" + ", ".join(f"'{call_id}'" for call_id in ids) + "]"


async def test_only_the_whole_set_is_taken_in_any_order(
    submitter: Client, driver: Driver, run: Run
) -> None:
    ids = list(await driver.asks(run, *[Asked("look_up")] * 5))
    wrong = [ids[:1], ids[:4], [*ids, "call_unknown"], [*ids, ids[0]], []]
    for got in wrong:
        response = await submitter.submit(outputs_for(got))
        assert response.status_code == 400
        expected = f"Expected tool outputs for call_ids {quoted(ids)}, got {quoted(got)}"
        assert response.json()["error"]["message"] == expected
        assert await submitter.waiting() == ids
    accepted = await submitter.submit(outputs_for(ids[::-1]))
    assert (accepted.status_code, accepted.json()["status"]) == (200, "queued")
    assert accepted.json()["required_action"] is None
    assert await submitter.status() == "queued"


@pytest.mark.parametrize("bad", [{"a": 1}, [1], 1, 1.5, True, None])
async def test_an_output_that_is_not_a_string_is_named_and_changes_nothing(
    submitter: Client, driver: Driver, run: Run, bad: object
) -> None:
    ids = list(await driver.asks(run, *[Asked("look_up")] * 5))
    outputs: list[Any] = outputs_for(ids)
    outputs[3]["output"] = bad
    response = await submitter.submit(outputs)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "tool_outputs[3].output"
    assert response.json()["error"]["code"] == "invalid_type"
    assert (await submitter.submit(outputs_for(ids))).status_code == 200


@pytest.mark.parametrize("missing", ["output", "tool_call_id"])
async def test_an_output_with_a_field_missing_is_refused(
    submitter: Client, driver: Driver, run: Run, missing: str
) -> None:
    ids = list(await driver.asks(run, Asked("look_up")))
    (output,) = outputs_for(ids)
    del output[missing]
    response = await submitter.submit([output])
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["message"] == f"Missing required parameter: 'tool_outputs[0].{missing}'."
    assert error["code"] == "missing_required_parameter"


@pytest.mark.parametrize("text", ["", " ", "\n", "null", "[]", "a\x00b", "\u2028"])
async def test_any_string_is_an_answer_and_is_kept_as_it_is(
    submitter: Client, client: AsyncOpenAI, driver: Driver, run: Run, text: str
) -> None:
    ids = list(await driver.asks(run, Asked("look_up")))
    steps = client.beta.threads.runs.steps
    (before,) = (await steps.list(run.id, thread_id=run.thread_id)).data
    assert before.to_dict()["step_details"]["tool_calls"][0]["function"]["output"] is None  # type: ignore[index]
    assert (before.status, before.usage) == ("in_progress", None)
    assert (await submitter.submit(outputs_for(ids, text))).status_code == 200
    (after,) = (await steps.list(run.id, thread_id=run.thread_id)).data
    assert after.to_dict()["step_details"]["tool_calls"][0]["function"]["output"] == text  # type: ignore[index]
    assert (after.status, after.completed_at is None) == ("completed", False)


async def test_half_a_surrogate_pair_is_refused_and_the_run_still_waits(
    http: httpx2.AsyncClient, submitter: Client, driver: Driver, run: Run
) -> None:
    (call_id,) = await driver.asks(run, Asked("look_up"))
    outputs = [{"tool_call_id": call_id, "output": "HALF"}]
    body = json.dumps({"tool_outputs": outputs}).replace("HALF", r"\ud835")
    response = await http.post(
        f"/v1/threads/{run.thread_id}/runs/{run.id}/submit_tool_outputs",
        content=body,
        headers={"content-type": "application/json"},
    )
    assert response.status_code == 400
    assert await submitter.waiting() == [call_id]


async def test_each_round_takes_only_its_own_ids(
    submitter: Client, client: AsyncOpenAI, driver: Driver, run: Run
) -> None:
    first = list(await driver.asks(run, Asked("look_up")))
    assert (await submitter.submit(outputs_for(first))).status_code == 200
    second = list(await driver.asks(run, Asked("look_up")))
    for wrong in (first, first + second):
        assert (await submitter.submit(outputs_for(wrong))).status_code == 400
        assert await submitter.waiting() == second
    assert (await submitter.submit([{"output": "ok"}])).status_code == 400
    assert (await submitter.submit(outputs_for(second))).status_code == 200
    steps = await client.beta.threads.runs.steps.list(run.id, thread_id=run.thread_id)
    assert [step.type for step in steps.data] == ["tool_calls", "tool_calls"]


async def test_outputs_of_an_earlier_run_count_for_neither(
    http: httpx2.AsyncClient, client: AsyncOpenAI, driver: Driver, run: Run
) -> None:
    old = list(await driver.asks(run, Asked("look_up")))
    first = Client(http, run)
    await first.submit(outputs_for(old, "first"))
    await driver.answers(run, "Done")
    second_run = await client.beta.threads.runs.create(run.thread_id, assistant_id=run.assistant_id)
    second = Client(http, second_run)
    await driver.asks(second_run, Asked("look_up"))
    assert (await second.submit(outputs_for(old))).status_code == 400
    assert (await first.submit(outputs_for(old, "again"))).status_code == 400
    steps = await client.beta.threads.runs.steps.list(run.id, thread_id=run.thread_id, order="asc")
    assert steps.data[0].to_dict()["step_details"]["tool_calls"][0]["function"]["output"] == "first"  # type: ignore[index]


async def test_an_output_over_the_limit_is_refused_before_anything_is_stored(
    submitter: Client, driver: Driver, run: Run
) -> None:
    ids = list(await driver.asks(run, Asked("look_up"), Asked("look_up")))
    outputs = outputs_for(ids)
    outputs[1]["output"] = "ü" * (MAX_OUTPUT_BYTES // 2) + "."
    response = await submitter.submit(outputs)
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["param"] == "tool_outputs[1].output"
    assert error["code"] == "string_above_max_length"
    assert str(MAX_OUTPUT_BYTES) in error["message"]
    outputs[1]["output"] = "x" * MAX_OUTPUT_BYTES
    assert (await submitter.submit(outputs)).status_code == 200


async def test_outputs_cannot_be_submitted_while_only_workers_are_busy(
    client: AsyncOpenAI, driver: Driver, run: Run
) -> None:
    (call_id,) = await driver.asks(run, Asked("measure"), workers=("measure",))
    with pytest.raises(BadRequestError, match='Runs in status "in_progress" do not accept'):
        await client.beta.threads.runs.submit_tool_outputs(
            run.id,
            thread_id=run.thread_id,
            tool_outputs=[{"tool_call_id": call_id, "output": "mine"}],
        )


async def test_a_cancelled_runs_step_shows_no_output(
    client: AsyncOpenAI, driver: Driver, run: Run
) -> None:
    await driver.asks(run, Asked("look_up"))
    await client.beta.threads.runs.cancel(run.id, thread_id=run.thread_id)
    (step,) = (await client.beta.threads.runs.steps.list(run.id, thread_id=run.thread_id)).data
    assert (step.status, step.cancelled_at is None) == ("cancelled", False)
    assert step.to_dict()["step_details"]["tool_calls"][0]["function"]["output"] is None  # type: ignore[index]
