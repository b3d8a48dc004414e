"""Lists in a strict order: sorted sets by (score, id), read forwards or backwards from a cursor.

The order has no ties, so a walk shows every member once, whatever is added meanwhile. A list may be
spread over one sorted set per partition; the parts are merged here. A deleted member may still be a
cursor: its place is remembered for a while, see ``Graves``.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from orchestrator.errors import InvalidValue, Kind
from orchestrator.storage.pipelining import Command, Pipeliner
from orchestrator.store import Page, PageQuery


@dataclass(frozen=True, slots=True, order=True)
class Member:
    """A member of a list, and which of the sorted sets it is in."""

    score: int
    id: str
    part: int = field(compare=False)


Graves = Callable[[str], Sequence[Command]]
"""The commands that read the score of a deleted member by its id, wherever it may be."""


async def read_page(
    pipeliner: Pipeliner,
    parts: Sequence[str],
    query: PageQuery,
    kind: Kind,
    graves: Graves | None = None,
) -> Page[Member]:
    """The members that the query asks for. One round trip, two with a cursor.

    ``before`` alone gives the page that ends there; with ``after`` it is where the walk stops.
    Raises ``InvalidValue`` for a cursor that never was in the list. O(log n + limit) for each part.
    """
    after = await _find(pipeliner, parts, "after", query.after, kind, graves)
    before = await _find(pipeliner, parts, "before", query.before, kind, graves)
    is_backwards = after is None and before is not None
    start, stop = (before, None) if is_backwards else (after, before)
    is_descending = (query.order == "desc") is not is_backwards
    found = await _walk(pipeliner, parts, start, is_descending, query.limit + 1)
    if stop is not None:
        found = [member for member in found if _is_past(stop, member, is_descending)]
    items = found[: query.limit]
    return Page(
        items=tuple(reversed(items) if is_backwards else items),
        has_more=len(found) > query.limit,
    )


async def _find(  # noqa: PLR0913, PLR0917
    pipeliner: Pipeliner,
    parts: Sequence[str],
    param: Literal["after", "before"],
    cursor: str | None,
    kind: Kind,
    graves: Graves | None,
) -> Member | None:
    if cursor is None:
        return None
    reads: list[Command] = [("ZSCORE", part, cursor) for part in parts]
    if graves is not None:
        reads += graves(cursor)
    for part, score in enumerate(await pipeliner.group(reads)):
        if score is not None:
            return Member(int(score), cursor, part)
    raise InvalidValue(f"No {kind} of this list has the id {cursor}.", param)


async def _walk(
    pipeliner: Pipeliner,
    parts: Sequence[str],
    start: Member | None,
    is_descending: bool,
    limit: int,
) -> list[Member]:
    """The first members past the start: those of a higher score, and those of the same score."""
    commands = [
        (part, command)
        for part, key in enumerate(parts)
        for command in _reads(key, start, is_descending, limit)
    ]
    replies = await pipeliner.group(command for _, command in commands)
    found = [
        member
        for (part, _), reply in zip(commands, replies, strict=True)
        for member in _read_members(part, reply)
        if start is None or _is_past(member, start, is_descending)
    ]
    return sorted(found, reverse=is_descending)[:limit]


def _reads(key: str, start: Member | None, is_descending: bool, limit: int) -> Iterator[Command]:
    direction = ("REV",) if is_descending else ()
    end = "-inf" if is_descending else "+inf"
    if start is None:
        begin = "+inf" if is_descending else "-inf"
    else:
        begin = f"({start.score}"
        yield ("ZRANGE", key, start.score, start.score, "BYSCORE", "WITHSCORES")
    yield ("ZRANGE", key, begin, end, "BYSCORE", *direction, "LIMIT", 0, limit, "WITHSCORES")


def _read_members(part: int, reply: Sequence[Any]) -> Iterator[Member]:
    for member_id, score in zip(reply[::2], reply[1::2], strict=True):
        yield Member(int(score), member_id.decode(), part)


def _is_past(member: Member, start: Member, is_descending: bool) -> bool:
    return member < start if is_descending else member > start
