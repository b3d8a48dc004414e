"""Calls that wait to be approved: what clients are shown of them, and who may answer how."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from openai import AsyncOpenAI
from openai.types.beta.threads import Run

from cli.calls import act_on_call, edited
from cli.client import Client
from cli.failure import Failure
from cli.watch import Story
from orchestrator.records import ToolSpec
from orchestrator.store import Store
from tests.http.driver import Asked, Driver
from tests.http.streams.frames import names, read_all
from tests.waiting import until

AMOUNT = {
    "type": "object",
    "properties": {"amount": {"type": "integer"}},
    "required": ["amount"],
}


def path(run: Run, *more: str) -> str:
    return "/".join(("/v1/threads", run.thread_id, "runs", run.id, *more))


async def read(http: httpx2.AsyncClient, run: Run, *more: str) -> dict[str, Any]:
    answer = await http.get(path(run, *more))
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def submit(http: httpx2.AsyncClient, run: Run, **body: Any) -> httpx2.Response:
    return await http.post(path(run, "submit_tool_outputs"), json=body)


async def is_dispatched(http: httpx2.AsyncClient, run: Run, call_id: str) -> bool:
    return bool((await read(http, run, "tool_calls", call_id))["state"] == "dispatched")


@pytest.fixture
async def tolerant(address: str) -> AsyncIterator[AsyncOpenAI]:
    """The SDK as applications use it, which takes what it does not know."""
    async with AsyncOpenAI(base_url=f"{address}/v1", api_key="any", max_retries=0) as client:
        yield client


async def test_an_approval_is_asked_for_in_the_form_that_azure_knows(
    http: httpx2.AsyncClient, driver: Driver, run: Run
) -> None:
    (call_id,) = await driver.asks(run, Asked("measure", '{"amount": 7}'), to_approve=("measure",))
    shown = await read(http, run)
    assert shown["status"] == "requires_action"
    asked = {
        "id": call_id,
        "type": "mcp",
        "name": "measure",
        "arguments": '{"amount": 7}',
        "server_label": "tools",
    }
    approval = {"tool_calls": [asked]}
    action = {"type": "submit_tool_approval", "submit_tool_approval": approval}
    assert shown["required_action"] == action
    listed = (await read(http, run, "tool_calls"))["data"]
    assert [(call["state"], call["queue"]) for call in listed] == [("awaiting_approval", "tools")]


async def test_calls_are_approved_and_rejected_where_outputs_are_submitted(
    http: httpx2.AsyncClient, driver: Driver, run: Run
) -> None:
    yes, no = await driver.asks(run, *[Asked("measure")] * 2, to_approve=("measure",))
    approvals = [
        {"tool_call_id": yes, "approve": True, "headers": {"x-any": "thing"}},
        {"tool_call_id": no, "approve": False},
    ]
    answer = await submit(http, run, tool_approvals=approvals)
    assert (answer.status_code, answer.json()["status"]) == (200, "in_progress")
    assert answer.json()["required_action"] is None
    assert (await driver.call(run, yes)).state == "dispatched"
    rejected = await read(http, run, "tool_calls", no)
    assert json.loads(rejected["output"])["error"]["type"] == "rejected"
    await driver.works(run, yes, "3 m")
    await driver.answers(run, "Done.")
    again = await submit(http, run, tool_approvals=approvals)
    assert again.status_code == 400


async def test_outputs_for_an_approval_are_refused_with_what_is_waited_for_instead(
    http: httpx2.AsyncClient, driver: Driver, run: Run
) -> None:
    (call_id,) = await driver.asks(run, Asked("measure"), to_approve=("measure",))
    answer = await submit(http, run, tool_outputs=[{"tool_call_id": call_id, "output": "3 m"}])
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == (
        'Runs in status "requires_action" do not accept tool outputs. This one waits for'
        " 'tool_approvals'."
    )


async def test_a_repeated_approval_counts_once(
    http: httpx2.AsyncClient, driver: Driver, run: Run
) -> None:
    (call_id,) = await driver.asks(run, Asked("measure"), to_approve=("measure",))
    body = {"tool_approvals": [{"tool_call_id": call_id, "approve": True}]}
    url, key = path(run, "submit_tool_outputs"), {"Idempotency-Key": "agreed"}
    answers = [await http.post(url, json=body, headers=key) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200]


async def test_the_openai_sdk_stops_polling_at_an_approval_and_goes_on_behind_it(
    tolerant: AsyncOpenAI, driver: Driver, run: Run, http: httpx2.AsyncClient
) -> None:
    (call_id,) = await driver.asks(run, Asked("measure"), to_approve=("measure",))
    runs = tolerant.beta.threads.runs
    waiting = await runs.poll(run.id, thread_id=run.thread_id)
    assert (waiting.status, waiting.required_action.type) == (  # type: ignore[union-attr]
        "requires_action",
        "submit_tool_approval",
    )
    assert (await http.post(path(run, "tool_calls", call_id, "approve"))).status_code == 200
    await driver.works(run, call_id, "3 m")
    await driver.answers(run, "Done.")
    assert (await runs.poll(run.id, thread_id=run.thread_id)).status == "completed"


async def test_a_stream_ends_at_the_clients_calls_and_then_at_the_approval_behind_them(
    http: httpx2.AsyncClient, driver: Driver, run: Run
) -> None:
    own, other = await driver.asks(run, Asked("look_up"), Asked("measure"), to_approve=("measure",))
    waiting = await read(http, run)
    (shown,) = waiting["required_action"]["submit_tool_outputs"]["tool_calls"]
    assert shown["id"] == own
    url = path(run, "submit_tool_outputs")
    body = {"tool_outputs": [{"tool_call_id": own, "output": "ok"}], "stream": True}
    frames = await read_all(http, "POST", url, json=body)
    assert names(frames) == ["run.requires_action"]
    (asked,) = frames[0].data["required_action"]["submit_tool_approval"]["tool_calls"]
    assert asked["id"] == other
    approvals = [{"tool_call_id": other, "approve": True}]
    body = {"tool_approvals": approvals, "stream": True}
    async with asyncio.TaskGroup() as group:
        told = group.create_task(read_all(http, "POST", url, json=body))
        await until(lambda: is_dispatched(http, run, other))
        await driver.works(run, other, "3 m")
        await driver.answers(run, "Done.")
    frames = told.result()
    assert names(frames)[:3] == ["run.step.completed", "run.queued", "run.in_progress"]
    assert names(frames)[-1] == "run.completed"


async def test_an_operator_may_edit_the_arguments_of_what_he_approves(
    http: httpx2.AsyncClient, driver: Driver, run: Run, store: Store
) -> None:
    await store.publish_tools([ToolSpec(name="measure", parameters=AMOUNT)], ttl_s=60)
    (call_id,) = await driver.asks(run, Asked("measure", '{"amount": 70}'), to_approve=("measure",))
    url = path(run, "tool_calls", call_id, "approve")
    refused = await http.post(url, json={"arguments": {"amount": "seven"}})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "arguments")
    assert refused.json()["error"]["message"].startswith("amount: ")
    assert (await driver.call(run, call_id)).state == "awaiting_approval"
    approved = (await http.post(url, json={"arguments": {"amount": 7}})).json()
    assert (approved["state"], approved["arguments"]) == ("dispatched", '{"amount":7}')
    assert approved["asked_arguments"] == '{"amount": 70}'


async def test_arguments_of_a_tool_that_nobody_publishes_are_checked_by_its_worker(
    http: httpx2.AsyncClient, driver: Driver, run: Run
) -> None:
    (call_id,) = await driver.asks(run, Asked("measure"), to_approve=("measure",))
    url = path(run, "tool_calls", call_id, "approve")
    assert (await http.post(url, json={"arguments": {"any": 1}})).status_code == 200


async def test_a_rejection_has_its_reason_and_counts_once(
    http: httpx2.AsyncClient, driver: Driver, run: Run
) -> None:
    (call_id,) = await driver.asks(run, Asked("measure"), to_approve=("measure",))
    url = path(run, "tool_calls", call_id, "reject")
    rejected = (await http.post(url, json={"reason": "Too much."})).json()
    assert (rejected["state"], rejected["attempts"]) == ("failed", 0)
    message = json.loads(rejected["output"])["error"]["message"]
    assert message == "This call was rejected: Too much."
    again = await http.post(url)
    message = again.json()["error"]["message"]
    assert (again.status_code, message.split(":")[0]) == (400, f"{call_id} is failed")


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"tool_approvals": []}, "tool_approvals"),
        ({"tool_approvals": [{"approve": True}]}, "tool_approvals[0].tool_call_id"),
        ({"tool_approvals": [{"tool_call_id": "x"}]}, "tool_approvals[0].approve"),
        ({"tool_approvals": [], "tool_outputs": []}, "tool_outputs"),
        ({"tool_outputs": [{"tool_call_id": "x"}]}, "tool_outputs[0].output"),
        ({}, "tool_outputs"),
    ],
)
async def test_what_is_wrong_with_an_answer_is_named(
    http: httpx2.AsyncClient, run: Run, body: dict[str, Any], param: str
) -> None:
    answer = await submit(http, run, **body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


async def test_only_calls_that_wait_for_it_are_approved(
    http: httpx2.AsyncClient, driver: Driver, run: Run
) -> None:
    (own, other) = await driver.asks(run, Asked("look_up"), Asked("measure"), workers=("measure",))
    for call_id, status in ((own, 400), (other, 400), ("call_of_nobody", 404)):
        for verb in ("approve", "reject"):
            answer = await http.post(path(run, "tool_calls", call_id, verb))
            assert answer.status_code == status
    edits = {"arguments": {"amount": 7}}
    unknown = await http.post(path(run, "tool_calls", "call_of_nobody", "approve"), json=edits)
    assert unknown.status_code == 404


async def test_the_command_approves_and_rejects(
    address: str, driver: Driver, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    yes, no = await driver.asks(run, *[Asked("measure")] * 2, to_approve=("measure",))
    body = edited('{"amount": 7}')
    await act_on_call(Client(address, None), run.id, yes, "approve", body)
    await act_on_call(Client(address, None), run.id, no, "reject", {"reason": "Too much."})
    printed = capsys.readouterr().out.splitlines()
    assert {f"{yes} is dispatched.", f"{no} is failed."} <= set(printed)
    assert (await driver.call(run, yes)).arguments == '{"amount":7}'
    assert edited(None) == {}
    with pytest.raises(Failure, match="not JSON"):
        edited("{")


async def test_reports_tell_what_waits_for_approval_and_when_it_was_given(
    http: httpx2.AsyncClient, driver: Driver, run: Run
) -> None:
    (call_id,) = await driver.asks(run, Asked("measure"), to_approve=("measure",))
    document = json.dumps(await read(http, run))
    story = "".join(Story().tell("thread.run.requires_action", "1-0", document))
    assert story.endswith("measure {} waits for approval\n")
    await http.post(path(run, "tool_calls", call_id, "approve"))
    report = (await http.get(f"/ops/runs/{run.id}")).json()
    told = [line["text"] for line in report["timeline"]]
    assert "measure() asked for, to be approved" in told
    assert "measure() approved" in told


async def test_a_worker_never_sees_a_call_of_a_run_that_was_cancelled_meanwhile(
    http: httpx2.AsyncClient, driver: Driver, run: Run
) -> None:
    (call_id,) = await driver.asks(run, Asked("measure"), to_approve=("measure",))
    assert (await http.post(path(run, "cancel"))).json()["status"] == "cancelled"
    answer = await http.post(path(run, "tool_calls", call_id, "approve"))
    assert answer.status_code == 400
    assert (await driver.call(run, call_id)).attempts == 0
