"""Loading and committing runs with their threads, and reading them."""

from collections.abc import Mapping, Sequence
from typing import Final

from pydantic import TypeAdapter

from orchestrator.decisions import Decision, Event, EventType, TimerKey, TimerKind
from orchestrator.errors import NotFound
from orchestrator.records import Aggregate, Entry, Output, Run, RunSpec, Step, Thread, ToolCall
from orchestrator.storage.access import Access, read_time
from orchestrator.storage.changes import as_json, guards_of, writes_of
from orchestrator.storage.doorbell import ring_payload
from orchestrator.storage.keys import Partition
from orchestrator.storage.paging import Member, read_page
from orchestrator.storage.scripts import KEEP, SAY
from orchestrator.storage.timers import timer_member
from orchestrator.store import Loaded, Page, PageQuery, RunRef, RunView
from orchestrator.turn_record import TurnRecord

ENTRY: TypeAdapter[Entry] = TypeAdapter(Entry)


_DELTAS: Final = tuple(
    f'{{"type":"{kind}"'.encode() for kind in EventType if kind.endswith(".delta")
)
"""How the pieces of what the model says begin in the log."""


class Aggregates(Access):
    """Keys: ``thread``, ``run``, ``run-log``, ``entries`` and whatever a commit touches."""

    async def load(self, thread_id: str, run_id: str | None = None) -> Loaded:
        """The thread, and the run if one is named, with the clock. One round trip."""
        await self.look(thread_id, run_id)
        home = self.keys.home(thread_id)
        reads = [("TIME",), ("HMGET", home.thread(thread_id), "rev", "doc")]
        if run_id is not None:
            reads += [("HGETALL", home.run(run_id)), ("GET", home.run_partial(run_id))]
        time, (revision, document), *run_replies = await self.pipeliner.group(reads)
        if document is None:
            raise NotFound("thread", thread_id)
        thread = Thread.model_validate_json(document)
        if run_id is None:
            return Loaded(Aggregate(thread=thread), read_time(time), int(revision))
        fields, partial = _read_fields(run_replies[0]), run_replies[1] or b""
        view = _read_view(thread_id, run_id, fields, read_time(time))
        aggregate = Aggregate(
            thread=thread,
            run=view.run,
            spec=view.spec,
            steps=view.steps,
            calls=view.calls,
            partial=partial.decode(),
        )
        return Loaded(aggregate, view.now_ms, int(revision), int(fields[b"rev"]))

    async def load_active(self, thread_id: str) -> Loaded:
        """As ``load``, with the thread's active run if it has one (then two round trips)."""
        loaded = await self.load(thread_id)
        while (active := loaded.aggregate.thread.active_run_id) is not None:
            loaded = await self.load(thread_id, active)
            if loaded.aggregate.thread.active_run_id == active:
                return loaded
        return Loaded(
            Aggregate(thread=loaded.aggregate.thread), loaded.now_ms, loaded.thread_revision
        )

    async def fresh(self, thread: Thread) -> Loaded:
        """A thread that is yet to be written by a commit. One round trip, for the clock."""
        now_ms = await self.now_ms()
        thread = thread.but(
            created_ms=thread.created_ms or now_ms, tenant=self.reader or thread.tenant
        )
        return Loaded(Aggregate(thread=thread), now_ms, thread_revision=0)

    async def commit(self, loaded: Loaded, decision: Decision) -> None:
        """Write everything of the decision, or nothing. One round trip."""
        home = self.keys.home(decision.aggregate.thread.id)
        guards = guards_of(home, loaded, decision)
        await self.write(guards, writes_of(home, loaded, decision, self.retention_ms))

    async def say(self, ref: RunRef, generation: int, events: Sequence[Event], text: str) -> bool:
        """Log what the model says while it says it. One round trip, one script."""
        home = self.keys.home(ref.thread_id)
        keys = [
            home.timers,
            home.run(ref.run_id),
            home.run_log(ref.run_id),
            home.run_partial(ref.run_id),
            home.bell,
        ]
        lines = (as_json(event, exclude_none=True) for event in events)
        bell = ring_payload(ref, events[-1].status)
        call = SAY.call(keys, [_lease(ref, generation), text, bell, *lines])
        return bool(await self.pipeliner.call(*call))

    async def keep_turn(self, ref: RunRef, record: TurnRecord) -> bool:
        """Write the record of a turn that is being played. One round trip, one script."""
        home = self.keys.home(ref.thread_id)
        lease = _lease(ref, record.generation)
        keys = [home.timers, home.run_turns(ref.run_id)]
        call = KEEP.call(keys, [lease, record.turn, as_json(record)])
        return bool(await self.pipeliner.call(*call))

    async def view(self, ref: RunRef) -> RunView:
        """A run for readers. One round trip."""
        await self.look(ref.thread_id, ref.run_id)
        home = self.keys.home(ref.thread_id)
        time, has_thread, fields = await self.pipeliner.group(
            [("TIME",), ("EXISTS", home.thread(ref.thread_id)), ("HGETALL", home.run(ref.run_id))]
        )
        if not has_thread:
            raise NotFound("thread", ref.thread_id)
        return _read_view(ref.thread_id, ref.run_id, _read_fields(fields), read_time(time))

    async def list_runs(self, thread_id: str, query: PageQuery) -> Page[RunView]:
        """Runs of a thread by creation. Two round trips, three with a cursor."""
        home = self.keys.home(thread_id)
        page = await read_page(self.pipeliner, [home.thread_runs(thread_id)], query, "run")
        return Page(await self._views([home], page.items), page.has_more)

    async def recent_runs(self, query: PageQuery) -> Page[RunView]:
        """Runs of all threads by creation. Two round trips, three with a cursor."""
        parts = [partition.runs(self.reader) for partition in self.keys.partitions]
        page = await read_page(self.pipeliner, parts, query, "run")
        return Page(await self._views(self.keys.partitions, page.items), page.has_more)

    async def find_run(self, run_id: str) -> RunRef:
        """The thread of a run. Two round trips, the first with a command for each partition."""
        homes = self.keys.partitions
        scores = await self.pipeliner.group(
            ("ZSCORE", home.runs(self.reader), run_id) for home in homes
        )
        for home, score in zip(homes, scores, strict=True):
            if score is not None:
                run = await self.pipeliner.call("HGET", home.run(run_id), "run")
                if run is not None:
                    return RunRef(Run.model_validate_json(run).thread_id, run_id)
        raise NotFound("run", run_id)

    async def read_entries(self, thread_id: str) -> tuple[Entry, ...]:
        """The whole transcript, in order. One round trip, O(entries)."""
        documents = await self.pipeliner.call("HVALS", self.keys.home(thread_id).entries(thread_id))
        entries = (ENTRY.validate_json(document) for document in documents)
        return tuple(sorted(entries, key=lambda entry: entry.seq))

    async def read_outputs(self, thread_id: str, seqs: Sequence[int]) -> Mapping[str, str]:
        """The texts of these output entries, by call id. One round trip."""
        if not seqs:
            return {}
        key = self.keys.home(thread_id).entries(thread_id)
        documents = await self.pipeliner.call("HMGET", key, *seqs)
        entries = (ENTRY.validate_json(document) for document in documents if document is not None)
        return {entry.call_id: entry.text for entry in entries if isinstance(entry, Output)}

    async def read_full_output(self, ref: RunRef, call_id: str) -> str | None:
        """The whole of an output that was cut. One round trip."""
        key = self.keys.home(ref.thread_id).run_outputs(ref.run_id)
        text = await self.pipeliner.call("HGET", key, call_id)
        return None if text is None else text.decode()

    async def read_turns(self, ref: RunRef) -> tuple[TurnRecord, ...]:
        """The records of the run's turns, in order. One round trip, O(turns)."""
        key = self.keys.home(ref.thread_id).run_turns(ref.run_id)
        documents = await self.pipeliner.call("HVALS", key)
        records = (TurnRecord.model_validate_json(document) for document in documents)
        return tuple(sorted(records, key=lambda record: record.turn))

    async def read_events(
        self, ref: RunRef, after: str = "0", limit: int | None = None, *, has_deltas: bool = True
    ) -> tuple[tuple[str, Event], ...]:
        """The run's log after an event id, oldest first, with ids. One round trip."""
        key = self.keys.home(ref.thread_id).run_log(ref.run_id)
        count = () if limit is None else ("COUNT", limit)
        lines = await self.pipeliner.call("XRANGE", key, f"({after}", "+", *count)
        return tuple(
            (event_id.decode(), Event.model_validate_json(document))
            for event_id, (_, document) in lines
            if has_deltas or not document.startswith(_DELTAS)
        )

    async def look(self, thread_id: str, run_id: str | None = None) -> None:
        """Raises ``NotFound`` for what a tenant does not see, from the lists alone: however large a
        document is, another's takes as long as nobody's. One round trip; none for the operator.
        """
        if self.reader is None:
            return
        home = self.keys.home(thread_id)
        thread, run = await self.pipeliner.group(
            [
                ("ZSCORE", home.threads(self.reader), thread_id),
                ("ZSCORE", home.runs(self.reader), run_id or ""),
            ]
        )
        if thread is None:
            raise NotFound("thread", thread_id)
        if run_id is not None and run is None:
            raise NotFound("run", run_id)

    async def _views(
        self, homes: Sequence[Partition], members: Sequence[Member]
    ) -> tuple[RunView, ...]:
        time, *replies = await self.pipeliner.group(
            [("TIME",), *(("HGETALL", homes[member.part].run(member.id)) for member in members)]
        )
        return tuple(_read_run(_read_fields(reply), read_time(time)) for reply in replies if reply)


def _lease(ref: RunRef, generation: int) -> str:
    return timer_member(ref, TimerKey(TimerKind.TURN_LEASE, generation))


def _read_fields(reply: Sequence[bytes]) -> dict[bytes, bytes]:
    return dict(zip(reply[::2], reply[1::2], strict=True))


def _read_view(thread_id: str, run_id: str, fields: Mapping[bytes, bytes], now_ms: int) -> RunView:
    """The run, if it is there and of this thread."""
    view = _read_run(fields, now_ms) if fields else None
    if view is None or view.run.thread_id != thread_id:
        raise NotFound("run", run_id)
    return view


def _read_run(fields: Mapping[bytes, bytes], now_ms: int) -> RunView:
    steps = [Step.model_validate_json(d) for f, d in fields.items() if f.startswith(b"step:")]
    calls = [ToolCall.model_validate_json(d) for f, d in fields.items() if f.startswith(b"call:")]
    place = {step.id: step.index for step in steps}
    return RunView(
        run=Run.model_validate_json(fields[b"run"]),
        spec=RunSpec.model_validate_json(fields[b"spec"]),
        steps=tuple(sorted(steps, key=lambda step: step.index)),
        calls=tuple(sorted(calls, key=lambda call: (place[call.step_id], call.index))),
        now_ms=now_ms,
    )
