"""Each kind of process is killed amid two-round runs; all of them end, nothing is paid twice."""

import json
import os
import signal
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from openai import APIConnectionError, InternalServerError, OpenAI
from openai.types.beta.threads import Run

from tests.chaos.dev import Dev, replaced
from tests.cli.waits import until

SETTINGS = {"RUNSTATE_TURN_LEASE_S": "1.5", "RUNSTATE_CALL_LEASE_S": "1.5"}
MOMENTS = ("", "-pay-1", "-pay-2")
"""In the first turn, or once this payment has begun."""
FUNCTIONS = [{"type": "function", "function": {"name": name}} for name in ("pay", "look")]


def script(tag: str) -> str:
    """Two rounds of calls, each turn and each call long enough to be interrupted."""
    first = [
        {"name": "pay", "arguments": {"tag": f"{tag}-pay-1", "seconds": 0.6}},
        {"name": "look", "arguments": {"tag": f"{tag}-look", "seconds": 0.6}},
    ]
    second = [{"name": "pay", "arguments": {"tag": f"{tag}-pay-2", "seconds": 0.6}}]
    turns = [
        {"delay_s": 0.6, "tool_calls": first},
        {"delay_s": 0.6, "tool_calls": second},
        {"delay_s": 0.3, "text": "It says: {{ outputs.pay }}"},
    ]
    return json.dumps({"turns": turns})


class Bystander:
    """A client that starts runs and waits for them, whatever happens to the server."""

    def __init__(self, dev: Dev, lines: Path) -> None:
        self.dev = dev
        self.lines = lines
        self.client = OpenAI(base_url=f"{dev.url}/v1", api_key="any", max_retries=0)

    def start(self, tag: str) -> Run:
        assistants = self.client.beta.assistants
        assistant = assistants.create(model="scripted/inline", tools=FUNCTIONS)  # type: ignore[arg-type]
        message: Any = {"role": "user", "content": script(tag)}
        return self.client.beta.threads.create_and_run(
            assistant_id=assistant.id, thread={"messages": [message]}
        )

    def look(self, run: Run) -> Run | None:
        """The run as it is, or None while the server cannot say."""
        try:
            return self.client.beta.threads.runs.retrieve(run.id, thread_id=run.thread_id)
        except (APIConnectionError, InternalServerError):
            return None

    def has_ended(self, run: Run) -> bool:
        seen = self.look(run)
        return seen is not None and seen.status not in ("queued", "in_progress", "cancelling")

    def has_started(self, tag: str) -> bool:
        return self.lines.exists() and tag in self.lines.read_text().split()

    def counts(self) -> Counter[str]:
        return Counter(self.lines.read_text().split())


async def kill(dev: Dev, role: str, how: signal.Signals = signal.SIGKILL) -> None:
    """The signal to the first process of this role; returns when another serves in its place."""
    before = dev.processes()[role]
    os.kill(before[0] if isinstance(before, list) else before, how)
    await until(replaced(dev, role, before), 30)
    await until(dev.is_ready, 30)


@pytest.fixture
def bystander(dev: Dev, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bystander:
    lines = tmp_path / "lines"
    monkeypatch.setenv("RUNSTATE_TEST_LINES", str(lines))
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)
    return Bystander(dev, lines)


@pytest.mark.parametrize("role", ["engine", "workers", "store", "api"])
async def test_a_killed_process_loses_no_run_and_repeats_no_payment(
    bystander: Bystander, role: str
) -> None:
    await bystander.dev.start("--tools", "tests.chaos.tools", "--workers", "2")
    runs = []
    for index, moment in enumerate(MOMENTS):
        tag = f"run-{index}"
        runs.append(bystander.start(tag))
        if moment:
            await until(partial(bystander.has_started, tag + moment), 30)
        await kill(bystander.dev, role)
    await all_are_paid_once(bystander, runs)


async def test_a_rolling_restart_costs_no_run_anything(bystander: Bystander) -> None:
    await bystander.dev.start("--tools", "tests.chaos.tools", "--workers", "2")
    runs = []
    for role in ("workers", "engine", "api"):
        runs.append(bystander.start(f"run-{role}"))
        await until(partial(bystander.has_started, f"run-{role}-pay-1"), 30)
        await kill(bystander.dev, role, signal.SIGTERM)
    await all_are_paid_once(bystander, runs)


async def all_are_paid_once(bystander: Bystander, runs: list[Run]) -> None:
    """Returns when they are completed, with two payments each."""
    for run in runs:
        await until(partial(bystander.has_ended, run), 40)
        ended = bystander.look(run)
        assert ended is not None
        assert ended.status == "completed", ended.last_error
    payments = {tag: n for tag, n in bystander.counts().items() if "-pay-" in tag}
    assert len(payments) == 2 * len(runs)
    assert set(payments.values()) == {1}
