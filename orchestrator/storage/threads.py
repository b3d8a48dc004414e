"""Threads and their messages."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from orchestrator.decisions import Decision
from orchestrator.errors import NotFound
from orchestrator.receipts import Remember
from orchestrator.records import Guarded, Message, RunSpec, Thread
from orchestrator.storage.access import Guard, until_fresh
from orchestrator.storage.aggregates import Aggregates
from orchestrator.storage.changes import entry_write, receipt_guards, receipt_writes
from orchestrator.storage.keys import Partition, readers_of
from orchestrator.storage.paging import read_page
from orchestrator.storage.pipelining import Command
from orchestrator.store import Page, PageQuery

RUNS_AT_ONCE: Final = 500
"""Runs that one step of a deletion removes: about 2 ms of the server's time."""


class Threads(Aggregates):
    """Keys: ``threads`` of every partition, and all keys of a thread.

    Whatever changes a message counts as a change of its thread: it writes under the thread's
    revision and raises it.
    """

    async def list_threads(self, query: PageQuery) -> Page[Thread]:
        """Threads by creation. Two round trips, three with a cursor."""
        parts = [partition.threads(self.reader) for partition in self.keys.partitions]
        page = await read_page(
            self.pipeliner,
            parts,
            query,
            "thread",
            graves=lambda cursor: [("GET", self.keys.home(cursor).deleted(cursor, self.reader))],
        )
        documents = await self.pipeliner.group(
            ("HGET", self.keys.partitions[member.part].thread(member.id), "doc")
            for member in page.items
        )
        threads = (Thread.model_validate_json(d) for d in documents if d is not None)
        return Page(tuple(threads), page.has_more)

    async def modify_thread(
        self, thread_id: str, changes: Mapping[str, object], remember: Remember | None = None
    ) -> Thread:
        """Replace ``metadata`` and/or ``tool_resources``. Two round trips."""

        async def attempt() -> Thread:
            loaded = await self.load(thread_id)
            aggregate = loaded.aggregate.but(thread=loaded.aggregate.thread.but(**changes))
            await self.commit(loaded, Decision(aggregate, remember=remember))
            return aggregate.thread

        home = self.keys.home(thread_id)
        return await until_fresh(attempt, but_for=receipt_guards(home, remember))

    async def clear_thread(self, thread_id: str) -> None:
        """Remove the runs of a deleted thread, some at a time. The timer that asks for it stays.

        Nobody finds them any more, and no commit can bring one back: its thread is guarded. Entries
        on the ready stream and the outbox stay; whoever takes one finds no run, or stops a call. A
        thread that is imported anew under the id keeps its runs: they are read before it is.
        """
        home = self.keys.home(thread_id)
        index, thread = home.thread_runs(thread_id), home.thread(thread_id)
        while True:
            runs, is_there = await self.pipeliner.group(
                [("ZRANGE", index, 0, RUNS_AT_ONCE - 1), ("EXISTS", thread)]
            )
            if is_there or not runs:
                return
            run_ids = [run.decode() for run in runs]
            specs = await self.pipeliner.group(("HGET", home.run(run), "spec") for run in run_ids)
            tenants = {RunSpec.model_validate_json(spec).tenant for spec in specs if spec}
            await self.pipeliner.group(_removal_of_runs(home, thread_id, run_ids, tenants))

    async def list_messages(
        self, thread_id: str, query: PageQuery, run_id: str | None = None
    ) -> Page[Message]:
        """Messages in the order of the transcript. Two round trips, three with a cursor."""
        home = self.keys.home(thread_id)
        index = home.messages(thread_id) if run_id is None else home.run_messages(run_id)
        graves = home.deleted_messages(thread_id)
        page = await read_page(
            self.pipeliner,
            [index],
            query,
            "message",
            graves=lambda cursor: [("ZSCORE", graves, cursor)],
        )
        if not page.items:
            return Page((), page.has_more)
        seqs = [member.score for member in page.items]
        documents = await self.pipeliner.call("HMGET", home.entries(thread_id), *seqs)
        messages = (Message.model_validate_json(d) for d in documents if d is not None)
        return Page(tuple(messages), page.has_more)

    async def get_message(self, thread_id: str, message_id: str) -> Message:
        """One message. Two round trips."""
        await self.look(thread_id)
        home = self.keys.home(thread_id)
        has_thread, seq = await self.pipeliner.group(
            [
                ("EXISTS", home.thread(thread_id)),
                ("ZSCORE", home.messages(thread_id), message_id),
            ]
        )
        if not has_thread:
            raise NotFound("thread", thread_id)
        if seq is not None:
            document = await self.pipeliner.call("HGET", home.entries(thread_id), int(seq))
            if document is not None:
                return Message.model_validate_json(document)
        raise NotFound("message", message_id)

    async def modify_message(
        self,
        thread_id: str,
        message_id: str,
        changes: Mapping[str, object],
        remember: Remember | None = None,
    ) -> Message:
        """Replace ``metadata``. Four round trips."""
        home = self.keys.home(thread_id)

        async def attempt() -> Message:
            revision = (await self.load(thread_id)).thread_revision
            message = (await self.get_message(thread_id, message_id)).but(**changes)
            write = entry_write(home, thread_id, message)
            await self._write_thread(home, thread_id, revision, [write], remember)
            return message

        return await until_fresh(attempt, but_for=receipt_guards(home, remember))

    async def delete_message(
        self, thread_id: str, message_id: str, remember: Remember | None = None
    ) -> None:
        """Take the message out of the transcript. Four round trips; five where guardrails look."""
        home = self.keys.home(thread_id)

        async def attempt() -> None:
            loaded = await self.load(thread_id)
            message = await self.get_message(thread_id, message_id)
            writes = list(_removal_of_message(home, message))
            if loaded.aggregate.thread.guarded_seq:
                entries = await self.read_entries(thread_id)
                made = [
                    e.seq for e in entries if isinstance(e, Guarded) and e.of_seq == message.seq
                ]
                writes += [("HDEL", home.entries(thread_id), seq) for seq in made]
            await self._write_thread(home, thread_id, loaded.thread_revision, writes, remember)

        await until_fresh(attempt, but_for=receipt_guards(home, remember))

    async def _write_thread(
        self,
        home: Partition,
        thread_id: str,
        revision: int,
        writes: Iterable[Command],
        remember: Remember | None,
    ) -> None:
        key = home.thread(thread_id)
        guards = [*receipt_guards(home, remember), Guard(key, revision)]
        raise_revision: Command = ("HSET", key, "rev", revision + 1)
        await self.write(guards, [*writes, *receipt_writes(home, remember), raise_revision])


def _removal_of_message(home: Partition, message: Message) -> Iterator[Command]:
    yield ("HDEL", home.entries(message.thread_id), message.seq)
    yield ("ZREM", home.messages(message.thread_id), message.id)
    yield ("ZADD", home.deleted_messages(message.thread_id), message.seq, message.id)
    if message.run_id is not None:
        yield ("ZREM", home.run_messages(message.run_id), message.id)


def _removal_of_runs(
    home: Partition, thread_id: str, run_ids: list[str], tenants: Iterable[str]
) -> Iterator[Command]:
    for run_id in run_ids:
        yield ("UNLINK", home.run(run_id))
        yield ("UNLINK", home.run_log(run_id))
        yield ("UNLINK", home.run_partial(run_id))
        yield ("UNLINK", home.run_outputs(run_id))
        yield ("UNLINK", home.run_turns(run_id))
        yield ("UNLINK", home.run_messages(run_id))
    for reader in {reader for tenant in tenants for reader in readers_of(tenant)}:
        yield ("ZREM", home.runs(reader), *run_ids)
    yield ("ZREM", home.thread_runs(thread_id), *run_ids)
