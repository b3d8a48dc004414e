"""The preview of azure-ai-agents asks a person about each call that its service wants to make."""

import json
import sys
from typing import Any

from azure.ai.agents import AgentsClient
from azure.ai.agents.models import (
    FunctionDefinition,
    FunctionToolDefinition,
    MessageInputTextBlock,
    RequiredMcpToolCall,
    RunHandler,
    RunStatus,
    ToolApproval,
)
from azure.core.credentials import AzureKeyCredential
from azure.core.pipeline.policies import AzureKeyCredentialPolicy

CALLS = [{"name": "pay", "arguments": {"cents": cents}} for cents in (5, 500)]
SCRIPT = json.dumps({"turns": [{"tool_calls": CALLS}, {"text": "{{ outputs.pay }}"}]})


class Person(RunHandler):  # type: ignore[misc]  # it is not in this environment
    """Somebody who agrees to small amounts."""

    def submit_mcp_tool_approval(self, *, tool_call: RequiredMcpToolCall, **_: Any) -> ToolApproval:
        cents = json.loads(tool_call.arguments)["cents"]
        return ToolApproval(tool_call_id=tool_call.id, approve=cents < 100)


def tour(client: AgentsClient) -> None:
    """A run with two calls, one of which is agreed to."""
    pay = FunctionToolDefinition(function=FunctionDefinition(name="pay", parameters={}))
    agent = client.create_agent(model="scripted/inline", tools=[pay])
    thread = client.threads.create()
    client.messages.create(thread.id, role="user", content=[MessageInputTextBlock(text=SCRIPT)])
    run = client.runs.create_and_process(
        thread.id, agent_id=agent.id, run_handler=Person(), polling_interval=0.1
    )
    assert run.status == RunStatus.COMPLETED, run
    (step,) = [s for s in client.run_steps.list(thread.id, run.id) if s.type == "tool_calls"]
    paid, refused = [call["function"]["output"] for call in step.step_details.tool_calls]
    assert paid == "5 paid"
    assert json.loads(refused)["error"]["type"] == "rejected"


def main(address: str) -> None:
    """Over plain http the SDK wants to be told that this key may be sent."""
    key = AzureKeyCredential("any")
    policy = AzureKeyCredentialPolicy(key, "Authorization", prefix="Bearer")
    with AgentsClient(endpoint=address, credential=key, authentication_policy=policy) as client:
        tour(client)


if __name__ == "__main__":
    main(sys.argv[1])
