"""Lists have one strict order, and a walk through the pages shows each item once."""

from collections.abc import Awaitable, Callable, Sequence
from itertools import product
from typing import Any

import pytest

from orchestrator.decisions import PutEntry
from orchestrator.errors import InvalidValue
from orchestrator.ids import mint
from orchestrator.records import Assistant
from orchestrator.storage.valkey import ValkeyStore
from orchestrator.store import Page, PageQuery
from tests.store.samples import change, new_message, put_run, put_thread

Read = Callable[[PageQuery], Awaitable[Page[Any]]]


async def runs_of_a_thread(store: ValkeyStore, count: int) -> tuple[list[str], Read]:
    """Runs, of which several have the same millisecond."""
    thread = await put_thread(store)
    refs = [await put_run(store, thread.id, created_ms=1000 + n // 4) for n in range(count)]

    async def read(query: PageQuery) -> Page[Any]:
        page = await store.list_runs(thread.id, query)
        return Page(tuple(view.run for view in page.items), page.has_more)

    return [ref.run_id for ref in refs], read


async def threads_of_all_partitions(store: ValkeyStore, count: int) -> tuple[list[str], Read]:
    """Threads in several partitions; their times are the store's, so ties are likely."""
    threads = [await put_thread(store) for _ in range(count)]
    return [t.id for t in sorted(threads, key=lambda t: (t.created_ms, t.id))], store.list_threads


async def messages_of_a_thread(store: ValkeyStore, count: int) -> tuple[list[str], Read]:
    """Messages of a thread, whose places have one, two and three digits."""
    thread = await put_thread(store, messages=count)
    entries = await store.read_entries(thread.id)

    async def read(query: PageQuery) -> Page[Any]:
        return await store.list_messages(thread.id, query)

    return [entry.id for entry in entries], read  # type: ignore[union-attr]


async def assistants(store: ValkeyStore, count: int) -> tuple[list[str], Read]:
    """Assistants of one millisecond."""
    found = [Assistant(id=mint("asst"), created_ms=1, model="m") for _ in range(count)]
    for assistant in reversed(found):
        await store.put_assistant(assistant)
    return [assistant.id for assistant in found], store.list_assistants


LISTS = [runs_of_a_thread, threads_of_all_partitions, messages_of_a_thread, assistants]


def expected(ids: Sequence[str], query: PageQuery) -> tuple[list[str], bool]:
    """The page that the documented rules give."""
    ordered = list(ids) if query.order == "asc" else list(reversed(ids))
    start = ordered.index(query.after) + 1 if query.after else 0
    stop = ordered.index(query.before) if query.before else len(ordered)
    between = ordered[start:stop]
    if query.before and not query.after:
        return between[-query.limit :], len(between) > query.limit
    return between[: query.limit], len(between) > query.limit


@pytest.mark.parametrize("prepare", LISTS)
async def test_every_page_is_the_one_that_the_rules_give(
    store: ValkeyStore, prepare: Callable[[ValkeyStore, int], Awaitable[tuple[list[str], Read]]]
) -> None:
    ids, read = await prepare(store, 11)
    cursors = [None, ids[0], ids[1], ids[5], ids[10]]
    for order, limit, after, before in product(("asc", "desc"), (1, 4, 20), cursors, cursors):
        query = PageQuery(limit, order, after, before)  # type: ignore[arg-type]
        page = await read(query)
        assert ([item.id for item in page.items], page.has_more) == expected(ids, query), query


@pytest.mark.parametrize("prepare", LISTS)
async def test_an_unknown_cursor_is_named(
    store: ValkeyStore, prepare: Callable[[ValkeyStore, int], Awaitable[tuple[list[str], Read]]]
) -> None:
    _, read = await prepare(store, 2)
    with pytest.raises(InvalidValue, match="unknown_1") as raised:
        await read(PageQuery(after="unknown_1"))
    assert raised.value.param == "after"
    with pytest.raises(InvalidValue, match="unknown_1") as raised:
        await read(PageQuery(before="unknown_1"))
    assert raised.value.param == "before"


@pytest.mark.parametrize("prepare", LISTS)
async def test_an_empty_list_has_no_more(
    store: ValkeyStore, prepare: Callable[[ValkeyStore, int], Awaitable[tuple[list[str], Read]]]
) -> None:
    _, read = await prepare(store, 0)
    assert await read(PageQuery()) == Page((), has_more=False)


async def test_what_is_added_during_a_walk_disturbs_it_not(store: ValkeyStore) -> None:
    thread = await put_thread(store)
    refs = [await put_run(store, thread.id, created_ms=1000) for _ in range(6)]
    seen: list[str] = []
    query = PageQuery(limit=2)
    while True:
        page = await store.list_runs(thread.id, query)
        seen += [view.run.id for view in page.items]
        if not page.has_more:
            break
        await put_run(store, thread.id, created_ms=1000)
        query = PageQuery(limit=2, after=seen[-1])
    assert seen == [ref.run_id for ref in reversed(refs)]


async def test_messages_of_a_run_are_those_that_it_wrote(store: ValkeyStore) -> None:
    thread = await put_thread(store, messages=2)
    first, second = [await put_run(store, thread.id) for _ in range(2)]
    written = []
    for seq, ref in enumerate((first, second, first, second, first), 2):
        written.append(new_message(thread.id, seq, ref.run_id))
        await change(store, ref, PutEntry(written[-1]))

    page = await store.list_messages(thread.id, PageQuery(limit=2, order="asc"), first.run_id)
    assert page == Page((written[0], written[2]), has_more=True)
    rest = PageQuery(limit=2, order="asc", after=written[2].id)
    assert await store.list_messages(thread.id, rest, first.run_id) == Page((written[4],), False)
    with pytest.raises(InvalidValue):
        await store.list_messages(thread.id, PageQuery(after=written[1].id), first.run_id)
    assert len((await store.list_messages(thread.id, PageQuery())).items) == 7
