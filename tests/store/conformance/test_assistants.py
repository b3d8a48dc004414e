"""Assistants are written under a revision and never come back from the dead."""

import pytest

from orchestrator.errors import NotFound, StaleRevision
from orchestrator.records import Assistant
from orchestrator.storage.valkey import ValkeyStore
from orchestrator.store import Page, PageQuery
from tests.leaks import left_keys
from tests.store.faults import Faulty

ASSISTANT = Assistant(
    id="asst_1", created_ms=5, model="m", temperature=None, metadata={"a": "b"}, tools=({"x": 1},)
)


async def test_an_assistant_is_read_as_it_was_put(store: ValkeyStore) -> None:
    await store.put_assistant(ASSISTANT)
    assert await store.get_assistant("asst_1") == ASSISTANT


async def test_an_assistant_is_replaced(store: ValkeyStore) -> None:
    await store.put_assistant(ASSISTANT)
    changed = ASSISTANT.but(name="Reader")
    await store.modify_assistant("asst_1", {"name": "Reader"})
    assert await store.list_assistants(PageQuery()) == Page((changed,), has_more=False)


async def test_an_id_is_given_once(store: ValkeyStore) -> None:
    await store.put_assistant(ASSISTANT)
    with pytest.raises(StaleRevision):
        await store.put_assistant(ASSISTANT.but(name="Other"))
    assert await store.get_assistant("asst_1") == ASSISTANT


async def test_a_deleted_assistant_is_gone_and_stays_so(store: ValkeyStore) -> None:
    await store.put_assistant(ASSISTANT)
    await store.delete_assistant("asst_1")
    for access in (
        store.get_assistant("asst_1"),
        store.delete_assistant("asst_1"),
        store.modify_assistant("asst_1", {}),
    ):
        with pytest.raises(NotFound, match="No assistant has the id asst_1"):
            await access
    assert await left_keys(store._client, "rs") == []


async def test_a_change_that_meets_a_deletion_brings_nothing_back(store: ValkeyStore) -> None:
    await store.put_assistant(ASSISTANT)
    inner = store.pipeliner

    async def delete() -> None:
        faulty, store.pipeliner = store.pipeliner, inner
        await store.delete_assistant("asst_1")
        store.pipeliner = faulty

    Faulty(store, fail_at=2, after=False, meanwhile=delete)  # the write, after the revision is read
    with pytest.raises(NotFound):
        await store.modify_assistant("asst_1", {"name": "Late"})
