"""Runs in one process, as users' tests play them."""

import asyncio
import json
import time
from typing import Any

import pytest
from pydantic import ValidationError
from structlog.testing import capture_logs

from orchestrator import Retry, current_call, tool
from orchestrator.records import CallState
from orchestrator.states import RunStatus
from orchestrator.testing import Fault
from orchestrator.testing.runs import Runs
from orchestrator.tools import Tool


class Post:
    """Tools that note each of their executions."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def tool(self, **options: Any) -> Tool[..., Any]:
        """Sends letters."""

        @tool(**options)
        def send_letter(to: str) -> str:
            """Send a letter by post to somebody."""
            self.sent.append(to)
            return f"{to}, attempt {current_call().attempt}"

        return send_letter


@pytest.fixture
def post() -> Post:
    return Post()


ASKS: list[dict[str, Any]] = [
    {"tool_calls": [{"name": "send_letter", "arguments": {"to": "Ann"}}]},
    {"text": "It says {{ outputs.send_letter }}."},
]

ON_BOTH = pytest.mark.parametrize("runstate_server", ["embedded", "fakeredis"], indirect=True)


@ON_BOTH
async def test_a_plain_function_answers_and_the_model_reads_it(runs: Runs, post: Post) -> None:
    played = await runs.play(ASKS, [post.tool()])
    assert played.status is RunStatus.COMPLETED
    assert played.answers == ("It says Ann, attempt 1.",)
    (call,) = played.calls
    assert (call.name, json.loads(call.arguments)) == ("send_letter", {"to": "Ann"})
    assert (call.state, call.attempts, call.output) == (CallState.SUCCEEDED, 1, "Ann, attempt 1")


async def test_async_tools_of_one_turn_run_beside_each_other(runs: Runs) -> None:
    both = asyncio.Barrier(2)

    @tool(side_effects="none")
    async def meet(name: str) -> dict[str, str]:
        """Wait for the other one to come."""
        await both.wait()
        return {"met": name}

    asked = [{"name": "meet", "arguments": {"name": name}} for name in ("a", "b")]
    played = await runs.play([{"tool_calls": asked}], [meet])
    assert [call.json() for call in played.calls] == [{"met": "a"}, {"met": "b"}]
    assert played.answers == ("done",)


async def test_wrong_arguments_never_reach_the_tool(runs: Runs, post: Post) -> None:
    asked = {"name": "send_letter", "arguments": {"to": 7}}
    played = await runs.play([{"tool_calls": [asked]}], [post.tool()])
    assert played.calls[0].json()["error"]["type"] == "invalid_arguments"
    assert post.sent == []


async def test_an_exception_is_an_error_that_the_model_reads(runs: Runs) -> None:
    @tool
    def fail() -> None:
        """Fail in any case, whatever is asked."""
        raise KeyError("cocoa")

    played = await runs.play([{"tool_calls": [{"name": "fail"}]}], [fail])
    assert played.calls[0].state is CallState.FAILED
    assert "cocoa" in played.calls[0].json()["error"]["message"]


async def test_a_plain_function_that_is_too_slow_times_out(runs: Runs) -> None:
    @tool(timeout_s=0.05)
    def dawdle() -> None:
        """Take much longer than is allowed."""
        time.sleep(0.2)

    played = await runs.play([{"tool_calls": [{"name": "dawdle"}]}], [dawdle])
    assert played.calls[0].state is CallState.TIMED_OUT


async def test_the_pauses_before_repetitions_are_skipped(runs: Runs) -> None:
    @tool(max_attempts=3)
    def ring_up() -> int:
        """Ring somebody up who is busy twice."""
        attempt = current_call().attempt
        if attempt < 3:
            raise Retry("Busy.", after_s=20)
        return attempt

    played = await runs.play([{"tool_calls": [{"name": "ring_up"}]}], [ring_up])
    assert (played.calls[0].attempts, played.calls[0].output) == (3, "3")


@ON_BOTH
async def test_a_killed_call_is_repeated_if_that_is_harmless(runs: Runs, post: Post) -> None:
    letters = post.tool(side_effects="idempotent")
    played = await runs.play(ASKS, [letters], faults={"send_letter": Fault.KILLED})
    assert post.sent == ["Ann", "Ann"]
    assert played.answers == ("It says Ann, attempt 2.",)
    assert played.calls[0].late == ()


async def test_a_killed_call_is_never_repeated_if_that_may_do_harm(runs: Runs, post: Post) -> None:
    letters = post.tool(side_effects="once")
    played = await runs.play(ASKS, [letters], faults={"send_letter": Fault.KILLED})
    assert post.sent == ["Ann"]
    assert played.calls[0].state is CallState.UNKNOWN
    assert played.calls[0].json()["error"]["type"] == "unknown_outcome"
    assert played.status is RunStatus.COMPLETED


async def test_a_held_call_leaves_the_run_waiting(runs: Runs, post: Post) -> None:
    letters = post.tool(side_effects="once", on_unknown="hold")
    played = await runs.play(ASKS, [letters], faults={"send_letter": Fault.KILLED})
    assert played.status is RunStatus.REQUIRES_ACTION
    assert played.calls[0].output is None


async def test_faults_of_each_attempt_end_in_an_error(runs: Runs, post: Post) -> None:
    letters = post.tool(side_effects="none", max_attempts=2)
    faults = {"send_letter": [Fault.KILLED, Fault.KILLED]}
    played = await runs.play(ASKS, [letters], faults=faults)
    assert post.sent == ["Ann", "Ann"]
    assert played.calls[0].json()["error"]["type"] == "lost"


@ON_BOTH
async def test_a_late_output_is_kept_and_not_used(runs: Runs, post: Post) -> None:
    letters = post.tool(side_effects="once")
    played = await runs.play(ASKS, [letters], faults={"send_letter": Fault.LATE})
    assert played.calls[0].json()["error"]["type"] == "unknown_outcome"
    assert played.calls[0].late == ("Ann, attempt 1",)


@ON_BOTH
async def test_a_call_that_is_delivered_twice_is_done_once(runs: Runs, post: Post) -> None:
    with capture_logs() as logs:
        played = await runs.play(ASKS, [post.tool()], faults={"send_letter": Fault.TWICE})
    assert post.sent == ["Ann"]
    assert played.answers == ("It says Ann, attempt 1.",)
    events = [entry["event"] for entry in logs]
    assert (events.count("call.claimed"), events.count("call.not_claimed")) == (1, 1)


@ON_BOTH
async def test_a_run_can_be_made_to_expire_while_a_tool_is_at_work(runs: Runs, post: Post) -> None:
    played = await runs.play(ASKS, [post.tool()], faults={"send_letter": Fault.EXPIRED})
    assert played.status is RunStatus.EXPIRED
    assert played.calls[0].state is CallState.CANCELLED
    assert post.sent == ["Ann"]


async def test_calls_that_wait_for_their_turn_get_it(runs: Runs, post: Post) -> None:
    letters = post.tool(max_concurrency=1)
    asked = [{"name": "send_letter", "arguments": {"to": name}} for name in ("Ann", "Ben")]
    played = await runs.play([{"tool_calls": asked}], [letters])
    assert [call.state for call in played.calls] == [CallState.SUCCEEDED] * 2
    assert sorted(post.sent) == ["Ann", "Ben"]


async def test_a_model_that_fails_fails_the_run(runs: Runs) -> None:
    played = await runs.play([{"error": {"status": 400, "message": "No."}}])
    assert played.status is RunStatus.FAILED
    assert "No." in (played.error or "")


async def test_a_script_that_is_none_is_refused_at_once(runs: Runs) -> None:
    with pytest.raises(ValidationError, match="texxt"):
        await runs.play([{"texxt": "Hello"}])


async def test_a_fault_of_an_unknown_tool_is_refused(runs: Runs, post: Post) -> None:
    with pytest.raises(ValueError, match="sned_letter"):
        await runs.play(ASKS, [post.tool()], faults={"sned_letter": Fault.LATE})


async def test_a_play_that_does_not_end_is_broken_off(runs: Runs) -> None:
    stopped = asyncio.Event()

    @tool
    async def sleep() -> None:
        """Sleep until somebody comes and stops it."""
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    with pytest.raises(TimeoutError):
        await runs.play([{"tool_calls": [{"name": "sleep"}]}], [sleep], within_s=0.5)
    assert stopped.is_set()


async def test_what_a_run_has_left_can_be_read_from_the_store(runs: Runs) -> None:
    played = await runs.play([{"text": "Good day."}], message="Good morning.")
    store = await runs.store.open()
    entries = await store.read_entries(played.ref.thread_id)
    await store.close()
    assert len(entries) == 2
