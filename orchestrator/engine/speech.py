"""What the model says, written down while it says it.

The first piece is logged at once, the following ones in batches: all that comes within the batch
time, or while the batch before is on its way, is one round trip. Nothing is shown to a reader that
is not in the log.
"""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import assert_never

from orchestrator.commands import OpenCalls, OpenMessage
from orchestrator.decisions import Event, EventType
from orchestrator.errors import StaleTurn
from orchestrator.ids import mint
from orchestrator.llm.protocol import CallDelta, Delta, TextDelta
from orchestrator.records import Json, Run
from orchestrator.shell import change_run
from orchestrator.states import RunStatus
from orchestrator.store import RunRef, Store


@dataclass(slots=True)
class _Batch:
    """What was said since the last writing; the pieces of one call are joined, by its index."""

    text: str = ""
    calls: dict[int, Json] = field(default_factory=dict)


class Speech:
    """One attempt of a turn to say something. ``run`` is as ``StartTurn`` left it."""

    def __init__(self, store: Store, run: Run, batch_s: float) -> None:
        self.message_id = mint("msg")
        self.message_step_id = mint("step")
        self.calls_step_id = mint("step")
        self._store = store
        self._run = run
        self._ref = RunRef(run.thread_id, run.id)
        self._batch_s = batch_s
        self._batch = _Batch()
        self._call_ids: list[str] = []
        self._told_calls = 0
        self._has_message = False
        self._has_calls = False
        self._is_ending = asyncio.Event()
        self._writing: asyncio.Task[None] | None = None
        self._clock = asyncio.get_running_loop().time
        self._opened_ms, self._opened_at = run.updated_ms, self._clock()

    @property
    def has_begun(self) -> bool:
        """Whether some of it may be in the log."""
        return self._has_message or self._has_calls

    def call_id(self, index: int) -> str:
        """Our id of the model's call with this index; the same one each time."""
        while len(self._call_ids) <= index:
            self._call_ids.append(mint("call"))
        return self._call_ids[index]

    def hear(self, delta: Delta) -> None:
        """Take a piece in. Raises what an earlier writing ran into."""
        match delta:
            case TextDelta():
                self._batch.text += delta.text
            case CallDelta():
                piece = self._batch.calls.setdefault(delta.index, {"arguments": ""})
                if delta.name is not None:
                    piece |= {"call_id": self.call_id(delta.index), "name": delta.name}
                piece["arguments"] += delta.arguments
            case _:
                assert_never(delta)
        if self._writing is not None and self._writing.done():
            self._writing.result()
            self._writing = None
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_on())

    async def end(self) -> None:
        """Write what is left: after that, all that was heard is in the log, but for a call whose
        predecessor never came.
        """
        self._is_ending.set()
        if self._writing is not None:
            await self._writing
        await self._write()

    def drop(self) -> None:
        """Write nothing more: this attempt is over, and so is what went wrong with it."""
        if self._writing is not None:
            self._writing.cancel()
            self._writing.add_done_callback(lambda task: task.cancelled() or task.exception())

    async def _write_on(self) -> None:
        while self._batch != _Batch():
            await self._write()
            if self._is_ending.is_set():
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(self._batch_s):
                    await self._is_ending.wait()

    async def _write(self) -> None:
        """Log one batch. Raises ``StaleTurn`` when the turn has gone to another engine."""
        batch, self._batch = self._batch, _Batch()
        events = []
        if batch.text:
            events.append(await self._message_event(batch.text))
        # Calls that begin behind words come whole, with the result.
        if batch.calls and (self._has_calls or not self._has_message):
            await self._begin_calls()
            events += self._call_events(batch.calls)
        if events and not await self._store.say(
            self._ref, self._run.generation, events, batch.text
        ):
            raise StaleTurn(self._run.id, self._run.generation, self._run.status)

    async def _message_event(self, text: str) -> Event:
        is_first = not self._has_message
        if is_first:
            self._has_message = True
            await self._open(
                OpenMessage(self._run.generation, self.message_id, self.message_step_id)
            )
        delta = {"message_id": self.message_id, "text": text, "is_first": is_first}
        return self._event(EventType.MESSAGE_DELTA, delta)

    async def _begin_calls(self) -> None:
        if not self._has_calls:
            self._has_calls = True
            await self._open(OpenCalls(self._run.generation, self.calls_step_id))

    async def _open(self, command: OpenMessage | OpenCalls) -> None:
        """What is said from now on has the time of this, and what has passed since."""
        run = (await change_run(self._store, self._ref, command)).run
        assert run is not None  # noqa: S101 - refused without one
        self._opened_ms, self._opened_at = run.updated_ms, self._clock()

    def _call_events(self, calls: dict[int, Json]) -> Iterator[Event]:
        """In the order of the calls: readers need every call to begin before the next one does."""
        for index, piece in sorted(calls.items()):
            if index > self._told_calls:
                self._batch.calls[index] = piece
                continue
            self._told_calls = max(self._told_calls, index + 1)
            delta = {"step_id": self.calls_step_id, "index": index, **piece}
            yield self._event(EventType.STEP_DELTA, delta)

    def _event(self, kind: EventType, delta: Json) -> Event:
        elapsed_ms = round((self._clock() - self._opened_at) * 1000)
        return Event(
            type=kind,
            at_ms=self._opened_ms + elapsed_ms,
            status=RunStatus.IN_PROGRESS,
            public_status=RunStatus.IN_PROGRESS,
            delta=delta,
        )
