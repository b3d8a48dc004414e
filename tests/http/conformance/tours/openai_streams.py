"""Plays scenarios with the stream helpers of the openai package, and tells what they gathered.

Reads a list of scenarios from stdin, writes one result for each to stdout, both as JSON.
"""

import json
import sys
from typing import Any

from openai import AssistantEventHandler, OpenAI


class Handler(AssistantEventHandler):
    """Answers calls from inside the stream, as the documentation of the SDK shows it."""

    def __init__(self, client: Any, cancels: Any, result: Any) -> None:
        super().__init__()
        self.client = client
        self.cancels = cancels
        self.result = result

    def on_event(self, event: Any) -> None:
        """Notes every event; acts on some."""
        self.result["events"].append(event.event)
        if event.event.startswith("thread.run.") and ".step." not in event.event:
            self.result["status"] = event.data.status
        if event.event == "thread.run.requires_action":
            self.submit(event.data)
        elif event.event == "thread.message.delta" and self.cancels:
            self.cancels = False
            run: Any = self.current_run
            self.client.beta.threads.runs.cancel(run.id, thread_id=run.thread_id)

    def on_text_delta(self, delta: Any, snapshot: Any) -> None:  # noqa: ARG002
        """Notes what the helper has joined so far."""
        message: Any = self.current_message_snapshot
        self.result["texts"][message.id] = snapshot.value

    def on_run_step_delta(self, delta: Any, snapshot: Any) -> None:  # noqa: ARG002
        """Notes the calls that the helper has joined so far."""
        calls = snapshot.step_details.tool_calls
        self.result["calls"][snapshot.id] = [
            [call.id, call.function.name, call.function.arguments] for call in calls
        ]

    def submit(self, run: Any) -> None:
        """Goes on with a stream of its own."""
        calls = run.required_action.submit_tool_outputs.tool_calls
        outputs = [{"tool_call_id": call.id, "output": "known"} for call in calls]
        with self.client.beta.threads.runs.submit_tool_outputs_stream(
            run_id=run.id,
            thread_id=run.thread_id,
            tool_outputs=outputs,
            event_handler=Handler(self.client, self.cancels, self.result),
        ) as stream:
            stream.until_done()


def play(scenario: Any) -> dict[str, Any]:
    """One scenario, from an assistant to the end of its run."""
    client = OpenAI(base_url=scenario["url"], api_key="any", max_retries=0)
    beta = client.beta
    tools: Any = [{"type": "function", "function": {"name": n}} for n in ("look_up", "measure")]
    assistant = beta.assistants.create(model="scripted/inline", tools=tools)
    script = json.dumps({"turns": scenario["turns"]})
    thread = beta.threads.create(messages=[{"role": "user", "content": script}])
    result: dict[str, Any] = {
        "thread_id": thread.id,
        "events": [],
        "texts": {},
        "calls": {},
        "status": None,
    }
    with beta.threads.runs.stream(
        thread_id=thread.id,
        assistant_id=assistant.id,
        event_handler=Handler(client, scenario["cancels"], result),
    ) as stream:
        stream.until_done()
    return result


if __name__ == "__main__":
    json.dump([play(scenario) for scenario in json.load(sys.stdin)], sys.stdout)
