"""What was sent is known whoever ends a turn before its reply: clients, the clock, a crash."""

import asyncio
import inspect
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from pydantic import SecretStr

from orchestrator.commands import Cancel, ConfirmCancel
from orchestrator.engine.guards import Guards
from orchestrator.errors import CannotCancel
from orchestrator.guardrails import Guardrail
from orchestrator.records import GuardPoint, Usage
from orchestrator.settings import ModelRoute, Settings
from orchestrator.shell import change_run, view_run
from orchestrator.store import RunRef, Store
from orchestrator.turn_record import UNANSWERED, TurnRecord
from tests.engine.rig import (
    EngineRoom,
    new_message,
    run_command,
    run_reaches,
    start_run,
    texts,
)
from tests.engine.test_faults import UNCOUNTED
from tests.engine.test_long_runs import FILLER
from tests.engine.test_model_failures import asking
from tests.llm.chat_server import HANG, ChatServer, serving, text_event
from tests.waiting import until

HANGING: Final = {"turns": [{"delay_s": 30, "text": "too late"}]}
BUSY: Final = {"error": {"status": 503, "message": "busy"}}


async def told(store: Store, ref: RunRef) -> TurnRecord | None:
    """The only turn of the run as it is shown, if it is known."""
    run = (await view_run(store, ref)).run
    for turn in await store.read_turns(ref):
        return turn.as_ended_with(run)
    return None


async def asked(store: Store, ref: RunRef) -> TurnRecord:
    """The same, once the model is asked."""

    async def look() -> TurnRecord | None:
        turn = await told(store, ref)
        return turn if turn and turn.asked_ms is not None else None

    return await until(look)


async def ended(store: Store, ref: RunRef, status: str) -> TurnRecord:
    """The same, once the run has ended."""
    await run_reaches(store, ref, status)
    turn = await told(store, ref)
    assert turn is not None
    return turn


async def test_a_turn_can_be_read_while_its_model_speaks_and_after_it_was_cancelled(
    store: Store, engines: EngineRoom
) -> None:
    engines.start("e1")
    ref = await start_run(store, run_command(HANGING))
    now = await asked(store, ref)
    assert (now.shown, now.latency_ms, now.stop) == (((0, 0),), None, None)
    await change_run(store, ref, Cancel(watchdog_ms=60_000))

    turn = await ended(store, ref, "cancelled")
    run = (await view_run(store, ref)).run
    assert (turn.shown, turn.asked_ms) == (now.shown, now.asked_ms)
    assert (turn.stop, turn.usage) == ("run_cancelled", None)
    assert run.cancelled_ms
    assert turn.latency_ms == run.cancelled_ms - (turn.asked_ms or 0)


async def test_a_turn_that_is_cancelled_between_two_tries_has_its_failures(
    store: Store, engines: EngineRoom
) -> None:
    engines.start("e1")
    ref = await start_run(store, run_command({"turns": [BUSY | {"repeat": True}]}))

    async def has_failed() -> bool:
        turn = await told(store, ref)
        return bool(turn and turn.failures)

    await until(has_failed)
    await change_run(store, ref, Cancel(watchdog_ms=60_000))
    turn = await ended(store, ref, "cancelled")
    assert (set(turn.failures), turn.stop) == ({"busy"}, None)
    assert turn.latency_ms is not None, "the request was over before"


async def test_a_turn_that_is_cancelled_while_it_is_summarised_says_what_was_asked_for(
    store: Store, redis_url: SecretStr, tmp_path: Path
) -> None:
    script = {"turns": [], "summary": {"delay_s": 30, "text": "too late"}}
    (tmp_path / "slow.yaml").write_text(json.dumps(script))
    routes = {"scripted/*": (ModelRoute(api="scripted", context_tokens=1_000),)}
    room = EngineRoom(
        store, Settings(redis_url=redis_url, scripts_dir=tmp_path, model_routes=routes)
    )
    room.start("e1")
    compact = run_command({}, model="scripted/slow", truncation_strategy={"type": "compact"})
    history = tuple(new_message(f"{number} {FILLER}") for number in range(20))
    ref = await start_run(store, replace(compact, additional_messages=history))

    async def is_summarising() -> bool:
        turn = await told(store, ref)
        return bool(turn and turn.compactions)

    await until(is_summarising)
    await change_run(store, ref, Cancel(watchdog_ms=60_000))
    turn = await ended(store, ref, "cancelled")
    (attempt,) = turn.compactions
    assert (attempt.failure, attempt.seq, attempt.latency_ms) == (UNANSWERED, None, None)
    assert attempt.replaced
    assert (turn.asked_ms, turn.shown, turn.stop) == (None, (), None)
    await room.close()


async def test_an_answer_that_is_paid_for_is_in_its_turn_also_if_a_guardrail_still_looks_at_it(
    store: Store, engines: EngineRoom
) -> None:
    begun = asyncio.Event()

    async def slow(text: str) -> None:
        begun.set()
        await asyncio.Event().wait()

    rules = Guards([Guardrail("slow", GuardPoint.OUTPUT, slow, timeout_s=60)])
    engines.start("e1", guards=rules)
    usage = {"prompt_tokens": 11, "completion_tokens": 7}
    ref = await start_run(store, run_command({"turns": [{"text": "Yes.", "usage": usage}]}))
    await begun.wait()
    await change_run(store, ref, Cancel(watchdog_ms=60_000))
    turn = await ended(store, ref, "cancelled")
    assert (turn.stop, turn.usage) == ("done", Usage(**usage))
    assert await texts(store, ref.thread_id) == []


async def test_a_turn_that_expires_while_its_model_speaks_says_so(
    store: Store, engines: EngineRoom
) -> None:
    engines.start("e1")
    ref = await start_run(store, run_command(HANGING, ttl_s=0.5))
    turn = await ended(store, ref, "expired")
    run = (await view_run(store, ref)).run
    assert (turn.shown, turn.stop) == (((0, 0),), "run_expired")
    assert turn.latency_ms == run.deadline_ms - (turn.asked_ms or 0)


async def test_a_turn_that_is_handed_back_hands_on_what_had_failed(
    store: Store, engines: EngineRoom
) -> None:
    engines.start("e1")
    slow = {"delay_s": 30, "text": "too late"}
    ref = await start_run(store, run_command({"turns": [BUSY, slow, {"text": "Here."}]}))

    async def is_asked_again() -> bool:
        turn = await told(store, ref)
        return bool(turn and turn.failures and turn.latency_ms is None)

    await until(is_asked_again)
    await engines.stop("e1")
    view = await run_reaches(store, ref, "queued")
    given = await told(store, ref)
    assert given
    assert (view.run.failed_attempts, given.failures, given.stop) == (1, ("busy",), None)
    assert given.latency_ms is not None, "the request was aborted"

    engines.start("e2")
    again = await asked_under(store, ref, 2)
    assert (again.failures, again.latency_ms) == (("busy",), None)


async def asked_under(store: Store, ref: RunRef, generation: int) -> TurnRecord:
    """The only turn of the run, once the holder of this generation asks the model."""

    async def look() -> TurnRecord | None:
        turn = await told(store, ref)
        return turn if turn and turn.generation == generation else None

    return await until(look)


class DyingStore:
    """A real store whose user dies at its n-th call: before it, or waiting for its answer."""

    def __init__(self, store: Store, die_at: int, *, after: bool) -> None:
        self._store = store
        self._die_at = die_at
        self._after = after
        self.calls = 0
        self.is_over = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        if name in UNCOUNTED or not inspect.iscoroutinefunction(method):
            return method

        async def counted(*args: Any, **options: Any) -> Any:
            self.calls += 1
            if self.calls != self._die_at:
                return await method(*args, **options)
            if self._after:
                await method(*args, **options)
            self.is_over.set()
            return await asyncio.Event().wait()

        return counted


@asynccontextmanager
async def provided(store: Store, redis_url: SecretStr) -> AsyncIterator[tuple[EngineRoom, Any]]:
    """Engines and the slow provider that they ask over a socket."""
    async with serving() as provider:
        room = EngineRoom(store, Settings(redis_url=redis_url, openai_base_url=provider.base_url))
        yield room, provider
        await room.close()


async def cancelled_after_death(
    store: Store, room: EngineRoom, provider: ChatServer, die_at: int, *, after: bool
) -> tuple[bool, TurnRecord | None, int]:
    """Whether the model was asked, what is known of the turn, and how many calls there were."""
    provider.asked.clear()
    provider.prepared.clear()
    provider.answers(text_event("Once"), HANG)
    dying = DyingStore(store, die_at, after=after)
    name = f"e{die_at}"
    room.start(name, dying)
    ref = await start_run(store, asking("gpt-x"))

    async def is_over_or_speaks() -> bool:
        loaded = await store.load(ref.thread_id, ref.run_id)
        return dying.is_over.is_set() or loaded.aggregate.partial == "Once"

    await until(is_over_or_speaks)
    await room.kill(name)
    await change_run(store, ref, Cancel(watchdog_ms=60_000))
    with suppress(CannotCancel):  # as the watchdog does
        await change_run(store, ref, ConfirmCancel())
    return bool(provider.asked), await told(store, ref), dying.calls


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_wherever_its_engine_dies_what_was_sent_is_known(
    store: Store, redis_url: SecretStr, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    known = []
    async with provided(store, redis_url) as (room, provider):
        *_, calls = await cancelled_after_death(store, room, provider, 0, after=after)
        for die_at in range(1, calls + 1):
            was_asked, turn, _ = await cancelled_after_death(
                store, room, provider, die_at, after=after
            )
            known.append((was_asked, turn is not None))
            if turn:
                assert (turn.shown, turn.stop) == (((0, 0),), "run_cancelled")
    assert (True, False) not in known
    assert (True, True) in known
    assert (False, False) in known
