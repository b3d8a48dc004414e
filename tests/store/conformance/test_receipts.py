"""Receipts are written with their effect or not at all; reservations are agreed on once."""

import asyncio
from contextlib import suppress
from functools import partial

import pytest

from orchestrator.commands import AddMessages, NewMessage
from orchestrator.decisions import Decision
from orchestrator.errors import StaleRevision, StoreUnavailable
from orchestrator.ids import mint
from orchestrator.receipts import Attempt, Filed, Receipt, Remember
from orchestrator.records import Assistant
from orchestrator.repetition import AlreadyDone, once
from orchestrator.shell import change_thread, delete_thread
from orchestrator.storage.valkey import ValkeyStore
from orchestrator.store import Loaded, PageQuery
from tests.store.faults import Faulty
from tests.store.samples import put_thread

RECEIPT = Receipt(made="msg_1", made_ms=1)
FIRST = Attempt("name", 60_000)
REPETITION = Attempt("name", 60_000, is_repetition=True)


def message() -> AddMessages:
    return AddMessages((NewMessage(mint("msg"), "user", ()),))


async def test_a_receipt_is_written_with_its_effect(store: ValkeyStore) -> None:
    thread = await put_thread(store)
    await change_thread(store, thread.id, message(), FIRST)
    filed = await store.receipt("name", thread.id)
    assert filed.revision == 1
    assert await store.receipt("other", thread.id) == Filed()


async def test_nothing_is_written_when_another_receipt_came_between(store: ValkeyStore) -> None:
    thread = await put_thread(store)
    loaded = await store.load(thread.id)
    changed = loaded.aggregate.but(thread=thread.but(metadata={"a": "b"}))
    decision = Decision(changed, remember=Remember("name", 7, RECEIPT, 60_000))
    with pytest.raises(StaleRevision):
        await store.commit(loaded, decision)
    assert (await store.load(thread.id)).aggregate.thread.metadata == {}
    assert await store.receipt("name", thread.id) == Filed()


async def test_an_assistant_is_guarded_by_its_receipt(store: ValkeyStore) -> None:
    remember = Remember("name", 0, RECEIPT, 60_000)
    for made in (True, False):
        assistant = Assistant(id=mint("asst"), created_ms=1, model="m")
        if made:
            await store.put_assistant(assistant, remember=remember)
        else:
            with pytest.raises(StaleRevision):
                await store.put_assistant(assistant, remember=remember)
    assert len((await store.list_assistants(PageQuery())).items) == 1
    assert (await store.receipt("name", None)).receipt == RECEIPT


async def test_repetitions_agree_on_what_the_first_try_reserved(store: ValkeyStore) -> None:
    assert await store.reserve("n", "thread_1", 60_000, is_first=True) == "thread_1"
    for other in ("thread_2", "thread_3"):
        assert await store.reserve("n", other, 60_000, is_first=False) == "thread_1"


async def test_repetitions_at_once_agree_without_a_first_try(store: ValkeyStore) -> None:
    reserving = (store.reserve("n", f"thread_{n}", 60_000, is_first=False) for n in range(20))
    assert len(set(await asyncio.gather(*reserving))) == 1


async def test_after_two_first_tries_a_repetition_goes_its_own_way(store: ValkeyStore) -> None:
    for name in ("thread_1", "thread_2"):
        assert await store.reserve("n", name, 60_000, is_first=True) == name
    assert await store.reserve("n", "thread_3", 60_000, is_first=False) == "thread_3"


async def test_a_key_stays_with_the_request_that_claimed_it(store: ValkeyStore) -> None:
    requests = [f"request {n}" for n in range(10)]
    claims = [store.claim_key("key", request, 60_000) for request in requests]
    (claimed_by,) = set(await asyncio.gather(*claims))
    assert claimed_by in requests
    assert await store.claim_key("another key", "request 1", 60_000) == "request 1"


@pytest.mark.parametrize("kind", ["thread", "assistant"])
@pytest.mark.parametrize("fail_at", range(1, 6))
async def test_who_deletes_is_not_told_that_nothing_was_there_whatever_answer_is_lost(
    store: ValkeyStore, kind: str, fail_at: int
) -> None:
    thread = await put_thread(store)
    await store.put_assistant(Assistant(id="asst_1", created_ms=1, model="m"))

    async def delete(attempt: Attempt) -> None:
        if kind == "thread":
            await delete_thread(store, thread.id, attempt)
        else:
            await once(store, attempt, partial(store.delete_assistant, "asst_1"))

    sound = store.pipeliner
    Faulty(store, fail_at, after=True)
    try:
        await delete(FIRST)
    except StoreUnavailable:  # of a read: the client sends it again
        with suppress(AlreadyDone):
            await delete(REPETITION)
    store.pipeliner = sound


class Overtaken(ValkeyStore):
    """A store whose first commit is overtaken by the repetition of the same request."""

    is_overtaken = False

    async def commit(self, loaded: Loaded, decision: Decision) -> None:
        """As the real one, but too late."""
        if not self.is_overtaken:
            self.is_overtaken = True
            await change_thread(self, loaded.aggregate.thread.id, message(), REPETITION)
        await super().commit(loaded, decision)


async def test_a_first_try_that_comes_behind_its_own_repetition_adds_nothing(
    store: ValkeyStore,
) -> None:
    thread = await put_thread(store)
    store.__class__ = Overtaken
    with pytest.raises(AlreadyDone) as done:
        await change_thread(store, thread.id, message(), FIRST)
    (entry,) = await store.read_entries(thread.id)
    assert entry.model_dump()["id"] == done.value.made
