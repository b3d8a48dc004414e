"""Plays scenarios with the stream helpers of the openai package, and tells what they gathered.

Reads a list of scenarios from stdin, writes one result for each to stdout, both as JSON.
"""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from openai import APIError, AssistantEventHandler, OpenAI


class Handler(AssistantEventHandler):
    """Answers calls from inside the stream, as the documentation of the SDK shows it."""

    def __init__(self, client: Any, scenario: Any, result: Any) -> None:
        super().__init__()
        self.client = client
        self.scenario = scenario
        self.result = result

    def on_event(self, event: Any) -> None:
        """Notes every event; acts on some."""
        self.result["events"].append(event.event)
        if event.event.startswith("thread.run.") and ".step." not in event.event:
            self.result["thread_id"] = event.data.thread_id
            self.result["status"] = event.data.status
        if event.event == "thread.run.requires_action":
            self.submit(event.data)
        elif event.event == self.scenario["cancels_at"]:
            self.scenario["cancels_at"] = None
            run: Any = self.current_run
            self.client.beta.threads.runs.cancel(run.id, thread_id=run.thread_id)
        elif event.event == self.scenario["tells_of"]:
            sys.stderr.write("so far\n")

    def on_message_delta(self, delta: Any, snapshot: Any) -> None:  # noqa: ARG002
        """Notes what the helper has joined so far."""
        self.result["texts"][snapshot.id] = "".join(
            part.text.value if part.type == "text" else part.refusal for part in snapshot.content
        )

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
            event_handler=Handler(self.client, self.scenario, self.result),
        ) as stream:
            stream.until_done()


def play(scenario: Any) -> dict[str, Any]:
    """One scenario, from an assistant to the end of its run."""
    client = OpenAI(base_url=scenario["url"], api_key="any", max_retries=0)
    threads = client.beta.threads
    tools: Any = [{"type": "function", "function": {"name": n}} for n in scenario["tools"]]
    assistant = client.beta.assistants.create(model="scripted/inline", tools=tools)
    said: Any = [{"role": "user", "content": json.dumps({"turns": scenario["turns"]})}]
    result: dict[str, Any] = {"events": [], "texts": {}, "calls": {}, "error": None}
    more: Any = {
        "assistant_id": assistant.id,
        **scenario["limits"],
        "event_handler": Handler(client, scenario, result),
    }
    if scenario["makes_thread"]:
        streaming = threads.create_and_run_stream(thread={"messages": said}, **more)
    else:
        streaming = threads.runs.stream(thread_id=threads.create(messages=said).id, **more)
    try:
        with streaming as stream:
            stream.until_done()
    except APIError as error:
        result["error"] = error.code
    return result


if __name__ == "__main__":
    with ThreadPoolExecutor(8) as pool:
        json.dump(list(pool.map(play, json.load(sys.stdin))), sys.stdout)
