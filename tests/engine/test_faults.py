"""The store fails at every single call of an engine's life, one after the other; no run is lost."""

import inspect
from typing import Any

import pytest

from orchestrator.commands import SubmitOutputs
from orchestrator.errors import StoreUnavailable
from orchestrator.records import CallState
from orchestrator.shell import change_run
from orchestrator.store import Store
from tests.engine.rig import EngineRoom, run_command, run_reaches, start_run, texts

SCRIPT = {
    "turns": [
        {
            "text": "Let me look.",
            "tool_calls": [{"name": "a", "arguments": {}}],
            "usage": {"prompt_tokens": 5, "completion_tokens": 1},
        },
        {
            "text": "It says {{ outputs.a }}.",
            "usage": {"prompt_tokens": 7, "completion_tokens": 2},
        },
    ]
}
UNCOUNTED = frozenset({"rings", "close", "beat", "leave", "take_due", "take_turns", "take_parcels"})
"""Calls that an idle engine makes on its own; a failure of theirs is counted by other tests."""


class FailingStore:
    """A real store whose n-th call fails, before or after it has taken effect."""

    def __init__(self, store: Store, fail_at: int, *, after: bool) -> None:
        self._store = store
        self._fail_at = fail_at
        self._after = after
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        if name in UNCOUNTED or not inspect.iscoroutinefunction(method):
            return method

        async def counted(*args: Any, **options: Any) -> Any:
            self.calls += 1
            is_the_one = self.calls == self._fail_at
            if is_the_one and not self._after:
                raise StoreUnavailable("not this time")
            result = await method(*args, **options)
            if is_the_one:
                raise StoreUnavailable("the answer was lost")
            return result

        return counted


async def play(store: Store, engines: EngineRoom, fail_at: int, *, after: bool) -> int:
    """One run of two rounds with the fault; returns how many calls the engine made."""
    failing = FailingStore(store, fail_at, after=after)
    name = f"e{fail_at}"
    engines.start(name, failing)
    ref = await start_run(store, run_command(SCRIPT, tools=["a"]))
    view = await run_reaches(store, ref, "requires_action")
    (call,) = (call for call in view.calls if call.state is CallState.REQUIRED)
    await change_run(store, ref, SubmitOutputs(((call.id, "42"),)))
    await run_reaches(store, ref, "completed")
    said = await texts(store, ref.thread_id)
    assert said == ["Let me look.", "It says 42."]
    await engines.kill(name)
    return failing.calls


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_fault_at_any_call_loses_no_run_and_repeats_no_message_and_counts_once(
    store: Store, engines: EngineRoom, after: bool
) -> None:
    calls = await play(store, engines, 0, after=after)
    assert calls >= 10
    for fail_at in range(1, calls + 1):
        await play(store, engines, fail_at, after=after)
    (sums,) = await store.read_usage()
    plays = calls + 1
    counted = (sums.tally.turns, sums.tally.prompt_tokens, sums.tally.completion_tokens)
    assert counted == (2 * plays, 12 * plays, 3 * plays)
    assert (await store.census()).active == {}
