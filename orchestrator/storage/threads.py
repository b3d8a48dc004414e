"""Threads and their messages."""

from collections.abc import Iterator, Mapping
from typing import Final

from orchestrator.decisions import Decision
from orchestrator.errors import NotFound
from orchestrator.records import Message, Thread
from orchestrator.storage.access import Guard, until_fresh
from orchestrator.storage.aggregates import Aggregates
from orchestrator.storage.changes import entry_writes
from orchestrator.storage.keys import Partition
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
        parts = [partition.threads for partition in self.keys.partitions]
        page = await read_page(self.pipeliner, parts, query, "thread")
        documents = await self.pipeliner.group(
            ("HGET", self.keys.partitions[member.part].thread(member.id), "doc")
            for member in page.items
        )
        threads = (Thread.model_validate_json(d) for d in documents if d is not None)
        return Page(tuple(threads), page.has_more)

    async def modify_thread(self, thread_id: str, changes: Mapping[str, object]) -> Thread:
        """Replace ``metadata`` and/or ``tool_resources``. Two round trips."""

        async def attempt() -> Thread:
            loaded = await self.load(thread_id)
            aggregate = loaded.aggregate.but(thread=loaded.aggregate.thread.but(**changes))
            await self.commit(loaded, Decision(aggregate))
            return aggregate.thread

        return await until_fresh(attempt)

    async def delete_thread(self, thread_id: str) -> None:
        """Remove the thread and everything of it, some runs at a time and the thread last.

        After a crash in between, the thread is still there with fewer runs: delete it again. Its
        entries on the ready stream and the outbox stay; whoever takes one finds no run.
        """
        home = self.keys.home(thread_id)
        await self.load(thread_id)
        try:
            while await until_fresh(lambda: self._delete_some(home, thread_id)):
                continue
        except NotFound:
            return  # by somebody else, or by ourselves if the answer was lost

    async def list_messages(
        self, thread_id: str, query: PageQuery, run_id: str | None = None
    ) -> Page[Message]:
        """Messages in the order of the transcript. Two round trips, three with a cursor."""
        home = self.keys.home(thread_id)
        index = home.messages(thread_id) if run_id is None else home.run_messages(run_id)
        page = await read_page(self.pipeliner, [index], query, "message")
        if not page.items:
            return Page((), page.has_more)
        seqs = [member.score for member in page.items]
        documents = await self.pipeliner.call("HMGET", home.entries(thread_id), *seqs)
        messages = (Message.model_validate_json(d) for d in documents if d is not None)
        return Page(tuple(messages), page.has_more)

    async def get_message(self, thread_id: str, message_id: str) -> Message:
        """One message. Two round trips."""
        home = self.keys.home(thread_id)
        seq = await self.pipeliner.call("ZSCORE", home.messages(thread_id), message_id)
        if seq is not None:
            document = await self.pipeliner.call("HGET", home.entries(thread_id), int(seq))
            if document is not None:
                return Message.model_validate_json(document)
        raise NotFound("message", message_id)

    async def modify_message(
        self, thread_id: str, message_id: str, changes: Mapping[str, object]
    ) -> Message:
        """Replace ``metadata``. Four round trips."""
        home = self.keys.home(thread_id)

        async def attempt() -> Message:
            revision = (await self.load(thread_id)).thread_revision
            message = (await self.get_message(thread_id, message_id)).but(**changes)
            writes = entry_writes(home, thread_id, message)
            await self._write_thread(home, thread_id, revision, writes)
            return message

        return await until_fresh(attempt)

    async def delete_message(self, thread_id: str, message_id: str) -> None:
        """Take the message out of the transcript. Four round trips."""
        home = self.keys.home(thread_id)

        async def attempt() -> None:
            revision = (await self.load(thread_id)).thread_revision
            message = await self.get_message(thread_id, message_id)
            writes = _removal_of_message(home, message)
            await self._write_thread(home, thread_id, revision, writes)

        await until_fresh(attempt)

    async def _write_thread(
        self, home: Partition, thread_id: str, revision: int, writes: Iterator[Command]
    ) -> None:
        key = home.thread(thread_id)
        raise_revision: Command = ("HSET", key, "rev", revision + 1)
        await self.write([Guard(key, revision)], [*writes, raise_revision])

    async def _delete_some(self, home: Partition, thread_id: str) -> bool:
        """Remove some runs, or with the last of them the thread; true if some are left."""
        revision = (await self.load(thread_id)).thread_revision
        runs = await self.pipeliner.call("ZRANGE", home.thread_runs(thread_id), 0, RUNS_AT_ONCE)
        has_more = len(runs) > RUNS_AT_ONCE
        removals = _removal_of_runs(home, thread_id, [run.decode() for run in runs[:RUNS_AT_ONCE]])
        if has_more:
            await self._write_thread(home, thread_id, revision, removals)
        else:
            timers = await self._timers_of(home, thread_id)
            writes = [*removals, *_removal_of_thread(home, thread_id, timers)]
            await self.write([Guard(home.thread(thread_id), revision)], writes)
        return has_more

    async def _timers_of(self, home: Partition, thread_id: str) -> list[bytes]:
        """Timers that are still set for the thread: one walk over the partition's timers."""
        pattern = f"*|{thread_id}|*"
        found: list[bytes] = []
        cursor: bytes | int = 0
        while True:
            cursor, members = await self.pipeliner.call(
                "ZSCAN", home.timers, cursor, "MATCH", pattern, "COUNT", 1000
            )
            found += members[::2]
            if int(cursor) == 0:
                return found


def _removal_of_message(home: Partition, message: Message) -> Iterator[Command]:
    yield ("HDEL", home.entries(message.thread_id), message.seq)
    yield ("ZREM", home.messages(message.thread_id), message.id)
    if message.run_id is not None:
        yield ("ZREM", home.run_messages(message.run_id), message.id)


def _removal_of_runs(home: Partition, thread_id: str, run_ids: list[str]) -> Iterator[Command]:
    for run_id in run_ids:
        yield ("UNLINK", home.run(run_id))
        yield ("UNLINK", home.run_log(run_id))
        yield ("UNLINK", home.run_messages(run_id))
    if run_ids:
        yield ("ZREM", home.runs, *run_ids)
        yield ("ZREM", home.thread_runs(thread_id), *run_ids)


def _removal_of_thread(home: Partition, thread_id: str, timers: list[bytes]) -> Iterator[Command]:
    for timer in timers:
        yield ("ZREM", home.timers, timer)
    yield ("UNLINK", home.entries(thread_id))
    yield ("UNLINK", home.messages(thread_id))
    yield ("ZREM", home.threads, thread_id)
    yield ("UNLINK", home.thread(thread_id))
