"""Which events a run tells, in which order, and where each stream ends."""

import asyncio
import json

import pytest
from openai import AsyncOpenAI
from openai.types.beta import Assistant, Thread
from openai.types.beta.threads import Run

from tests.http.driver import Asked, Driver
from tests.http.streams.conftest import Player, answers, path_of
from tests.http.streams.frames import Frame, joined, last, names, read_all, reading

STARTED = ["created", "run.created", "run.queued", "run.in_progress"]
MESSAGE_OPENED = [
    "run.step.created", "run.step.in_progress", "message.created", "message.in_progress",
    "message.delta",
]  # fmt: skip
MESSAGE_DONE = ["message.completed", "run.step.completed"]
ASKED = ["run.step.created", "run.step.in_progress", "run.step.delta", "run.requires_action"]
RESUMED = ["run.step.completed", "run.queued", "run.in_progress"]

LOOK = {"name": "look_up", "arguments": {"word": "a rather long one, so that it takes some pieces"}}
MEASURE = {"name": "measure", "arguments": {"of": "it"}}


async def test_an_answer_is_told_from_the_creation_of_its_run_to_its_end(player: Player) -> None:
    told = await player.plays({"text": "The tide is high.", "chunk_delay_s": 0.03})
    assert names(told) == [*STARTED, *MESSAGE_OPENED, *MESSAGE_DONE, "run.completed"]
    assert joined(told) == "The tide is high."
    message = last(told, "thread.message.completed").data
    path = path_of(told[-1])
    assert told[0].data == await player.get(path.partition("/runs")[0])
    assert told[-1].data == await player.get(path)
    assert message == await player.get(f"{path.partition('/runs')[0]}/messages/{message['id']}")
    opened = last(told, "thread.message.created").data
    assert (opened["id"], opened["status"], opened["content"]) == (message["id"], "in_progress", [])


async def test_a_stream_ends_where_the_client_must_act_and_the_next_one_goes_on(
    player: Player,
) -> None:
    first = await player.plays(
        {"tool_calls": [LOOK, MEASURE]}, {"tool_calls": [LOOK]}, {"text": "So."}
    )
    assert names(first) == [*STARTED, *ASKED]
    second = await player.submits(first[-1], look_up="known", measure="long")
    assert names(second) == [*RESUMED, *ASKED]
    calls = second[0].data["step_details"]["tool_calls"]
    assert [call["function"]["output"] for call in calls] == ["known", "long"]
    third = await player.submits(second[-1], look_up="known")
    assert names(third) == [*RESUMED, *MESSAGE_OPENED, *MESSAGE_DONE, "run.completed"]
    steps = [
        frame.data for frame in (*second, *third) if frame.event == "thread.run.step.completed"
    ]
    listed = (await player.get(f"{path_of(third[-1])}/steps?order=asc"))["data"]
    assert listed == steps


async def test_deltas_of_calls_add_up_to_what_is_asked(player: Player) -> None:
    told = await player.plays({"tool_calls": [LOOK, MEASURE, LOOK]})
    merged: dict[int, dict[str, str]] = {}
    for frame in told:
        if frame.event == "thread.run.step.delta":
            for call in frame.data["delta"]["step_details"]["tool_calls"]:
                is_new = call["index"] not in merged
                assert call["index"] <= len(merged)
                so_far = merged.setdefault(call["index"], {"id": "", "name": "", "arguments": ""})
                assert is_new == ("id" in call) == ("name" in call["function"])
                so_far["id"] += call.get("id", "")
                so_far["name"] += call["function"].get("name", "")
                so_far["arguments"] += call["function"]["arguments"]
    asked = told[-1].data["required_action"]["submit_tool_outputs"]["tool_calls"]
    assert list(merged.values()) == [{"id": call["id"], **call["function"]} for call in asked]
    created = last(told, "thread.run.step.created").data
    assert created["step_details"] == {"type": "tool_calls", "tool_calls": []}


async def test_what_is_said_beside_calls_is_a_message_of_its_own(player: Player) -> None:
    told = await player.plays({"text": "I look.", "tool_calls": [LOOK]})
    assert names(told) == [*STARTED, *MESSAGE_OPENED, *MESSAGE_DONE, *ASKED]
    assert joined(told) == "I look."


async def test_words_behind_calls_are_told_within_the_step_of_the_calls(player: Player) -> None:
    turn = {"tool_calls": [LOOK], "text": "I look.", "calls_first": True, "chunk_delay_s": 0.03}
    told = await player.plays(turn)
    begun, message = ASKED[:-1], MESSAGE_OPENED[2:]
    assert names(told) == [*STARTED, *begun, *message, "message.completed", "run.requires_action"]
    assert joined(told) == "I look."
    listed = (await player.get(f"{path_of(told[-1])}/steps?order=asc"))["data"]
    assert [(step["type"], step["status"]) for step in listed] == [
        ("tool_calls", "in_progress"),
        ("message_creation", "completed"),
    ]


async def test_an_answer_that_runs_out_of_tokens_ends_incomplete(player: Player) -> None:
    told = await player.plays({"text": "Once upon a", "finish_reason": "length"})
    ending = ["message.incomplete", "run.step.completed", "run.incomplete"]
    assert names(told) == [*STARTED, *MESSAGE_OPENED, *ending]
    message = last(told, "thread.message.incomplete").data
    assert message["incomplete_details"] == {"reason": "max_tokens"}
    assert message["content"][0]["text"]["value"] == joined(told) == "Once upon a"
    assert told[-1].data["incomplete_details"]["reason"] == "max_completion_tokens"


async def test_a_model_that_fails_in_mid_answer_leaves_what_it_said(player: Player) -> None:
    error = {"status": 400, "message": "No."}
    broken = {"text": "Once upon a", "chunk_delay_s": 0.05, "error": error}
    told = await player.plays(broken)
    ending = ["message.incomplete", "run.step.failed", "run.failed"]
    assert names(told) == [*STARTED, *MESSAGE_OPENED, *ending]
    message = last(told, "thread.message.incomplete").data
    assert message["content"][0]["text"]["value"] == joined(told) != ""
    assert message["incomplete_details"] == {"reason": "run_failed"}
    assert told[-1].data["last_error"]["code"] == "invalid_prompt"


async def test_a_cancelled_answer_keeps_what_was_said(player: Player) -> None:
    body = player.body({"text": "one two three four", "chunk_delay_s": 30})
    told = []
    async with reading(player.http, "POST", "/v1/threads/runs", json=body) as frames:
        async for frame in frames:
            told.append(frame)
            if frame.event == "thread.message.delta":
                run = last(told, "thread.run.in_progress")
                await player.http.post(f"{path_of(run)}/cancel")
    assert told.pop() == Frame("done", "[DONE]")
    ending = ["run.cancelling", "message.incomplete", "run.step.cancelled", "run.cancelled"]
    assert names(told) == [*STARTED, *MESSAGE_OPENED, *ending]
    message = last(told, "thread.message.incomplete").data
    assert message["content"][0]["text"]["value"] == joined(told) == "one "
    assert message["incomplete_details"] == {"reason": "run_cancelled"}


async def test_calls_of_workers_go_on_inside_the_stream(
    driver: Driver, run: Run, player_alone: Player
) -> None:
    reading_all = asyncio.create_task(
        read_all(player_alone.http, "GET", f"/v1/threads/{run.thread_id}/runs/{run.id}/events")
    )
    (call_id,) = await driver.asks(run, Asked("look_up"), workers=("look_up",))
    await driver.works(run, call_id, "known")
    await driver.answers(run, "So it is.")
    told = await reading_all
    assert "run.requires_action" not in names(told)
    assert told[-1].event == "thread.run.completed"
    step = next(frame for frame in told if frame.event == "thread.run.step.completed")
    assert step.data["step_details"]["tool_calls"][0]["function"]["output"] == "known"


async def test_a_mixed_round_ends_the_stream_once_the_client_must_act_and_goes_on_with_the_step(
    player_alone: Player, driver: Driver, client: AsyncOpenAI
) -> None:
    body = player_alone.body({"text": "unused"})
    async with reading(player_alone.http, "POST", "/v1/threads/runs", json=body) as frames:
        told = [await anext(frames), await anext(frames)]
        run = await client.beta.threads.runs.retrieve(
            told[1].data["id"], thread_id=told[1].data["thread_id"]
        )
        asked = (Asked("look_up"), Asked("measure"))
        work, _ = await driver.asks(run, *asked, workers=("look_up",))
        told += [frame async for frame in frames]
    assert [frame.event for frame in told[-2:]] == ["thread.run.requires_action", "done"]
    (waiting,) = told[-2].data["required_action"]["submit_tool_outputs"]["tool_calls"]
    assert waiting["function"]["name"] == "measure"
    path = f"{path_of(told[-2])}/submit_tool_outputs"
    body = {"tool_outputs": answers(told[-2], measure="long"), "stream": True}
    async with reading(player_alone.http, "POST", path, json=body) as frames:
        await driver.works(run, work, "known")
        await driver.answers(run, "So it is.")
        rest = [frame async for frame in frames]
    assert rest[0].event == "thread.run.step.completed"
    outputs = [call["function"]["output"] for call in rest[0].data["step_details"]["tool_calls"]]
    assert outputs == ["known", "long"]
    assert rest[-2].event == "thread.run.completed"


async def test_a_refusal_is_gathered_as_it_is_stored(
    client: AsyncOpenAI, assistant: Assistant, thread: Thread, driver: Driver
) -> None:
    runs = client.beta.threads.runs
    async with runs.stream(thread_id=thread.id, assistant_id=assistant.id) as stream:
        async for event in stream:
            if event.event == "thread.run.queued":
                await driver.refuses(event.data, "I would rather not.")
        (message,) = await stream.get_final_messages()
    (part,) = message.content
    assert (part.type, message.status) == ("refusal", "completed")
    stored = await client.beta.threads.messages.retrieve(message.id, thread_id=thread.id)
    assert stored.content == message.content


async def test_only_true_streams(player: Player) -> None:
    for stream in (False, None):
        answer = await player.http.post("/v1/threads/runs", json=player.body(stream=stream))
        assert answer.headers["content-type"] == "application/json"
        assert answer.json()["status"] == "queued"
    refused = await player.http.post("/v1/threads/runs", json=player.body(stream="true"))
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "stream"


@pytest.mark.parametrize("more", [{}, {"stream": None}, {"stream": False}, {"stream": "true"}])
async def test_outputs_are_answered_with_a_stream_only_if_one_is_asked_for(
    player: Player, more: dict[str, object]
) -> None:
    asked = (await player.plays({"tool_calls": [LOOK]}, {"text": "So."}))[-1]
    body = {"tool_outputs": answers(asked, look_up="known"), **more}
    answer = await player.http.post(f"{path_of(asked)}/submit_tool_outputs", json=body)
    assert answer.headers["content-type"] == "application/json"
    if more.get("stream") == "true":
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "stream")
    else:
        assert answer.json()["status"] == "queued"


async def test_what_is_wrong_before_the_stream_is_an_ordinary_error(player: Player) -> None:
    body = {**player.body(), "assistant_id": "asst_none"}
    refused = await player.http.post("/v1/threads/runs", json=body)
    assert refused.status_code == 404
    assert refused.json()["error"]["message"] == "No assistant found with id 'asst_none'."
    told = await player.plays({"text": "Done."})
    late = {"tool_outputs": [{"tool_call_id": "call_1", "output": ""}], "stream": True}
    answer = await player.http.post(f"{path_of(told[-1])}/submit_tool_outputs", json=late)
    assert answer.status_code == 400
    assert json.loads(answer.text)["error"]["message"].startswith('Runs in status "completed"')
