"""All operations of azure-ai-agents, by endpoint and credential alone."""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from azure.ai.agents import AgentsClient
from azure.ai.agents.models import (
    FunctionTool,
    ListSortOrder,
    MessageInputTextBlock,
    RunStatus,
    ToolOutput,
    ToolSet,
)
from azure.core.credentials import AccessToken, AzureKeyCredential
from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.core.pipeline.policies import AzureKeyCredentialPolicy

CALLS = [
    {"name": "look_up", "arguments": {"word": "tide"}},
    {"name": "look_up", "arguments": {"word": "ebb"}},
]
SCRIPT = json.dumps({"turns": [{"tool_calls": CALLS}, {"text": "Both are known."}]})
looked_up: list[str] = []


def look_up(word: str) -> str:
    """Looks a word up.

    :param word: The word.
    :return: What is known of it.
    """
    looked_up.append(word)
    return f"{word} is known"


class Credential:
    """One that knows its token, as ``azure.identity`` has several."""

    def get_token(self, *_: str, **__: Any) -> AccessToken:
        """The token, good for a day."""
        return AccessToken("any", int(time.time()) + 86_400)


def open_client(address: str) -> AgentsClient:
    """Over https, by endpoint and credential alone. Over plain http the SDK wants to be told that
    the key may be sent.
    """
    if address.startswith("https:"):
        return AgentsClient(endpoint=address, credential=Credential())
    key = AzureKeyCredential("any")
    policy = AzureKeyCredentialPolicy(key, "Authorization", prefix="Bearer")
    return AgentsClient(
        endpoint=address, credential=key, authentication_policy=policy, retry_backoff_factor=0
    )


def tour(client: AgentsClient) -> None:
    """From an agent to its deletion."""
    toolset = ToolSet()
    toolset.add(FunctionTool({look_up}))
    agent = client.create_agent(
        model="scripted/inline",
        name="Tides",
        instructions="Be brief.",
        toolset=toolset,
        metadata={"kind": "tour"},
        temperature=0.5,
        response_format="auto",
    )
    other = client.create_agent(model="scripted/echo")
    assert [one.id for one in client.list_agents(limit=1)] == [other.id, agent.id]
    assert client.get_agent(agent.id).name == "Tides"
    assert client.update_agent(agent.id, name="The tides").instructions == "Be brief."
    threads(client)
    runs(client, agent.id)
    processed(client, agent.id, toolset)
    client.delete_agent(other.id)
    refused(client, other.id)


def threads(client: AgentsClient) -> None:
    """Threads and messages, and pages that end by their null ``last_id``."""
    made = [client.threads.create(metadata={"n": str(n)}) for n in range(3)]
    thread = made[0]
    assert [one.id for one in client.threads.list(limit=2, order=ListSortOrder.ASCENDING)][:3] == [
        one.id for one in made
    ]
    assert client.threads.get(thread.id).created_at == thread.created_at
    assert client.threads.update(thread.id, metadata={"a": "b"}).metadata == {"a": "b"}
    assert not list(client.messages.list(thread.id))
    first = client.messages.create(thread.id, role="user", content="one")
    client.messages.create(thread.id, role="user", content=[MessageInputTextBlock(text="two")])
    assert client.messages.get(thread.id, first.id).text_messages[0].text.value == "one"
    changed = client.messages.update(thread.id, first.id, metadata={"n": "1"})
    assert changed.metadata == {"n": "1"}
    texts = [one.text_messages[0].text.value for one in client.messages.list(thread.id, limit=1)]
    assert texts == ["two", "one"]
    client.threads.delete(thread.id)


def runs(client: AgentsClient, agent_id: str) -> None:
    """A run whose outputs we send by hand, and one that is cancelled."""
    run = client.create_thread_and_run(
        agent_id=agent_id,
        thread={"messages": [{"role": "user", "content": SCRIPT}]},
        metadata={"kind": "tour"},
    )
    run = reaches(client, run, RunStatus.REQUIRES_ACTION)
    outputs = [
        ToolOutput(tool_call_id=call.id, output="known")
        for call in run.required_action.submit_tool_outputs.tool_calls
    ]
    client.runs.submit_tool_outputs(run.thread_id, run.id, tool_outputs=outputs)
    run = reaches(client, run, RunStatus.COMPLETED)
    assert client.runs.update(run.thread_id, run.id, metadata={"a": "b"}).metadata == {"a": "b"}
    assert [one.id for one in client.runs.list(run.thread_id)] == [run.id]
    steps = list(client.run_steps.list(run.thread_id, run.id, limit=1, order="asc"))
    assert [step.type for step in steps] == ["tool_calls", "message_creation"]
    assert client.run_steps.get(run.thread_id, run.id, steps[0].id).status == "completed"
    client.messages.create(run.thread_id, role="user", content=SCRIPT)
    second = client.runs.create(run.thread_id, agent_id=agent_id)
    reaches(client, second, RunStatus.REQUIRES_ACTION)
    client.runs.cancel(second.thread_id, second.id)
    reaches(client, second, RunStatus.CANCELLED)


def processed(client: AgentsClient, agent_id: str, toolset: ToolSet) -> None:
    """The SDK polls, calls our functions and submits, until the run has ended."""
    thread = client.threads.create()
    client.messages.create(thread.id, role="user", content=SCRIPT)
    client.enable_auto_function_calls(toolset)
    run = client.runs.create_and_process(thread.id, agent_id=agent_id, polling_interval=0)
    assert run.status == RunStatus.COMPLETED, run.last_error
    assert looked_up == ["tide", "ebb"]
    answer = client.messages.get_last_message_text_by_role(thread.id, role="assistant")
    assert answer.text.value == "Both are known."


def reaches(client: AgentsClient, run: Any, status: RunStatus) -> Any:
    """The run once it has this status."""
    for _ in range(1000):
        run = client.runs.get(run.thread_id, run.id)
        if run.status == status:
            return run
    raise AssertionError(f"{run.id} stays {run.status}")


def refused(client: AgentsClient, gone_id: str) -> None:
    """The errors arrive as the classes that programs catch."""
    told = refusal(ResourceNotFoundError, lambda: client.get_agent(gone_id))
    assert f"No assistant found with id '{gone_id}'." in told
    long = {"k": "v" * 513}
    told = refusal(HttpResponseError, lambda: client.create_agent(model="m", metadata=long))
    assert "string too long" in told


def refusal(kind: type[Exception], call: Callable[[], object]) -> str:
    """What the refused call is told."""
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError("it was not refused")


if __name__ == "__main__":
    tour(open_client(sys.argv[1]))
