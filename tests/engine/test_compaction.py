"""Runs whose older rounds are summarised: what models are shown then, and what the turns say."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from orchestrator.llm.sent import request_body
from orchestrator.records import Summary, ToolSpec, Usage
from orchestrator.settings import ModelRoute, Settings
from orchestrator.shell import view_run
from orchestrator.store import RunRef, Store
from orchestrator.turn_record import TurnRecord, is_within
from tests.engine.rig import EngineRoom, new_message, run_command, run_reaches, start_run
from tests.engine.test_faults import FailingStore
from tests.engine.test_long_runs import FACT, FILLER, SCRIPT, TURNS, answer_next

ROUTE = ModelRoute(api="scripted", context_tokens=1_000)
USAGE = {"prompt_tokens": 300, "completion_tokens": 20}
KEEPS_IT = {"text": "{{ '" + FACT + "' if 'stone' in user else 'Little.' }}", "usage": USAGE}
FORGETS_IT = {"text": "Little was found.", "usage": USAGE}


def settings_with(
    redis_url: SecretStr, folder: Path, summary: dict[str, Any], **more: Any
) -> Settings:
    """Two scripts from files, with what they write for summaries: that of the long runs, and one
    that answers at once.
    """
    (folder / "long.yaml").write_text(json.dumps(SCRIPT | {"summary": summary}))
    (folder / "quiet.yaml").write_text(json.dumps({"turns": [], "summary": summary}))
    routes = {"scripted/*": (ROUTE,)}
    return Settings(redis_url=redis_url, scripts_dir=folder, model_routes=routes, **more)


@asynccontextmanager
async def an_engine(store: Store, settings: Settings) -> AsyncIterator[None]:
    """One engine at work."""
    room = EngineRoom(store, settings)
    room.start("e1")
    try:
        yield
    finally:
        await room.close()


async def played(store: Store, settings: Settings, turns: int = TURNS, **spec: Any) -> RunRef:
    """A run of so many turns, which its limit ends."""
    await store.publish_tools([ToolSpec(name="look"), ToolSpec(name="recall")], ttl_s=60)
    fields = {"model": "scripted/long", "truncation_strategy": {"type": "compact"}} | spec
    command = run_command({}, tools=["look", "recall"], max_turns=turns, **fields)
    ref = await start_run(store, command)
    async with an_engine(store, settings):
        for _ in range(turns - 1):
            await answer_next(store, ref)
        await run_reaches(store, ref, "failed", "incomplete")
    return ref


async def answered(
    store: Store, settings: Settings, messages: int, of_engine: Store | None = None, **spec: Any
) -> RunRef:
    """A run of one turn, after so many messages of the user."""
    fields = {"model": "scripted/quiet", "truncation_strategy": {"type": "compact"}} | spec
    history = tuple(new_message(f"{number} {FILLER}") for number in range(messages))
    command = replace(run_command({}, **fields), additional_messages=history)
    ref = await start_run(store, command)
    async with an_engine(of_engine or store, settings):
        await run_reaches(store, ref, "completed", "failed")
    return ref


async def request_of(store: Store, ref: RunRef, turn: TurnRecord) -> str:
    spec, entries = (await view_run(store, ref)).spec, await store.read_entries(ref.thread_id)
    return json.dumps(request_body(turn, ref.run_id, spec, entries))


@pytest.mark.parametrize(("summary", "is_kept"), [(KEEPS_IT, True), (FORGETS_IT, False)])
async def test_a_fact_of_the_fourth_turn_lives_on_in_the_summaries_and_the_turns_say_so(
    store: Store, redis_url: SecretStr, tmp_path: Path, summary: dict[str, Any], is_kept: bool
) -> None:
    ref = await played(store, settings_with(redis_url, tmp_path, summary))
    turns, entries = await store.read_turns(ref), await store.read_entries(ref.thread_id)

    assert (FACT in await request_of(store, ref, turns[-1])) is is_kept
    fact_seq = next(entry.seq for entry in entries if getattr(entry, "text", "") == FACT)
    assert is_within(fact_seq, turns[-1].dropped["compact"])
    assert {rule for turn in turns for rule in turn.dropped} == {"compact"}
    assert [turn.turn for turn in turns] == list(range(TURNS))


async def test_summaries_are_stored_once_charged_to_the_run_and_told_in_the_turns(
    store: Store, redis_url: SecretStr, tmp_path: Path
) -> None:
    ref = await played(store, settings_with(redis_url, tmp_path, KEEPS_IT), turns=30)
    turns, view = await store.read_turns(ref), await view_run(store, ref)
    stored = [e for e in await store.read_entries(ref.thread_id) if isinstance(e, Summary)]
    made = [one for turn in turns for one in turn.compactions]

    assert len(stored) > 1
    assert [(one.seq, one.replaced) for one in made] == [(e.seq, e.replaces) for e in stored]
    assert is_within(stored[0].seq, stored[1].replaces), "a summary is summarised again"
    assert (
        view.run.usage
        == view.run.summary_usage
        == Usage(prompt_tokens=300 * len(stored), completion_tokens=20 * len(stored))
    )


@pytest.mark.parametrize(
    ("summary", "failure"),
    [
        ({"error": {"status": 500, "message": "Overloaded."}}, "Overloaded."),
        ({"text": "It was", "finish_reason": "length", "usage": USAGE}, "cut off"),
        ({"refusal": "No."}, "no summary"),
        ({"text": " "}, "no summary"),
    ],
)
async def test_without_a_summary_the_prompt_is_cut_and_the_run_goes_on(
    store: Store, redis_url: SecretStr, tmp_path: Path, summary: dict[str, Any], failure: str
) -> None:
    ref = await played(store, settings_with(redis_url, tmp_path, summary), turns=20)
    turns, view = await store.read_turns(ref), await view_run(store, ref)

    assert view.run.turns == 20
    assert set(turns[-1].dropped) == {"context_window"}
    tried = [one for turn in turns for one in turn.compactions]
    assert [one.seq for one in tried] == [None] * 3, "after three it is not tried again"
    assert all(failure in str(one.failure) for one in tried)
    assert not any(isinstance(e, Summary) for e in await store.read_entries(ref.thread_id))
    paid_tokens = (view.run.summary_usage or Usage()).total_tokens
    assert paid_tokens == (3 * 320 if "usage" in summary else 0)


async def test_no_summary_is_paid_for_where_the_runs_own_tokens_are_short(
    store: Store, redis_url: SecretStr, tmp_path: Path
) -> None:
    settings = settings_with(redis_url, tmp_path, KEEPS_IT)
    ref = await played(store, settings, turns=12, max_prompt_tokens=600)
    turns = await store.read_turns(ref)

    assert [turn.compactions for turn in turns] == [()] * 12
    assert set(turns[-1].dropped) == {"max_prompt_tokens"}


async def test_a_summary_that_costs_too_much_ends_the_run_before_its_turn(
    store: Store, redis_url: SecretStr, tmp_path: Path
) -> None:
    settings = settings_with(redis_url, tmp_path, KEEPS_IT)
    ref = await answered(store, settings, messages=20, max_total_tokens=300)
    run = (await view_run(store, ref)).run

    assert run.last_error is not None
    assert "RUNSTATE_MAX_TOTAL_TOKENS" in run.last_error.message
    (turn,) = await store.read_turns(ref)
    assert (run.turns, turn.shown, turn.asked_ms) == (0, (), None)
    (made,) = turn.compactions
    assert (made.seq, made.usage, made.failure) == (20, Usage(**USAGE), None)


async def test_what_no_one_call_can_read_is_summarised_in_parts(
    store: Store, redis_url: SecretStr, tmp_path: Path
) -> None:
    settings = settings_with(redis_url, tmp_path, KEEPS_IT)
    ref = await answered(store, settings, messages=60)
    (turn,) = await store.read_turns(ref)

    assert len(turn.compactions) > 2
    assert {one.failure for one in turn.compactions} == {None}
    assert set(turn.dropped) == {"compact"}
    assert f"59 {FILLER}" in await request_of(store, ref, turn)


async def test_an_answer_of_the_store_that_is_lost_repeats_no_summary(
    store: Store, redis_url: SecretStr, tmp_path: Path
) -> None:
    settings = settings_with(redis_url, tmp_path, KEEPS_IT, turn_lease_s=0.6)
    first = FailingStore(store, 0, after=True)
    await answered(store, settings, 20, first)
    for fail_at in range(1, first.calls + 1):
        ref = await answered(store, settings, 20, FailingStore(store, fail_at, after=True))
        entries, run = await store.read_entries(ref.thread_id), (await view_run(store, ref)).run
        assert sum(isinstance(entry, Summary) for entry in entries) == 1
        assert run.summary_usage == Usage(**USAGE)
