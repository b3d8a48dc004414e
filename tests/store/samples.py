"""Threads, runs and decisions made by hand: the store must not need the rules to be tested."""

from collections.abc import Sequence

from orchestrator.decisions import Decision, Effect, Event, EventType, PutEntry
from orchestrator.ids import mint
from orchestrator.records import (
    Aggregate,
    CallState,
    Executor,
    Json,
    Message,
    Run,
    RunSpec,
    Step,
    StepStatus,
    Thread,
    ToolCall,
)
from orchestrator.states import RunStatus
from orchestrator.store import Loaded, RunRef, Store


def text_part(text: str) -> Json:
    """A text as messages hold it."""
    return {"type": "text", "text": {"value": text, "annotations": []}}


def new_message(
    thread_id: str, seq: int, run_id: str | None = None, text: str = "Hello"
) -> Message:
    """A message of the user, or of the run."""
    return Message(
        seq=seq,
        id=mint("msg"),
        thread_id=thread_id,
        created_ms=1,
        role="user" if run_id is None else "assistant",
        content=(text_part(text),),
        run_id=run_id,
        turn=None if run_id is None else 1,
    )


def new_run(thread_id: str, created_ms: int = 1000) -> Run:
    """A queued run."""
    return Run(
        id=mint("run"),
        thread_id=thread_id,
        status=RunStatus.QUEUED,
        created_ms=created_ms,
        deadline_ms=created_ms + 600_000,
        updated_ms=created_ms,
    )


def new_step(index: int = 0) -> Step:
    """A step that is under way."""
    return Step(
        id=mint("step"),
        index=index,
        type="tool_calls",
        status=StepStatus.IN_PROGRESS,
        created_ms=1,
    )


def new_call(step: Step, index: int = 0) -> ToolCall:
    """A call that waits for its worker."""
    return ToolCall(
        id=mint("call"),
        step_id=step.id,
        index=index,
        name="look_up",
        arguments='{"word": "tide"}',
        executor=Executor.WORKER,
        state=CallState.DISPATCHED,
        created_ms=1,
    )


def new_event(run: Run, detail: str | None = None) -> Event:
    """An event that shows the run."""
    return Event(
        type=EventType.RUN_QUEUED,
        at_ms=run.updated_ms,
        status=run.status,
        public_status=run.status,
        run=run,
        detail=detail,
    )


SPEC = RunSpec(assistant_id="asst_1", model="scripted/echo", temperature=None)


async def put_thread(store: Store, messages: int = 0) -> Thread:
    """A committed thread with so many messages."""
    loaded = await store.fresh(Thread(id=mint("thread"), created_ms=0))
    thread = loaded.aggregate.thread.but(next_seq=messages)
    effects = tuple(PutEntry(new_message(thread.id, seq)) for seq in range(messages))
    await store.commit(loaded, Decision(Aggregate(thread=thread), effects=effects))
    return thread


async def put_run(
    store: Store,
    thread_id: str | None = None,
    effects: Sequence[Effect] = (),
    created_ms: int = 1000,
) -> RunRef:
    """A committed run with an event, on a new thread unless one is named."""
    thread_id = thread_id or (await put_thread(store)).id
    loaded = await store.load(thread_id)
    run = new_run(thread_id, created_ms)
    spec = SPEC.but(tenant=loaded.aggregate.thread.tenant)
    aggregate = loaded.aggregate.but(run=run, spec=spec)
    await store.commit(loaded, Decision(aggregate, (new_event(run),), tuple(effects)))
    return RunRef(thread_id, run.id)


async def delete_thread(store: Store, thread_id: str) -> None:
    """A committed deletion, with all that is left removed."""
    loaded = await store.load(thread_id)
    thread = loaded.aggregate.thread.but(is_deleted=True)
    await store.commit(loaded, Decision(Aggregate(thread=thread)))
    await store.clear_thread(thread_id)


async def change(store: Store, ref: RunRef, *effects: Effect) -> None:
    """A commit that changes the run a little, with an event and these effects."""
    await store.commit(*changed(await store.load(ref.thread_id, ref.run_id), *effects))


def changed(loaded: Loaded, *effects: Effect) -> tuple[Loaded, Decision]:
    """A decision that changes the loaded run a little."""
    run = loaded.aggregate.run
    assert run is not None
    run = run.but(updated_ms=run.updated_ms + 1)
    return loaded, Decision(loaded.aggregate.but(run=run), (new_event(run),), effects)
