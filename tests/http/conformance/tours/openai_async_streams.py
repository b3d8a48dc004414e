"""Plays scenarios with the async stream helpers of openai, as openai_streams.py does."""

import asyncio
import json
import sys
from typing import Any

from openai import APIError, AsyncAssistantEventHandler, AsyncOpenAI


class Handler(AsyncAssistantEventHandler):
    """Answers calls from inside the stream, as the documentation of the SDK shows it."""

    def __init__(self, client: Any, scenario: Any, result: Any) -> None:
        super().__init__()
        self.client = client
        self.scenario = scenario
        self.result = result

    async def on_event(self, event: Any) -> None:
        """Notes every event; acts on some."""
        self.result["events"].append(event.event)
        if event.event.startswith("thread.run.") and ".step." not in event.event:
            self.result["thread_id"] = event.data.thread_id
            self.result["status"] = event.data.status
        if event.event == "thread.run.requires_action":
            await self.submit(event.data)
        elif event.event == self.scenario["cancels_at"]:
            self.scenario["cancels_at"] = None
            run: Any = self.current_run
            await self.client.beta.threads.runs.cancel(run.id, thread_id=run.thread_id)
        elif event.event == self.scenario["tells_of"]:
            sys.stderr.write("so far\n")

    async def on_message_delta(self, delta: Any, snapshot: Any) -> None:  # noqa: ARG002
        """Notes what the helper has joined so far."""
        self.result["texts"][snapshot.id] = "".join(
            part.text.value if part.type == "text" else part.refusal for part in snapshot.content
        )

    async def on_run_step_delta(self, delta: Any, snapshot: Any) -> None:  # noqa: ARG002
        """Notes the calls that the helper has joined so far."""
        calls = snapshot.step_details.tool_calls
        self.result["calls"][snapshot.id] = [
            [call.id, call.function.name, call.function.arguments] for call in calls
        ]

    async def submit(self, run: Any) -> None:
        """Goes on with a stream of its own."""
        calls = run.required_action.submit_tool_outputs.tool_calls
        outputs = [{"tool_call_id": call.id, "output": "known"} for call in calls]
        async with self.client.beta.threads.runs.submit_tool_outputs_stream(
            run_id=run.id,
            thread_id=run.thread_id,
            tool_outputs=outputs,
            event_handler=Handler(self.client, self.scenario, self.result),
        ) as stream:
            await stream.until_done()


async def play(scenario: Any) -> dict[str, Any]:
    """One scenario, from an assistant to the end of its run."""
    result: dict[str, Any] = {"events": [], "texts": {}, "calls": {}, "error": None}
    async with AsyncOpenAI(base_url=scenario["url"], api_key="any", max_retries=0) as client:
        threads = client.beta.threads
        tools: Any = [{"type": "function", "function": {"name": n}} for n in scenario["tools"]]
        assistant = await client.beta.assistants.create(model="scripted/inline", tools=tools)
        said: Any = [{"role": "user", "content": json.dumps({"turns": scenario["turns"]})}]
        more: Any = {
            "assistant_id": assistant.id,
            **scenario["limits"],
            "event_handler": Handler(client, scenario, result),
        }
        if scenario["makes_thread"]:
            streaming = threads.create_and_run_stream(thread={"messages": said}, **more)
        else:
            thread = await threads.create(messages=said)
            streaming = threads.runs.stream(thread_id=thread.id, **more)
        try:
            async with streaming as stream:
                await stream.until_done()
        except APIError as error:
            result["error"] = error.code
    return result


async def main() -> None:
    """All at once."""
    json.dump(await asyncio.gather(*map(play, json.load(sys.stdin))), sys.stdout)


if __name__ == "__main__":
    asyncio.run(main())
