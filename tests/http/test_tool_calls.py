"""The ledger over HTTP: every call of a run can be read, and an operator can act on one."""

import json
from typing import Any

import httpx2
import pytest
from openai.types.beta.threads import Run

from cli.calls import act_on_call, list_calls, show_call
from cli.client import Client
from cli.failure import Failure
from orchestrator.commands import CallResult, ClaimCall, Outcome
from orchestrator.shell import change_run
from orchestrator.store import RunRef, Store
from tests.http.driver import Asked, Driver


def path(run: Run, *more: str) -> str:
    return "/".join(("/v1/threads", run.thread_id, "runs", run.id, "tool_calls", *more))


async def read(http: httpx2.AsyncClient, run: Run, call_id: str) -> dict[str, Any]:
    answer = await http.get(path(run, call_id))
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_the_ledger_lists_every_call_with_what_became_of_it(
    http: httpx2.AsyncClient, driver: Driver, run: Run
) -> None:
    first, second = await driver.asks(
        run, Asked("measure", '{"a": 1}'), Asked("measure"), workers=("measure",)
    )
    await driver.works(run, first, "1 m")
    listed = (await http.get(path(run), params={"order": "asc"})).json()
    assert [call["id"] for call in listed["data"]] == [first, second]
    assert (listed["first_id"], listed["has_more"]) == (first, False)
    done, waiting = listed["data"]
    assert (done["state"], done["worker"], done["attempts"]) == ("succeeded", "worker-1", 1)
    assert (done["arguments"], done["output"]) == ('{"a": 1}', "1 m")
    assert (waiting["state"], waiting["output"], waiting["queue"]) == ("dispatched", None, "tools")
    assert await read(http, run, first) == done


async def test_the_whole_of_a_cut_output_can_be_read(
    http: httpx2.AsyncClient, driver: Driver, run: Run, store: Store
) -> None:
    (call_id,) = await driver.asks(run, Asked("measure"), workers=("measure",))
    ref = RunRef(run.thread_id, run.id)
    await change_run(store, ref, ClaimCall(call_id, "worker-1", 60_000))
    result = CallResult(call_id, 1, Outcome.SUCCEEDED, "a part", full="a part and the rest")
    await change_run(store, ref, result)
    call = await read(http, run, call_id)
    assert (call["output"], call["full_output"]) == ("a part", "a part and the rest")


@pytest.mark.parametrize(
    "ending",
    [
        ("cancel", {}, "cancelled"),
        ("fail", {"message": "The shop is closed."}, "failed"),
        ("resolve", {"output": "It is 3 m."}, "succeeded"),
    ],
)
async def test_an_operator_ends_a_call_and_the_run_goes_on(
    http: httpx2.AsyncClient, driver: Driver, run: Run, ending: tuple[str, dict[str, str], str]
) -> None:
    verb, body, state = ending
    (call_id,) = await driver.asks(run, Asked("measure"), workers=("measure",))
    answer = await http.post(path(run, call_id, verb), json=body)
    assert (answer.status_code, answer.json()["state"]) == (200, state)
    assert all(text in answer.json()["output"] for text in body.values())
    await driver.answers(run, "Done")
    again = await http.post(path(run, call_id, verb), json=body)
    assert again.status_code == 400


async def test_a_call_is_not_failed_without_a_word_and_who_comes_too_late_is_told_what_to_do(
    http: httpx2.AsyncClient, driver: Driver, run: Run
) -> None:
    (call_id,) = await driver.asks(run, Asked("measure"), workers=("measure",))
    empty = await http.post(path(run, call_id, "fail"), json={"message": ""})
    assert (empty.status_code, empty.json()["error"]["param"]) == (400, "message")
    assert (await read(http, run, call_id))["state"] == "dispatched"
    await http.post(path(run, call_id, "cancel"))
    late = await http.post(path(run, call_id, "fail"), json={"message": "closed"})
    assert late.json()["error"]["message"].endswith("the run's tool_calls say what came of it.")


async def test_a_lost_once_call_is_done_again_only_when_an_operator_says_so(
    http: httpx2.AsyncClient, driver: Driver, run: Run, store: Store
) -> None:
    (call_id, _) = await driver.asks(run, Asked("measure"), Asked("other"), workers=("measure",))
    ref = RunRef(run.thread_id, run.id)
    await change_run(store, ref, ClaimCall(call_id, "worker-1", 60_000))
    answer = await http.post(path(run, call_id, "requeue"))
    assert answer.json()["state"] == "dispatched"
    assert "done twice" in answer.json()["warning"]
    await driver.works(run, call_id, "3 m")
    call = await read(http, run, call_id)
    assert (call["attempts"], call["allowed_again"], call["output"]) == (2, 1, "3 m")


async def test_a_call_is_sent_again_once_however_often_the_request_is(
    http: httpx2.AsyncClient, driver: Driver, run: Run, store: Store
) -> None:
    (call_id, _) = await driver.asks(run, Asked("measure"), Asked("other"), workers=("measure",))
    ref, key = RunRef(run.thread_id, run.id), {"Idempotency-Key": "once more"}
    for _ in range(3):
        answer = await http.post(path(run, call_id, "requeue"), headers=key)
        assert answer.json()["allowed_again"] == 1
        await change_run(store, ref, ClaimCall(call_id, "worker-1", 60_000, nonce="mine"))
    call = await read(http, run, call_id)
    assert (call["state"], call["attempts"]) == ("started", 1)


async def test_an_operator_may_answer_for_other_arguments_than_the_models(
    http: httpx2.AsyncClient, driver: Driver, run: Run
) -> None:
    (call_id,) = await driver.asks(run, Asked("measure", '{"a": 1}'))
    body = {"output": "3 m", "arguments": {"a": 2}}
    call = (await http.post(path(run, call_id, "resolve"), json=body)).json()
    assert (call["arguments"], call["asked_arguments"]) == ('{"a":2}', '{"a": 1}')


async def test_what_a_model_is_told_of_an_unanswered_call_is_shown(
    http: httpx2.AsyncClient, driver: Driver, run: Run
) -> None:
    (call_id,) = await driver.asks(run, Asked("measure"))
    await driver.cancels(run)
    call = await read(http, run, call_id)
    assert call["state"] == "cancelled"
    assert "The run ended (cancelled) before this call did." in call["output"]
    (listed,) = (await http.get(path(run))).json()["data"]
    assert listed["output"] == call["output"]


async def test_what_is_not_there_or_not_open_is_refused(
    http: httpx2.AsyncClient, driver: Driver, run: Run
) -> None:
    (call_id,) = await driver.asks(run, Asked("measure"))
    assert (await http.get(path(run, "call_of_nobody"))).status_code == 404
    assert (await http.post(path(run, "call_of_nobody", "cancel"))).status_code == 404
    assert (await http.post(path(run, call_id, "requeue"))).status_code == 400
    assert (await http.post(path(run, call_id, "resolve"), json={})).status_code == 400


async def test_the_command_lists_shows_and_acts(
    address: str, driver: Driver, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = await driver.asks(run, Asked("measure"), Asked("measure"), workers=("measure",))
    await list_calls(Client(address, None), run.id)
    listed = capsys.readouterr().out
    assert first in listed
    assert listed.count("dispatched") == 2
    await act_on_call(Client(address, None), run.id, first, "requeue", {})
    assert "done twice" in capsys.readouterr().out
    await act_on_call(Client(address, None), run.id, first, "resolve", {"output": "It is 3 m."})
    assert f"{first} is succeeded.\n" in capsys.readouterr().out
    await show_call(Client(address, None), run.id, first)
    assert '"output": "It is 3 m."' in capsys.readouterr().out
    with pytest.raises(Failure, match=r"runstate calls list"):
        await act_on_call(Client(address, None), run.id, "call_x", "cancel", {})
    assert (await driver.call(run, second)).state == "dispatched"


async def test_a_traceback_can_be_read_by_people_and_the_rest_by_programs(
    address: str, driver: Driver, run: Run, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    (call_id,) = await driver.asks(run, Asked("measure"), workers=("measure",))
    ref, told = RunRef(run.thread_id, run.id), 'ValueError: no\n  File "shop.py", line 3, in f\n'
    await change_run(store, ref, ClaimCall(call_id, "worker-1", 60_000, nonce="mine"))
    await change_run(store, ref, CallResult(call_id, 1, Outcome.FAILED, "{}", told))
    await show_call(Client(address, None), run.id, call_id)
    said = capsys.readouterr()
    assert json.dumps(told) in said.out
    assert told in said.err
