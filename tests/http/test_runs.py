"""Runs: what they take from whom, how they are shown, and who may start one."""

import asyncio
from typing import Any

import httpx2
import pytest
from openai import AsyncOpenAI, BadRequestError, NotFoundError
from openai.types.beta import Assistant, Thread
from openai.types.beta.threads import Run

from orchestrator.records import Usage
from tests.http.driver import Asked, Driver


async def test_a_run_copies_its_assistant(client: AsyncOpenAI, thread: Thread) -> None:
    assistant = await client.beta.assistants.create(
        model="scripted/echo",
        instructions="Be brief.",
        temperature=0.5,
        tools=[{"type": "function", "function": {"name": "look_up"}}],
    )
    run = await client.beta.threads.runs.create(thread.id, assistant_id=assistant.id)
    await client.beta.assistants.update(assistant.id, model="scripted/other", tools=[])
    run = await client.beta.threads.runs.retrieve(run.id, thread_id=thread.id)
    assert (run.model, run.instructions, run.status) == ("scripted/echo", "Be brief.", "queued")
    assert [tool.type for tool in run.tools] == ["function"]
    assert run.to_dict()["temperature"] == 0.5
    assert run.truncation_strategy is not None
    assert run.truncation_strategy.to_dict() == {"type": "auto", "last_messages": None}
    assert run.expires_at == run.created_at + 600


async def test_what_a_run_is_given_comes_before_what_its_assistant_has(
    client: AsyncOpenAI, assistant: Assistant, thread: Thread
) -> None:
    run = await client.beta.threads.runs.create(
        thread.id,
        assistant_id=assistant.id,
        model="scripted/other",
        instructions="One.",
        additional_instructions="Two.",
        tools=[],
        max_prompt_tokens=256,
        tool_choice={"type": "function", "function": {"name": "look_up"}},
        parallel_tool_calls=False,
        metadata={"a": "b"},
        response_format={
            "type": "json_schema",
            "json_schema": {"name": "n", "schema": {"type": "object"}},
        },
    )
    shown = run.to_dict()
    assert shown["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "n", "schema": {"type": "object"}},
    }
    assert (run.model, run.instructions, run.tools) == ("scripted/other", "One.\nTwo.", [])
    assert shown["tool_choice"] == {"type": "function", "function": {"name": "look_up"}}
    assert (run.max_prompt_tokens, run.parallel_tool_calls) == (256, False)
    assert run.metadata == {"a": "b"}


async def test_the_runs_own_messages_are_added_before_it(
    client: AsyncOpenAI, assistant: Assistant, thread: Thread
) -> None:
    await client.beta.threads.runs.create(
        thread.id,
        assistant_id=assistant.id,
        additional_messages=[{"role": "user", "content": "Hello"}],
    )
    messages = await client.beta.threads.messages.list(thread.id)
    assert [message.role for message in messages.data] == ["user"]
    assert messages.data[0].run_id is None


async def test_a_thread_and_its_run_are_made_in_one_request(
    client: AsyncOpenAI, assistant: Assistant
) -> None:
    run = await client.beta.threads.create_and_run(
        assistant_id=assistant.id,
        thread={"messages": [{"role": "user", "content": "Hello"}], "metadata": {"k": "v"}},
    )
    thread = await client.beta.threads.retrieve(run.thread_id)
    assert thread.metadata == {"k": "v"}
    messages = await client.beta.threads.messages.list(run.thread_id)
    assert len(messages.data) == 1
    bare = await client.beta.threads.create_and_run(assistant_id=assistant.id)
    assert bare.status == "queued"


async def test_unknown_ids_are_named(
    client: AsyncOpenAI, assistant: Assistant, thread: Thread, run: Run
) -> None:
    threads = client.beta.threads
    with pytest.raises(NotFoundError, match="No assistant found with id 'asst_0'"):
        await threads.runs.create(thread.id, assistant_id="asst_0")
    with pytest.raises(NotFoundError, match="No thread found with id 'thread_0'"):
        await threads.runs.create("thread_0", assistant_id=assistant.id)
    with pytest.raises(NotFoundError, match="No run found with id 'run_0'"):
        await threads.runs.retrieve("run_0", thread_id=thread.id)
    with pytest.raises(NotFoundError, match="No run step found with id 'step_0'"):
        await threads.runs.steps.retrieve("step_0", thread_id=thread.id, run_id=run.id)


async def test_a_run_is_not_found_on_another_thread(client: AsyncOpenAI, run: Run) -> None:
    other = await client.beta.threads.create()
    with pytest.raises(NotFoundError, match=f"No run found with id '{run.id}'."):
        await client.beta.threads.runs.retrieve(run.id, thread_id=other.id)


async def test_a_run_that_needs_what_we_do_not_execute_is_refused(
    client: AsyncOpenAI, thread: Thread
) -> None:
    assistant = await client.beta.assistants.create(
        model="m", tools=[{"type": "code_interpreter"}, {"type": "file_search"}]
    )
    assert [tool.type for tool in assistant.tools] == ["code_interpreter", "file_search"]
    with pytest.raises(BadRequestError, match="code_interpreter, file_search") as error:
        await client.beta.threads.runs.create(thread.id, assistant_id=assistant.id)
    assert error.value.param == "tools"
    run = await client.beta.threads.runs.create(thread.id, assistant_id=assistant.id, tools=[])
    assert run.status == "queued"


async def test_a_second_run_leaves_the_waiting_one_and_its_thread_alone(
    client: AsyncOpenAI, driver: Driver, run: Run
) -> None:
    (call_id,) = await driver.asks(run, Asked("look_up"))
    with pytest.raises(BadRequestError, match="already has an active run"):
        await client.beta.threads.runs.create(
            run.thread_id,
            assistant_id=run.assistant_id,
            additional_messages=[{"role": "user", "content": "Never stored"}],
        )
    assert (await client.beta.threads.messages.list(run.thread_id)).data == []
    assert (
        await client.beta.threads.create_and_run(assistant_id=run.assistant_id)
    ).status == "queued"
    submitted = await client.beta.threads.runs.submit_tool_outputs(
        run.id,
        thread_id=run.thread_id,
        tool_outputs=[{"tool_call_id": call_id, "output": ""}],
    )
    assert submitted.status == "queued"


async def test_of_many_creates_at_once_one_wins_and_the_others_store_nothing(
    client: AsyncOpenAI, assistant: Assistant, thread: Thread
) -> None:
    async def create(number: int) -> Run:
        return await client.beta.threads.runs.create(
            thread.id,
            assistant_id=assistant.id,
            additional_messages=[{"role": "user", "content": str(number)}],
        )

    outcomes = await asyncio.gather(*map(create, range(20)), return_exceptions=True)
    (winner,) = [outcome for outcome in outcomes if isinstance(outcome, Run)]
    refusals = [outcome for outcome in outcomes if isinstance(outcome, BadRequestError)]
    assert len(refusals) == 19
    assert all(f"already has an active run {winner.id}" in str(one) for one in refusals)
    listed = await client.beta.threads.runs.list(thread.id)
    assert [run.id for run in listed.data] == [winner.id]
    assert len((await client.beta.threads.messages.list(thread.id)).data) == 1


async def test_two_clients_share_a_thread_and_the_second_can_free_it(
    client: AsyncOpenAI, driver: Driver, run: Run
) -> None:
    await driver.asks(run, Asked("look_up"))
    (found,) = (await client.beta.threads.runs.list(run.thread_id)).data
    assert (found.id, found.status) == (run.id, "requires_action")
    await client.beta.threads.runs.cancel(found.id, thread_id=run.thread_id)
    await client.beta.threads.messages.create(run.thread_id, role="user", content="Next")
    again = await client.beta.threads.runs.create(run.thread_id, assistant_id=run.assistant_id)
    assert again.status == "queued"


async def test_a_run_that_only_workers_are_busy_with_is_in_progress(
    client: AsyncOpenAI, driver: Driver, run: Run
) -> None:
    runs = client.beta.threads.runs
    theirs, ours = await driver.asks(
        run, Asked("measure"), Asked("look_up", '{"q": 1}'), workers=("measure",)
    )
    shown = await runs.retrieve(run.id, thread_id=run.thread_id)
    assert shown.required_action is not None
    (waiting,) = shown.required_action.submit_tool_outputs.tool_calls
    assert (waiting.id, waiting.function.name) == (ours, "look_up")
    assert waiting.function.arguments == '{"q": 1}'
    submitted = await runs.submit_tool_outputs(
        run.id,
        thread_id=run.thread_id,
        tool_outputs=[{"tool_call_id": ours, "output": "o"}],
    )
    assert (submitted.status, submitted.required_action) == ("in_progress", None)
    await driver.works(run, theirs, "3 m")
    assert (await runs.retrieve(run.id, thread_id=run.thread_id)).status == "queued"
    (step,) = (await runs.steps.list(run.id, thread_id=run.thread_id)).data
    assert step.step_details.type == "tool_calls"
    shown_calls = [call.to_dict() for call in step.step_details.tool_calls]
    assert [(call["id"], call["function"]) for call in shown_calls] == [
        (theirs, {"name": "measure", "arguments": "{}", "output": "3 m"}),
        (ours, {"name": "look_up", "arguments": '{"q": 1}', "output": "o"}),
    ]


async def test_a_message_is_listed_as_soon_as_the_model_begins_it(
    client: AsyncOpenAI, driver: Driver, run: Run
) -> None:
    await driver.starts(run)
    await driver.speaks(run)
    (begun,) = (await client.beta.threads.messages.list(run.thread_id)).data
    assert (begun.status, begun.content, begun.run_id) == ("in_progress", [], run.id)


async def test_the_sdks_poll_helper_ends_with_the_run(
    client: AsyncOpenAI, driver: Driver, run: Run
) -> None:
    polling = asyncio.create_task(client.beta.threads.runs.poll(run.id, thread_id=run.thread_id))
    await driver.answers(run, "Hello", usage=Usage(prompt_tokens=3, completion_tokens=4))
    ended = await asyncio.wait_for(polling, timeout=5)
    assert ended.status == "completed"
    assert ended.usage is not None
    assert ended.usage.to_dict() == {
        "prompt_tokens": 3,
        "completion_tokens": 4,
        "total_tokens": 7,
        "prompt_token_details": {"cached_tokens": 0},
        "cost_usd": None,
    }


async def test_usage_is_told_at_the_end_and_steps_sum_to_the_run(
    client: AsyncOpenAI, driver: Driver, run: Run
) -> None:
    threads = client.beta.threads
    (call_id,) = await driver.asks(
        run, Asked("look_up"), usage=Usage(prompt_tokens=5, completion_tokens=2)
    )
    waiting = await threads.runs.retrieve(run.id, thread_id=run.thread_id)
    (step,) = (await threads.runs.steps.list(run.id, thread_id=run.thread_id)).data
    assert (waiting.usage, step.usage) == (None, None)
    await threads.runs.submit_tool_outputs(
        run.id,
        thread_id=run.thread_id,
        tool_outputs=[{"tool_call_id": call_id, "output": ""}],
    )
    await driver.answers(run, "Done", usage=Usage(prompt_tokens=9, completion_tokens=3))
    ended = await threads.runs.retrieve(run.id, thread_id=run.thread_id)
    steps = (await threads.runs.steps.list(run.id, thread_id=run.thread_id)).data
    assert ended.usage is not None
    assert (ended.usage.prompt_tokens, ended.usage.total_tokens) == (14, 19)
    assert sum(step.usage.total_tokens for step in steps if step.usage) == 19


async def test_unknown_usage_stays_null(client: AsyncOpenAI, driver: Driver, run: Run) -> None:
    await driver.answers(run, "Done")
    ended = await client.beta.threads.runs.retrieve(run.id, thread_id=run.thread_id)
    assert ended.usage is None


async def test_a_change_without_metadata_leaves_it_alone(client: AsyncOpenAI, run: Run) -> None:
    runs = client.beta.threads.runs
    await runs.update(run.id, thread_id=run.thread_id, metadata={"k": "v"})
    changed = await runs.update(run.id, thread_id=run.thread_id)
    assert changed.metadata == {"k": "v"}
    cleared = await runs.update(run.id, thread_id=run.thread_id, metadata=None)
    assert cleared.metadata == {}


async def test_reading_a_run_says_when_to_read_it_again(http: httpx2.AsyncClient, run: Run) -> None:
    response = await http.get(f"/v1/threads/{run.thread_id}/runs/{run.id}")
    assert response.headers["openai-poll-after-ms"].isdecimal()


async def test_a_second_cancel_of_a_queued_run_is_refused(client: AsyncOpenAI, run: Run) -> None:
    cancelled = await client.beta.threads.runs.cancel(run.id, thread_id=run.thread_id)
    assert (cancelled.status, cancelled.expires_at) == ("cancelled", None)
    with pytest.raises(BadRequestError, match="Cannot cancel run with status 'cancelled'"):
        await client.beta.threads.runs.cancel(run.id, thread_id=run.thread_id)


async def test_a_run_inherits_more_tools_than_it_may_be_given(
    client: AsyncOpenAI, thread: Thread
) -> None:
    tools: Any = [{"type": "function", "function": {"name": f"tool_{n}"}} for n in range(21)]
    assistant = await client.beta.assistants.create(model="scripted/echo", tools=tools)
    runs = client.beta.threads.runs
    with pytest.raises(BadRequestError, match="maximum length 20"):
        await runs.create(thread.id, assistant_id=assistant.id, tools=tools)
    run = await runs.create(thread.id, assistant_id=assistant.id)
    assert len(run.tools) == 21


async def test_a_thread_and_its_run_may_be_given_a_reasoning_effort(
    client: AsyncOpenAI, assistant: Assistant
) -> None:
    run = await client.beta.threads.create_and_run(
        assistant_id=assistant.id, extra_body={"reasoning_effort": "low"}
    )
    assert run.to_dict()["reasoning_effort"] == "low"
