"""Sums that grow with the commits they belong to: what was used, and how many runs are under way.

Each partition has its own; they are added up when they are read. A commit that is repeated under
its nonce counts once, like all else in it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from orchestrator.days import day_of
from orchestrator.decisions import CountUsage
from orchestrator.projection import public_status
from orchestrator.records import Aggregate, Tally
from orchestrator.states import RunStatus
from orchestrator.storage.access import Access, read_time
from orchestrator.storage.keys import Partition
from orchestrator.storage.pipelining import Command
from orchestrator.store import Census, UsageLine

KEPT_FOR_S: Final = 400 * 86_400
"""The sums of a day: a year, and a month to look at it."""

OVERDUE_AFTER_MS: Final = 2_000
"""Engines look for due timers every 0.2 s; one that is this late is not being looked for."""


class UsageSums(Access):
    """Keys: ``usage``, ``usage-day``, ``active`` and, for the census, ``timers``."""

    async def read_usage(self, days: Sequence[str] | None = None) -> tuple[UsageLine, ...]:
        """The sums by day, tenant and model. One round trip, a command per day and partition."""
        places = [
            (day, partition.usage_day(day) if day else partition.usage)
            for day in ([""] if days is None else days)
            for partition in self.keys.partitions
        ]
        sums: defaultdict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
        replies = await self.pipeliner.group(("HGETALL", key) for _, key in places)
        for (day, _), reply in zip(places, replies, strict=True):
            for field, amount in _pairs(reply):
                tenant, rest = field.split("|", 1)
                if not self.sees(tenant):
                    continue
                model, name = rest.rsplit("|", 1)  # whose own name may hold anything
                sums[day, tenant, model][name] += amount
        return tuple(
            UsageLine(day or None, tenant, model, Tally.model_validate(amounts))
            for (day, tenant, model), amounts in sorted(sums.items())
        )

    async def census(self) -> Census:
        """How many runs are under way, and how many timers are late. Two round trips."""
        time, *replies = await self.pipeliner.group(
            [("TIME",), *(("HGETALL", partition.active) for partition in self.keys.partitions)]
        )
        late_ms = read_time(time) - OVERDUE_AFTER_MS
        overdue = await self.pipeliner.group(
            ("ZCOUNT", partition.timers, "-inf", late_ms) for partition in self.keys.partitions
        )
        active: Counter[str] = Counter()
        for reply in replies:
            active.update(dict(_pairs(reply)))
        return Census({RunStatus(status): n for status, n in active.items() if n > 0}, sum(overdue))


def usage_writes(home: Partition, count: CountUsage) -> Iterator[Command]:
    """Add to the sums of all time, and to those of the day."""
    by_day = home.usage_day(day_of(count.at_ms).isoformat())
    for name, amount in count.tally.model_dump(exclude_defaults=True).items():
        field = f"{count.tenant}|{count.model}|{name}"
        yield ("HINCRBY", home.usage, field, amount)
        yield ("HINCRBY", by_day, field, amount)
    yield ("EXPIRE", by_day, KEPT_FOR_S)


def active_writes(home: Partition, old: Aggregate, new: Aggregate) -> Iterator[Command]:
    """Count the run under the status that clients see now; one that has ended is not counted."""
    before, after = _active(old), _active(new)
    if before is not after:
        if before:
            yield ("HINCRBY", home.active, before, -1)
        if after:
            yield ("HINCRBY", home.active, after, 1)


def _active(aggregate: Aggregate) -> RunStatus | None:
    run = aggregate.run
    return None if run is None or run.is_final else public_status(run, aggregate.calls)


def _pairs(reply: Sequence[bytes]) -> Iterator[tuple[str, int]]:
    for name, amount in zip(reply[::2], reply[1::2], strict=True):
        yield name.decode(), int(amount)
