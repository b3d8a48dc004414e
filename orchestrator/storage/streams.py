"""The ready stream and the outbox of every partition: work that commits have written down.

Each stream has one consumer group with one consumer for all engines. Whose an entry is does not
matter, only how long ago it was taken; and a consumer for each engine would stay behind whenever
one dies.
"""

from collections.abc import Callable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final, TypeVar

from pydantic import TypeAdapter
from redis.exceptions import ResponseError

from orchestrator.decisions import SendCall, StopCall
from orchestrator.storage.keys import Partition
from orchestrator.storage.pipelining import Argument, Command
from orchestrator.storage.rounds import Rounds
from orchestrator.storage.scripts import TAKE_ENTRIES
from orchestrator.store import DueTurn, Parcel, RunRef, Ticket

T = TypeVar("T")

Fields = dict[bytes, bytes]

GROUP: Final = "engines"
CONSUMER: Final = "engine"

_SEND: Final = TypeAdapter(SendCall)
_STOP: Final = TypeAdapter(StopCall)


class Streams(Rounds):
    """Keys: ``ready`` and ``outbox`` of every partition."""

    async def create_groups(self) -> None:
        """Make the streams and their groups, where they are not there yet. One round trip."""
        try:
            await self.pipeliner.group(
                ("XGROUP", "CREATE", stream, GROUP, "0", "MKSTREAM")
                for partition in self.keys.partitions
                for stream in (partition.ready, partition.outbox)
            )
        except ResponseError as refusal:
            if "BUSYGROUP" not in str(refusal):
                raise

    async def take_turns(self, limit: int, idle_ms: int) -> tuple[DueTurn, ...]:
        """Turns that are due. One round trip for a limit of at least the number of partitions."""
        return await self._take(limit, idle_ms, attrgetter("ready"), _read_turn)

    async def take_parcels(self, limit: int, idle_ms: int) -> tuple[Parcel, ...]:
        """What is on the outboxes, in the same manner."""
        return await self._take(limit, idle_ms, attrgetter("outbox"), _read_parcel)

    async def finish_turns(self, tickets: Sequence[Ticket]) -> None:
        """Remove entries of the ready streams. One round trip; a repetition is harmless."""
        await self._finish(tickets, attrgetter("ready"))

    async def finish_parcels(self, tickets: Sequence[Ticket]) -> None:
        """Remove entries of the outboxes, in the same manner."""
        await self._finish(tickets, attrgetter("outbox"))

    async def _take(
        self,
        limit: int,
        idle_ms: int,
        stream: Callable[[Partition], str],
        read: Callable[[Ticket, Fields], T],
    ) -> tuple[T, ...]:
        async def ask(partitions: Sequence[Partition], share: int) -> list[list[T]]:
            calls = [
                TAKE_ENTRIES.call([stream(partition)], [GROUP, CONSUMER, share, idle_ms])
                for partition in partitions
            ]
            replies = await self._with_groups(calls)
            return [
                [
                    read(Ticket(partition.number, entry_id.decode()), _read_fields(fields))
                    for entry_id, fields in entries
                ]
                for partition, entries in zip(partitions, replies, strict=True)
            ]

        return await self.take(limit, ask)

    async def _with_groups(self, calls: Sequence[Command]) -> list[list[tuple[bytes, list[bytes]]]]:
        try:
            return await self.pipeliner.group(calls)
        except ResponseError as refusal:
            if "NOGROUP" not in str(refusal):
                raise
        await self.create_groups()
        return await self.pipeliner.group(calls)

    async def _finish(self, tickets: Sequence[Ticket], stream: Callable[[Partition], str]) -> None:
        by_partition = attrgetter("partition")
        commands: list[Command] = []
        for number, group in groupby(sorted(tickets, key=by_partition), by_partition):
            key, ids = stream(self.keys.partitions[number]), [ticket.entry_id for ticket in group]
            commands += [("XACK", key, GROUP, *ids), ("XDEL", key, *ids)]
        if commands:
            await self.pipeliner.group(commands)


def turn_write(partition: Partition, ref: RunRef) -> Command:
    """The write that makes a turn due."""
    return ("XADD", partition.ready, "*", "thread", ref.thread_id, "run", ref.run_id)


def parcel_write(partition: Partition, ref: RunRef, order: SendCall | StopCall) -> Command:
    """The write that puts a parcel on the outbox."""
    body: tuple[Argument, Argument] = (
        ("send", _SEND.dump_json(order))
        if isinstance(order, SendCall)
        else ("stop", _STOP.dump_json(order))
    )
    return ("XADD", partition.outbox, "*", "thread", ref.thread_id, "run", ref.run_id, *body)


def _read_fields(flat: Sequence[bytes]) -> Fields:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _read_ref(fields: Fields) -> RunRef:
    return RunRef(fields[b"thread"].decode(), fields[b"run"].decode())


def _read_turn(ticket: Ticket, fields: Fields) -> DueTurn:
    return DueTurn(_read_ref(fields), ticket)


def _read_parcel(ticket: Ticket, fields: Fields) -> Parcel:
    order: SendCall | StopCall = (
        _SEND.validate_json(fields[b"send"])
        if b"send" in fields
        else _STOP.validate_json(fields[b"stop"])
    )
    return Parcel(_read_ref(fields), order, ticket)
