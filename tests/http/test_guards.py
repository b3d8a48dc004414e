"""Guardrails as clients see them: their own words, refusals, no word before it was looked at."""

import asyncio
import json
from typing import Any

from openai import AsyncOpenAI
from openai.types.beta import Assistant, Thread

from orchestrator import Rewrite, Stop
from orchestrator.engine.guards import Guards
from orchestrator.guardrails import Guardrail
from orchestrator.records import GuardPoint
from tests.engine.rig import EngineRoom

SPEAKS = {"turns": [{"text": "It was the butler, of course.", "chunk_delay_s": 0.01}]}


def no_butlers(text: str, tool: str = "") -> Stop | None:
    return Stop("Read it yourself.") if "butler" in text else None


def no_ann(text: str, tool: str = "") -> Rewrite:
    return Rewrite(text.replace("Ann", "(a name)"))


def guards(**rules: Any) -> Guards:
    return Guards([Guardrail(rule.__name__, GuardPoint(on), rule) for on, rule in rules.items()])


async def test_a_refused_message_is_a_completed_run_with_a_refusal_part(
    client: AsyncOpenAI, assistant: Assistant, thread: Thread, idle_engines: EngineRoom
) -> None:
    idle_engines.start("e1", guards=guards(input=no_butlers))
    await client.beta.threads.messages.create(thread.id, role="user", content="Was it the butler?")
    run = await client.beta.threads.runs.create_and_poll(
        thread_id=thread.id, assistant_id=assistant.id, model="scripted/echo"
    )
    assert (run.status, run.last_error) == ("completed", None)
    answer, question = (await client.beta.threads.messages.list(thread.id)).data
    assert [part.model_dump() for part in answer.content] == [
        {"type": "refusal", "refusal": "Read it yourself."}
    ]
    assert answer.run_id == run.id
    assert question.content[0].model_dump()["text"]["value"] == "Was it the butler?"
    (step,) = (await client.beta.threads.runs.steps.list(run.id, thread_id=thread.id)).data
    assert (step.type, step.status) == ("message_creation", "completed")


async def test_a_stopped_answer_is_streamed_as_a_refusal_and_nothing_else(
    client: AsyncOpenAI, assistant: Assistant, thread: Thread, idle_engines: EngineRoom
) -> None:
    idle_engines.start("e1", guards=guards(output=no_butlers))
    async with client.beta.threads.runs.stream(
        thread_id=thread.id,
        assistant_id=assistant.id,
        additional_messages=[{"role": "user", "content": json.dumps(SPEAKS)}],
    ) as stream:
        seen = [event async for event in stream]
    assert "butler" not in "".join(event.model_dump_json() for event in seen)
    (answer,) = await stream.get_final_messages()
    assert [part.model_dump() for part in answer.content] == [
        {"type": "refusal", "refusal": "Read it yourself."}
    ]
    assert (await stream.get_final_run()).status == "completed"


async def test_a_rewritten_answer_is_streamed_after_it_was_looked_at(
    client: AsyncOpenAI, assistant: Assistant, thread: Thread, idle_engines: EngineRoom
) -> None:
    may_pass = asyncio.Event()

    async def slow(text: str) -> Rewrite:
        await may_pass.wait()
        return Rewrite(text.replace("butler", "cook"))

    idle_engines.start("e1", guards=guards(output=slow))
    kinds = []
    async with client.beta.threads.runs.stream(
        thread_id=thread.id,
        assistant_id=assistant.id,
        additional_messages=[{"role": "user", "content": json.dumps(SPEAKS)}],
    ) as stream:
        async for event in stream:
            kinds.append(event.event)
            if event.event == "thread.run.in_progress":
                may_pass.set()
            if event.event == "thread.message.delta":
                assert may_pass.is_set()
    (answer,) = await stream.get_final_messages()
    assert answer.content[0].model_dump()["text"]["value"] == "It was the cook, of course."
    assert kinds.count("thread.message.delta") == 1


async def test_a_client_executes_the_arguments_that_were_let_through(
    client: AsyncOpenAI, assistant: Assistant, thread: Thread, idle_engines: EngineRoom
) -> None:
    idle_engines.start("e1", guards=guards(tool_input=no_ann, tool_output=no_ann))
    asks = {"tool_calls": [{"name": "look_up", "arguments": {"who": "Ann"}}]}
    script = {"turns": [asks, {"text": "{{ outputs.look_up }}"}]}
    async with client.beta.threads.runs.stream(
        thread_id=thread.id,
        assistant_id=assistant.id,
        additional_messages=[{"role": "user", "content": json.dumps(script)}],
    ) as stream:
        await stream.until_done()
    run = stream.current_run
    assert run is not None
    assert run.required_action is not None
    (call,) = run.required_action.submit_tool_outputs.tool_calls
    assert call.function.arguments == '{"who":"(a name)"}'
    await client.beta.threads.runs.submit_tool_outputs_and_poll(
        run_id=run.id,
        thread_id=thread.id,
        tool_outputs=[{"tool_call_id": call.id, "output": "Ann is here"}],
    )
    answer = (await client.beta.threads.messages.list(thread.id, limit=1)).data[0]
    assert answer.content[0].model_dump()["text"]["value"] == "(a name) is here"


async def test_operators_see_which_rule_fired_on_what(
    client: AsyncOpenAI,
    assistant: Assistant,
    thread: Thread,
    idle_engines: EngineRoom,
    http: Any,
) -> None:
    idle_engines.start("e1", guards=guards(input=no_butlers))
    message = await client.beta.threads.messages.create(
        thread.id, role="user", content="Was it the butler?"
    )
    run = await client.beta.threads.runs.create_and_poll(
        thread_id=thread.id, assistant_id=assistant.id, model="scripted/echo"
    )
    report = (await http.get(f"/ops/runs/{run.id}")).json()
    (fired,) = [event for event in report["events"] if event["type"] == "guard.fired"]
    sentence = f"no_butlers (input) stopped {message.id}: Read it yourself."
    assert fired["detail"] == sentence
    lines = [line["text"] for line in report["timeline"] if line["subject"] == "guard"]
    assert lines == [f"fired: {sentence}"]
