"""The main job, through every process, with the unmodified SDK as the client."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI
from openai.types.beta.threads import Run

from tests.chaos.dev import Dev
from tests.cli.waits import until

NAMES = ("add", "misbehave", "ask_reader", "ask_another_run")
FUNCTIONS: Any = [{"type": "function", "function": {"name": name}} for name in NAMES]


class Client:
    """What an old Assistants program does."""

    def __init__(self, dev: Dev) -> None:
        self.api = OpenAI(base_url=f"{dev.url}/v1", api_key="any")
        self.assistant = self.api.beta.assistants.create(model="scripted/inline", tools=FUNCTIONS)

    def play(self, *turns: dict[str, Any]) -> Run:
        """A run of this script on a new thread, polled until it stops."""
        thread = self.thread(*turns)
        return self.api.beta.threads.runs.create_and_poll(
            thread_id=thread, assistant_id=self.assistant.id, poll_interval_ms=50
        )

    def thread(self, *turns: dict[str, Any]) -> str:
        script: Any = {"role": "user", "content": json.dumps({"turns": turns})}
        return self.api.beta.threads.create(messages=[script]).id

    def answer(self, run: Run) -> str:
        """What the run said last."""
        page = self.api.beta.threads.messages.list(thread_id=run.thread_id, run_id=run.id, limit=1)
        content: Any = page.data[0].content[0]
        text: str = content.text.value
        return text

    def outputs(self, run: Run) -> list[str | None]:
        """The outputs of all calls, in the order of the steps."""
        steps = self.api.beta.threads.runs.steps.list(
            run_id=run.id, thread_id=run.thread_id, order="asc"
        )
        details: list[Any] = [step.step_details for step in steps.data]
        calls = [call for one in details if one.type == "tool_calls" for call in one.tool_calls]
        return [call.function.output for call in calls]


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


@pytest.fixture
async def client(dev: Dev, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Client:
    monkeypatch.setenv("RUNSTATE_TEST_LINES", str(tmp_path / "lines"))
    await dev.start("--tools", "tests.chaos.tools", "--workers", "2")
    return Client(dev)


async def test_three_parallel_calls_then_a_second_round_then_the_answer(client: Client) -> None:
    sums = [call("add", left=n, right=n) for n in (1, 2, 3)]
    run = client.play(
        {"tool_calls": sums},
        {"tool_calls": [call("add", left=10, right="{{ outputs.add }}")]},
        {"text": "It is {{ outputs.add }}."},
    )
    assert run.status == "completed"
    assert client.outputs(run) == ["2", "4", "6", "16"]
    assert client.answer(run) == "It is 16."


async def test_a_worker_and_the_client_answer_calls_of_the_same_turn(client: Client) -> None:
    run = client.play(
        {"tool_calls": [call("add", left=20, right=22), call("ask_reader", question="Why?")]},
        {"text": "{{ outputs.add }}, because {{ outputs.ask_reader }}"},
    )
    assert run.status == "requires_action"
    assert run.required_action is not None
    (waiting,) = run.required_action.submit_tool_outputs.tool_calls
    assert waiting.function.name == "ask_reader"
    done = client.api.beta.threads.runs.submit_tool_outputs_and_poll(
        run_id=run.id,
        thread_id=run.thread_id,
        tool_outputs=[{"tool_call_id": waiting.id, "output": "it is so"}],
        poll_interval_ms=50,
    )
    assert done.status == "completed"
    assert client.answer(done) == "42, because it is so"


def is_error(kind: str) -> Callable[[str], bool]:
    return lambda output: json.loads(output)["error"]["type"] == kind


async def test_a_tool_that_misbehaves_is_answered_for_and_the_run_goes_on(client: Client) -> None:
    ways: dict[str, Callable[[str], bool]] = {
        "raise": is_error("exception"),
        "sleep": is_error("timeout"),
        "exit": is_error("lost"),
        "no_json": lambda output: "error" in json.loads(output),
        "return 5 MB": lambda output: json.loads(output)["truncated"] is True,
    }
    run = client.play(
        {"tool_calls": [call("misbehave", how=how) for how in ways]}, {"text": "Well."}
    )
    assert run.status == "completed"
    assert client.answer(run) == "Well."
    for (how, is_right), output in zip(ways.items(), client.outputs(run), strict=True):
        assert output is not None, how
        assert is_right(output), (how, output)


async def test_a_run_left_alone_reads_expired_with_every_engine_and_worker_gone(dev: Dev) -> None:
    stay_down = [option for role in ("engine", "worker") for option in ("--no-restart", role)]
    await dev.start("--run-ttl-s", "3", *stay_down)
    client = Client(dev)
    thread = client.thread({"delay_s": 60, "text": "too late"})
    run = client.api.beta.threads.runs.create(thread_id=thread, assistant_id=client.assistant.id)
    for pid in (*dev.processes()["engine"], *dev.processes()["workers"]):
        os.kill(pid, signal.SIGKILL)

    def status() -> str:
        return client.api.beta.threads.runs.retrieve(run_id=run.id, thread_id=thread).status

    await until(lambda: status() == "expired", 10)
    again = client.api.beta.threads.runs.create(thread_id=thread, assistant_id=client.assistant.id)
    assert again.status == "queued"


@pytest.mark.parametrize("workers", [1, 2])
async def test_a_tool_may_start_a_run_of_its_own_and_never_blocks_the_queue_for_good(
    dev: Dev, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    """Azure/azure-sdk-for-python #42562. A run within a run needs a worker more: with a single one
    the inner call waits behind the outer one, until that one's time limit ends it with an error.
    """
    monkeypatch.setenv("RUNSTATE_TEST_URL", dev.url)
    await dev.start("--tools", "tests.chaos.tools", "--workers", str(workers))
    client = Client(dev)
    run = client.play(
        {"tool_calls": [call("ask_another_run", left=20, right=22)]}, {"text": "Well."}
    )
    assert run.status == "completed"
    (output,) = client.outputs(run)
    assert output is not None
    assert output == "42" if workers > 1 else is_error("timeout")(output)
    after = client.play({"tool_calls": [call("add", left=1, right=1)]}, {"text": "Still here."})
    assert client.outputs(after) == ["2"]
