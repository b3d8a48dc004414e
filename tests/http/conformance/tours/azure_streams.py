"""Plays scenarios with the event handlers of azure-ai-agents, and tells what they gathered.

Reads a list of scenarios from stdin, writes one result for each to stdout, both as JSON.
"""

import json
import sys
from ast import literal_eval
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from azure.ai.agents import AgentsClient
from azure.ai.agents.models import AgentEventHandler
from azure.core.credentials import AzureKeyCredential
from azure.core.pipeline.policies import AzureKeyCredentialPolicy


class Handler(AgentEventHandler):  # type: ignore[misc]
    """Joins deltas by hand: this SDK leaves that to its users."""

    def __init__(self, client: Any, scenario: Any, result: Any) -> None:
        super().__init__()
        self.client = client
        self.scenario = scenario
        self.result = result
        self.run: Any = None

    def on_message_delta(self, delta: Any) -> None:
        """Joins the text."""
        texts = self.result["texts"]
        said = "".join(part.get("refusal", "") for part in delta.delta.content) or delta.text
        texts[delta.id] = texts.get(delta.id, "") + said
        self.cancel_at("thread.message.delta")

    def on_run_step_delta(self, delta: Any) -> None:
        """Joins the calls."""
        calls = self.result["calls"].setdefault(delta.id, [])
        for piece in delta.delta.step_details.tool_calls:
            if piece.index == len(calls):
                calls.append([piece.id, "", ""])
            function = piece["function"]
            calls[piece.index][1] += function.get("name") or ""
            calls[piece.index][2] += function.get("arguments") or ""
        self.cancel_at("thread.run.step.delta")

    def cancel_at(self, event: str) -> None:
        """Cancels, if that is asked for at this event."""
        if event == self.scenario["cancels_at"]:
            self.scenario["cancels_at"] = None
            self.client.runs.cancel(self.run.thread_id, self.run.id)

    def on_thread_run(self, run: Any) -> None:
        """Answers calls from inside the stream; the answer's stream follows on this one."""
        self.run = run
        self.result["thread_id"] = run.thread_id
        self.result["status"] = str(getattr(run.status, "value", run.status))
        if self.scenario["tells_of"] == f"thread.run.{self.result['status']}":
            sys.stderr.write("so far\n")
        if run.status == "requires_action":
            calls = run.required_action.submit_tool_outputs.tool_calls
            outputs = [{"tool_call_id": call.id, "output": "known"} for call in calls]
            self.client.runs.submit_tool_outputs_stream(
                thread_id=run.thread_id, run_id=run.id, tool_outputs=outputs, event_handler=self
            )

    def on_error(self, data: Any) -> None:
        """Notes it, given as the text of a dict; this SDK goes on to the end of the stream."""
        self.result["error"] = literal_eval(data)["code"]

    def on_unhandled_event(self, event_type: Any, event_data: Any) -> None:  # noqa: ARG002
        """Must not happen."""
        self.result["events"].append(f"unhandled {event_type}")


def play(scenario: Any) -> dict[str, Any]:
    """One scenario, from an agent to the end of its run."""
    key = AzureKeyCredential("any")
    policy = AzureKeyCredentialPolicy(key, "Authorization", prefix="Bearer")
    client = AgentsClient(endpoint=scenario["url"], credential=key, authentication_policy=policy)
    tools: Any = [
        {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
        for name in scenario["tools"]
    ]
    agent = client.create_agent(model="scripted/inline", tools=tools)
    thread = client.threads.create()
    script = json.dumps({"turns": scenario["turns"]})
    client.messages.create(thread_id=thread.id, role="user", content=script)
    result: dict[str, Any] = {"events": [], "texts": {}, "calls": {}, "error": None}
    handler = Handler(client, scenario, result)
    with client.runs.stream(
        thread_id=thread.id, agent_id=agent.id, event_handler=handler, **scenario["limits"]
    ) as stream:
        for event_type, _, _ in stream:
            result["events"].append(str(getattr(event_type, "value", event_type)))
    return result


if __name__ == "__main__":
    with ThreadPoolExecutor(8) as pool:
        json.dump(list(pool.map(play, json.load(sys.stdin))), sys.stdout)
