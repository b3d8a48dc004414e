"""Timers: a sorted set per partition, the one mechanism that recovers what was left behind."""

from collections.abc import Sequence

from orchestrator.decisions import TimerKey, TimerKind
from orchestrator.storage.keys import Partition
from orchestrator.storage.rounds import Rounds
from orchestrator.storage.scripts import DROP_DUE, RENEW, TAKE_DUE
from orchestrator.store import DueTimer, RunRef


class Timers(Rounds):
    """Keys: ``timers`` of every partition."""

    async def take_due(self, limit: int, hold_ms: int) -> tuple[DueTimer, ...]:
        """Due timers, postponed by ``hold_ms``. ``at_ms`` is the time before that.

        One round trip for a limit of at least the number of partitions, unless one of them holds
        more than its share.
        """

        async def ask(partitions: Sequence[Partition], share: int) -> list[list[DueTimer]]:
            replies = await self.pipeliner.group(
                TAKE_DUE.call([partition.timers], [share, hold_ms]) for partition in partitions
            )
            return [read_timers(due, int(until)) for until, due in replies]

        return await self.take(limit, ask)

    async def drop_timer(self, timer: DueTimer) -> None:
        """Remove a timer that is as it was taken. One round trip, O(log n)."""
        timers = self.keys.home(timer.ref.thread_id).timers
        member = timer_member(timer.ref, timer.key)
        await self.pipeliner.call(*DROP_DUE.call([timers], [member, timer.until_ms]))

    async def renew(
        self, ref: RunRef, key: TimerKey, lease_ms: int, cap_ms: int | None = None
    ) -> bool:
        """Move a timer that is set; ``cap_ms`` is a time of the store's clock. One round trip."""
        timers = self.keys.home(ref.thread_id).timers
        cap = "" if cap_ms is None else cap_ms
        call = RENEW.call([timers], [timer_member(ref, key), lease_ms, cap])
        return bool(await self.pipeliner.call(*call))


def timer_member(ref: RunRef, key: TimerKey) -> str:
    """A timer's name in the sorted set, such as ``turn_lease|thread_1|run_1|3|``.

    No id contains the separator: ids are letters, digits and ``_``.
    """
    return f"{key.kind}|{ref.thread_id}|{ref.run_id}|{key.generation}|{key.call_id or ''}"


def read_timers(reply: Sequence[bytes], until_ms: int | None = None) -> list[DueTimer]:
    """The timers of a reply that has members and their times in turn, and when they are due again:
    then as well, if they were not postponed.
    """
    pairs = zip(reply[::2], reply[1::2], strict=True)
    return [_read_timer(member.decode(), int(at_ms), until_ms) for member, at_ms in pairs]


def _read_timer(member: str, at_ms: int, until_ms: int | None) -> DueTimer:
    kind, thread_id, run_id, generation, call_id = member.split("|")
    key = TimerKey(TimerKind(kind), int(generation), call_id or None)
    return DueTimer(RunRef(thread_id, run_id), key, at_ms, until_ms or at_ms)
