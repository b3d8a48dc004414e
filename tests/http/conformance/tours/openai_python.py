"""All operations, called with whatever release of the openai package runs this file.

The client checks each answer strictly against the models of its release.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

import openai
from openai import OpenAI
from openai.types.beta import threads as shapes

SCRIPT = {
    "turns": [
        {
            "tool_calls": [
                {"name": "look_up", "arguments": {"word": "tide"}},
                {"name": "look_up", "arguments": {"word": "ebb"}},
            ]
        },
        {"text": "Both are known."},
    ]
}
WAITING = {"turns": [{"tool_calls": [{"name": "look_up", "arguments": {"word": "flood"}}]}]}
PICTURES: list[Any] = (
    [
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {"type": "image_file", "image_file": {"file_id": "file-2"}},
    ]
    if hasattr(shapes, "ImageURLContentBlock")  # 1.21.0 knows only its own
    else []
)


def tour(client: OpenAI) -> None:
    """From an assistant to its deletion."""
    beta = client.beta
    assistant = beta.assistants.create(
        model="scripted/inline",
        name="Tides",
        description="Knows the sea",
        instructions="Be brief.",
        metadata={"kind": "tour"},
        temperature=0.5,
        top_p=0.9,
        response_format="auto",
        tools=[
            {
                "type": "function",
                "function": {
                    "name": "look_up",
                    "description": "Looks a word up",
                    "parameters": {"type": "object", "properties": {"word": {"type": "string"}}},
                },
            },
            {"type": "code_interpreter"},
            {"type": "file_search"},
        ],
        tool_resources={"code_interpreter": {"file_ids": ["file-1"]}},
    )
    other = beta.assistants.create(model="scripted/echo")
    listed = [one.id for one in beta.assistants.list(limit=1, order="asc")]
    assert listed == [assistant.id, other.id]
    assert beta.assistants.retrieve(assistant.id) == assistant
    functions = [tool for tool in assistant.tools if tool.type == "function"]
    changed = beta.assistants.update(
        assistant.id,
        name="The tides",
        tools=[{"type": "function", "function": {"name": functions[0].function.name}}],
    )
    assert (changed.name, changed.instructions, len(changed.tools)) == ("The tides", "Be brief.", 1)
    threads(client)
    runs(client, assistant.id)
    deleted = beta.assistants.delete(other.id)
    assert (deleted.id, deleted.deleted) == (other.id, True)
    refused(client, other.id)


def threads(client: OpenAI) -> None:
    """Threads and messages."""
    calls = client.beta.threads
    thread = calls.create(
        messages=[
            {"role": "user", "content": "one", "metadata": {"n": "1"}},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "two"},
                    *PICTURES,
                ],
                "attachments": [{"file_id": "file-1", "tools": [{"type": "code_interpreter"}]}],
            },
        ],
        metadata={"kind": "tour"},
        tool_resources={"file_search": {"vector_store_ids": ["vs_1"]}},
    )
    assert calls.retrieve(thread.id) == thread
    assert calls.update(thread.id, metadata={"kind": "changed"}).metadata == {"kind": "changed"}
    message = calls.messages.create(thread.id, role="assistant", content="three")
    assert calls.messages.retrieve(message.id, thread_id=thread.id) == message
    changed = calls.messages.update(message.id, thread_id=thread.id, metadata={"n": "3"})
    assert changed.metadata == {"n": "3"}
    contents = [one.content for one in calls.messages.list(thread.id, limit=2)]
    assert [parts[0].text.value for parts in contents if parts[0].type == "text"] == [
        "three",
        "two",
        "one",
    ]
    assert len(contents[1]) == 1 + len(PICTURES)
    if hasattr(calls.messages, "delete"):  # 1.21.0 has it not
        assert calls.messages.delete(message.id, thread_id=thread.id).deleted
    assert calls.delete(thread.id).deleted
    assert not calls.runs.list(calls.create().id).data


def runs(client: OpenAI, assistant_id: str) -> None:
    """A run with tools to its end, and one that is cancelled."""
    calls = client.beta.threads
    thread = calls.create(messages=[{"role": "user", "content": json.dumps(SCRIPT)}])
    run = calls.runs.create_and_poll(
        thread_id=thread.id,
        assistant_id=assistant_id,
        additional_instructions="Use the tool.",
        max_prompt_tokens=5000,
        max_completion_tokens=5000,
        truncation_strategy={"type": "last_messages", "last_messages": 10},
        tool_choice="auto",
        metadata={"kind": "tour"},
    )
    assert (run.status, run.instructions) == ("requires_action", "Be brief.\nUse the tool.")
    assert run.required_action is not None
    asked = run.required_action.submit_tool_outputs.tool_calls
    run = calls.runs.submit_tool_outputs_and_poll(
        run_id=run.id,
        thread_id=thread.id,
        tool_outputs=[{"tool_call_id": call.id, "output": "known"} for call in asked],
    )
    assert (run.status, run.required_action, run.expires_at) == ("completed", None, None)
    assert [one.id for one in calls.runs.list(thread.id)] == [run.id]
    assert calls.runs.update(run.id, thread_id=thread.id, metadata={"a": "b"}).metadata
    steps = list(calls.runs.steps.list(run.id, thread_id=thread.id, order="asc", limit=1))
    assert [step.type for step in steps] == ["tool_calls", "message_creation"]
    for step in steps:
        assert calls.runs.steps.retrieve(step.id, thread_id=thread.id, run_id=run.id) == step
    (answer,) = calls.messages.list(thread.id, run_id=run.id)
    assert (answer.run_id, answer.assistant_id) == (run.id, assistant_id)
    made = calls.create_and_run(
        assistant_id=assistant_id,
        thread={"messages": [{"role": "user", "content": json.dumps(WAITING)}]},
    )
    waiting = calls.runs.poll(made.id, thread_id=made.thread_id)
    assert waiting.status == "requires_action"
    calls.runs.cancel(made.id, thread_id=made.thread_id)
    assert calls.runs.poll(made.id, thread_id=made.thread_id).status == "cancelled"


def refused(client: OpenAI, gone_id: str) -> None:
    """The errors arrive as the classes that programs catch, with the texts that they look for."""
    calls = client.beta.threads
    told = refusal(openai.NotFoundError, lambda: client.beta.assistants.retrieve(gone_id))
    assert f"No assistant found with id '{gone_id}'." in told
    waiting = client.beta.assistants.create(
        model="scripted/inline",
        tools=[{"type": "function", "function": {"name": "look_up"}}],
    )
    thread = calls.create(messages=[{"role": "user", "content": json.dumps(WAITING)}])
    run = calls.runs.create_and_poll(thread_id=thread.id, assistant_id=waiting.id)
    told = refusal(
        openai.BadRequestError, lambda: calls.runs.create(thread.id, assistant_id=waiting.id)
    )
    assert f"Thread {thread.id} already has an active run {run.id}." in told


def refusal(kind: type[Exception], call: Callable[[], object]) -> str:
    """What the refused call is told."""
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError("it was not refused")


if __name__ == "__main__":
    tour(
        OpenAI(base_url=sys.argv[1], api_key="any", max_retries=0, _strict_response_validation=True)
    )
